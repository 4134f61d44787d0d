"""What the scores of a run of run_classifier.py depend on."""

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from data.storage import files
from data.storage.json_files import read_json
from modeling.checkpoints.model_folder import weights_sha256
from modeling.config import BertConfig
from training.config.finetuning_options import ClassifierOptions
from training.devices.strategy import precision_of

# Options that change neither the training nor the scores: a run resumes, or
# counts as finished, whatever their values are.
_FREE = {
    *("data_dir", "given", "do_train", "do_eval", "do_predict", "do_export"),
    *("write_texts", "calibrate", "use_calibration", "explain_errors"),
    "eval_checkpoints",
    "vocab_file",  # the checksums of the records depend on it
    *(f"task_options.{name}_file" for name in ("train", "dev", "test")),
    *("task_options.id_column", "task_options.tfds_data_dir"),
    *(f"distillation.{name}" for name in ("teacher_dir", "unlabeled_file")),
    *("finetuning.bert_config_file", "finetuning.init_checkpoint"),
    *("finetuning.eval_batch_size", "finetuning.predict_batch_size"),
    *("finetuning.strip_checkpoint", "finetuning.train.output_dir"),
    *("finetuning.train.on_step", "finetuning.train.save_checkpoints_steps"),
    *("finetuning.train.keep_checkpoint_max", "finetuning.train.log_steps"),
    "finetuning.train.iterations_per_loop",
    "finetuning.train.gradient_checkpointing",
}
# Once for all trials.
_weights_sha256 = functools.lru_cache(maxsize=1)(weights_sha256)


def facts_of(options: ClassifierOptions, inputs: Any) -> dict[str, Any]:
    """Returns all that a run's scores depend on, as values for JSON.

    The names are full names of options, such as `finetuning.train.seed`, and
    `SET_sha256` for a set's records; `inputs` are the run's task and records.
    """
    plain = dataclasses.asdict(options.replace(on_step=None))
    for group in "long_text", "distillation":
        if not getattr(options, group).changed():
            del plain[group]  # the run does not use it
    # `auto` is a different precision on different machines.
    precision = precision_of(options.finetuning.device)
    plain["finetuning"]["device"] = {"precision": precision}
    # The contents of these files, because a path may later hold others.
    config = BertConfig.from_json_file(options.finetuning.bert_config_file)
    plain["bert_config"] = config.to_dict()
    facts = {n: x for n, x in _fields("", plain) if n not in _FREE}
    if path := options.finetuning.init_checkpoint:
        facts["init_checkpoint_sha256"] = _weights_sha256(path)
    for name, records in {"train": inputs.train, **inputs.dev}.items():
        manifest = read_json(records.paths[0] + files.MANIFEST_SUFFIX)
        facts[f"{name}_sha256"] = manifest["sha256"]
    return json.loads(json.dumps(facts, sort_keys=True))


def _fields(prefix: str, values: Mapping) -> Iterator[tuple[str, Any]]:
    """The values of nested options, each with its full name."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _fields(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value

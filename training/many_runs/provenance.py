"""What a run within a run was made from: a trial, or a row of a table.

It is kept beside the run's result, so that a finished one counts and is not
repeated, and none is taken for that of other flags or data.
"""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from data.storage import files
from data.storage.json_files import read_json
from modeling import BertConfig, checkpoints
from training.config.finetuning_options import ClassifierOptions
from training.devices.strategy import precision_of
from training.finetuning.classifier import Inputs

# These change no result, or not the training: a run goes on, or counts as
# done, whatever they are.
_FREE = {
    "data_dir",
    "vocab_file",  # the records are made of it
    "do_train",
    "do_eval",
    "do_predict",
    "eval_checkpoints",
    "finetuning.bert_config_file",
    "finetuning.init_checkpoint",
    "finetuning.eval_batch_size",
    "finetuning.predict_batch_size",
    "finetuning.train.output_dir",
    "finetuning.train.save_checkpoints_steps",
    "finetuning.train.keep_checkpoint_max",
    "finetuning.train.log_steps",
    "finetuning.train.iterations_per_loop",
    "finetuning.train.gradient_checkpointing",
}
_DEVICE, _PRECISION = "finetuning.device.", "finetuning.device.precision"


def facts_of(options: ClassifierOptions, inputs: Inputs) -> dict[str, Any]:
    """All that a run's scores depend on, as JSON gives it back.

    Args:
      options: of the run.
      inputs: its records.

    Returns:
      Name of the option, after those it is within, -> value; SET_sha256 ->
      the checksum of a set's records.
    """
    facts = {
        name: value
        for name, value in _fields("", dataclasses.asdict(options))
        if name not in _FREE and not name.startswith(_DEVICE)
    }
    # Not `auto`, which is another arithmetic on another machine.
    facts[_PRECISION] = precision_of(options.finetuning.device)
    # Not the paths: other weights may come to lie there.
    config = BertConfig.from_json_file(options.finetuning.bert_config_file)
    facts |= _fields("bert_config.", config.to_dict())
    if options.finetuning.init_checkpoint:
        facts["init_checkpoint_sha256"] = _weights_sha256(
            options.finetuning.init_checkpoint
        )
    for name, records in {"train": inputs.train, **inputs.dev}.items():
        manifest = read_json(records.paths[0] + files.MANIFEST_SUFFIX)
        facts[f"{name}_sha256"] = manifest["sha256"]
    return json.loads(json.dumps(facts, sort_keys=True))


@functools.lru_cache(maxsize=1)
def _weights_sha256(path: str) -> str:
    """A checksum of a checkpoint's variables, in either format."""
    checkpoint = checkpoints.open_checkpoint(path)
    checksum = hashlib.sha256()
    for name in sorted(checkpoint.shapes):
        checksum.update(name.encode())
        checksum.update(checkpoint.read(name).tobytes())
    return checksum.hexdigest()


def read_record(path: str, *names: str) -> dict[str, Any]:
    """Reads the record of a run within a run; see `read_json`."""
    return read_json(
        path,
        ("made_from", *names),
        "remove its folder to make it anew",
    )


def check_same(
    path: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """Refuses to mix results of different flags or data.

    Args:
      path: of the record, for the error.
      before: the facts it was made from.
      now: those of this run.

    Raises:
      ValueError: they differ; says in what.
    """
    changed = [
        f"{name.rpartition('.')[2]} {before.get(name)} -> {now.get(name)}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    if changed:
        raise ValueError(
            f"{os.path.dirname(path)} is of other flags or data: "
            f"{'; '.join(changed)}. Give another --output_dir, or remove that "
            "folder to repeat it."
        )


def _fields(prefix: str, values: Mapping) -> Iterator[tuple[str, Any]]:
    """The values of a tree of options, each under its whole name."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _fields(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value

r"""Pretrains BERT, from records to a checkpoint; --objective says for what.

  python run_pretraining.py --do_train --do_eval \
    --input_file=/tmp/records/train.tf_record \
    --bert_config_file=configs/uncased_L-4_H-256_A-4.json \
    --output_dir=/tmp/pretrained --num_train_steps=3000 \
    --num_warmup_steps=300 --learning_rate=5e-4

  python run_pretraining.py --do_predict --predict_file=questions.txt \
    --vocab_file=vocab.txt --output_dir=/tmp/pretrained \
    --bert_config_file=configs/uncased_L-4_H-256_A-4.json

The records come from create_pretraining_data.py; give the same
--max_seq_length and --max_predictions_per_seq. --output_dir holds checkpoints
(model.ckpt-N, by the original's variable names), TensorBoard events and
eval_results.txt; the same command again resumes a run that was stopped.
"""

import os

from absl import logging

from data.pretraining.data_options import OF_MASKS, PretrainingDataOptions
from data.storage import files
from modeling.config import BertConfig
from training import program
from training.config import flags, recipes
from training.config.pretraining_options import PretrainingOptions
from training.config.run_options import DeviceOptions, ExportOptions


def main() -> None:
    """Trains, evaluates, predicts and exports, as the flags ask."""
    _use_recipe()
    exported = _export_options() if flags.value("do_export") else None
    options = flags.read(PretrainingOptions, masking=_masking())
    device, output_dir = flags.read(DeviceOptions), flags.value("output_dir")
    program.load_tensorflow()
    from training.devices import session
    from training.export import saved_model
    from training.runs import pretraining

    with session.joined(device, output_dir, flags.shared_values()) as folder:
        pretraining.run(options.replace(output_dir=folder))
        if exported and folder == output_dir:  # as of the chief
            saved_model.run(exported)


def _masking() -> PretrainingDataOptions | None:
    """How the run masks its records; None = they are masked, or need not be."""
    if flags.value("masking") == "dynamic":
        return flags.read(PretrainingDataOptions)
    for name in OF_MASKS:
        if flags.given(name) is not None:
            raise ValueError(
                f"--{name} is for records without masks; give "
                "--masking=dynamic, too, or leave it out."
            )
    return None


def _use_recipe() -> None:
    """Takes the flags that the command leaves out from --recipe."""
    recipe = flags.value("recipe")
    if not recipes.RECIPES[recipe]:
        return
    values = recipes.values(
        recipe,
        num_train_steps=flags.value("num_train_steps"),
        num_train_minutes=flags.value("num_train_minutes"),
        begins=not any(map(flags.value, ("init_checkpoint", "continue_from"))),
        masks=flags.value("masking") == "dynamic",
        hidden_size=_hidden_size(),
        optimizer=flags.value("optimizer"),
    )
    for name, value in values.items():
        if not flags.FLAGS[name].present:
            flags.FLAGS[name].value = value
    used = (f"--{name}={flags.value(name)}" for name in values)
    logging.info("--recipe=%s: %s", recipe, " ".join(used))
    names = "num_train_minutes", "input_file"
    if flags.value("do_train"):
        recipes.log_best_sizes(*map(flags.value, names))


def _hidden_size() -> int | None:
    """The model's: the same when a run begins and resumes; None = unknown."""
    path = flags.value("bert_config_file")
    if not path or not files.exists(path):
        first = flags.value("init_checkpoint") or ""
        output_dir = flags.value("output_dir")
        run = _run_folder(output_dir)
        # As `found_files.find`; the first weights may be gone.
        folders = filter(None, (first, os.path.dirname(first), run, output_dir))
        path = files.first_of(("bert_config.json", "config.json"), *folders)
    return BertConfig.from_json_file(path).hidden_size if path else None


def _run_folder(output_dir: str) -> str:
    """The folder of the run that goes on; "" = a run begins."""
    # Before its first checkpoint a folder may hold files of another model.
    of_run = ("checkpoint", "model.ckpt-*.index")  # as `tf1.has_run`
    has_run = any(files.find_in(output_dir, name) for name in of_run)
    return output_dir if has_run else flags.value("continue_from") or ""


def _export_options() -> ExportOptions:
    """What to export; refuses what the original has no counterpart of."""
    options = flags.read(ExportOptions)
    if options.serving.like_original or options.format == "litert":
        raise ValueError(
            "--serving_like_original and --export_format=litert are for "
            "fine-tuned models, but this one is pretrained; leave them out."
        )
    return options


if __name__ == "__main__":
    flags.define(recipes.RecipeOptions)
    flags.define(
        PretrainingOptions, num_train_steps=100000, num_warmup_steps=10000
    )
    flags.define(
        PretrainingDataOptions, only=("masking", *OF_MASKS), is_new=True
    )
    flags.define(ExportOptions)
    program.run(main)

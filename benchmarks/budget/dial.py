"""Which model, vocabulary and batch are best for a text and minutes: a table.

What a minute has time for is measured once for each model, first, on a machine
that does nothing else. From then on updates are counted, so that a run may be
stopped, and others may run beside it. The same command goes on. --output_dir
gets dial.md and dial.tsv.
"""

import functools
import itertools
import re
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import tables
from benchmarks.budget import hour
from benchmarks.budget.inputs import Inputs
from benchmarks.peers.inputs import read_text
from benchmarks.programs import (
    require_same,
    result_in,
    run_once,
    run_with_log,
)
from data.settings import Settings, setting
from data.storage import files
from demo import sizes
from studies.engine.study_options import StudyData
from training import program
from training.config import flags

_WORDPIECES = 30522  # of a model with --vocab_file
_POSITIONS = 512
_TASK, _NUM_SEEDS = "tags", 2
_COLUMNS = (
    *("megabytes", "minutes", "model", "wordpieces", "batch", "updates"),
    *("masked-LM loss", "tags"),
)


class Model(NamedTuple):
    """A model that is tried; `wordpieces` 0 = --vocab_file's."""

    layers: int
    width: int
    wordpieces: int
    batch: int

    @classmethod
    def parse(cls, text: str) -> "Model":
        """Reads layers x width / wordpieces / batch."""
        found = re.fullmatch(r"(\d+)x(\d+)/(\d+)/(\d+)", text)
        if not found:
            raise ValueError(
                f"--models={text}: give LAYERSxWIDTH/WORDPIECES/BATCH, such as "
                "4x256/8000/32."
            )
        return cls(*map(int, found.groups()))

    @property
    def name(self) -> str:
        """Of its folders."""
        return f"{self.layers}x{self.width}_{self.wordpieces}_{self.batch}"


class DialOptions(Settings):
    """What is compared."""

    output_dir: str = setting(help="Folder of the results and of all runs.")
    text: str = setting(help="Text of at least --megabytes; may be gzipped.")
    vocab_file: str = setting(help="The vocabulary of models with 0.")
    models: tuple[str, ...] = setting(
        help="LAYERSxWIDTH/WORDPIECES/BATCH, with a vocabulary of WORDPIECES "
        "learned from the text; 0 = --vocab_file."
    )
    megabytes: tuple[int, ...] = setting((1, 5, 20), "Sizes of the text.")
    minutes: tuple[int, ...] = setting((5, 15, 60), "Minutes of pretraining.")


def main() -> None:
    """Does what is not done yet, and reports after each run."""
    options, data = flags.read(DialOptions), flags.read(StudyData)
    data.check_files()
    given = {name: getattr(options, name) for name in ("text", "vocab_file")}
    for path in given.values():
        files.require_file(path, "text or vocabulary")
    size = read_text(options.text, 0)[1] / 1e6
    if size < max(options.megabytes):
        raise ValueError(
            f"--text={options.text} has {size:.1f} MB; give a longer one, or "
            "fewer --megabytes."
        )
    models = [Model.parse(text) for text in options.models]
    program.load_tensorflow()
    from benchmarks.budget import tasks

    sums = {name: files.sha256(path) for name, path in given.items()}
    require_same(options.output_dir, **sums, **tasks.checksums(data))
    updates = {model: _updates(options, model) for model in models}
    for minutes, megabytes, model in itertools.product(
        options.minutes, options.megabytes, models
    ):
        name = f"{megabytes}mb_{minutes}min_{model.name}"
        place = Path(options.output_dir, name)
        inputs, given = _inputs(options, megabytes, model)
        given["num_train_steps"] = minutes * updates[model]
        facts = {"steps": given["num_train_steps"]}
        run = functools.partial(_values, place, inputs, given, data)
        run_once(place, facts, run, "result.json")
        _report(Path(options.output_dir))


def _values(
    place: Path, inputs: Inputs, given: dict[str, Any], data: StudyData
) -> dict[str, Any]:
    """Pretrains and fine-tunes; returns what the table shows."""
    from training.loop.events import read_eval_results

    model = hour.pretrain(place, inputs, **given)
    loss = read_eval_results(str(place / "model/eval_results.txt"))
    tags = hour.finetune(place / _TASK, _TASK, model, data, _NUM_SEEDS)
    return {"loss": loss["masked_lm_loss"], "values": [*tags]}


def _updates(options: DialOptions, model: Model) -> int:
    """Returns the updates that a minute has time for, measured once."""
    from training.loop.checkpointing import CheckpointManager

    inputs, given = _inputs(options, options.megabytes[0], model)
    folder = Path(options.output_dir, f"minute_{model.name}")
    hour.pretrain(folder, inputs, num_train_minutes=1, **given)
    return CheckpointManager(str(folder / "model")).steps()[-1]


def _inputs(
    options: DialOptions, megabytes: int, model: Model
) -> tuple[Inputs, dict[str, Any]]:
    """Returns the records of a model, and the flags that it is trained with.

    Models share text, vocabulary and records where these are alike.
    """
    out = Path(options.output_dir)
    folder = out / f"records_{megabytes}mb_{model.wordpieces}"
    vocab_file, config = options.vocab_file, f"{out}/{model.name}.json"
    if model.wordpieces:
        vocab_file = str(folder / "vocab.txt")
    inputs = Inputs(folder, options.text, vocab_file, config, megabytes)
    if not Path(vocab_file).exists():
        run_with_log(
            folder / "vocab.log",
            "build_vocab.py",
            input_file=inputs.text("train"),
            output_file=vocab_file,
            vocab_size=model.wordpieces,
        )
    words = model.wordpieces or _WORDPIECES
    sizes.write_config(config, words, model.layers, model.width, _POSITIONS)
    given = {
        "recipe": "budget",
        "train_batch_size": model.batch,
        "vocab_file": vocab_file,
        "bert_config_file": config,
    }
    return inputs, given


def _report(folder: Path) -> None:
    """Writes dial.md and dial.tsv, of all that is done."""
    rows = []
    for path in folder.glob("*min_*/result.json"):
        if result := result_in(path):
            megabytes, minutes, model, *sizes = path.parent.name.split("_")
            mean = sum(result["values"]) / len(result["values"])
            rows.append(
                [int(megabytes[:-2]), int(minutes[:-3]), model]
                + [*map(int, sizes), result["made_from"]["steps"]]
                + [f"{result['loss']:.2f}", f"{mean:.1f}"]
            )
    rows.sort()
    text = tables.table(_COLUMNS, rows)
    tables.write(folder, "dial", [_COLUMNS, *rows], text)


if __name__ == "__main__":
    flags.define(DialOptions)
    flags.define(StudyData, only=["conllu_dir"])
    program.run(main)

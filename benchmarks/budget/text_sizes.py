"""How much text a model needs: a table of this folder's README.md.

FILE:MB takes the beginning of a text. `make demo` divides the texts, and
chooses case and vocabulary.
"""

from pathlib import Path

import numpy as np

from benchmarks.peers.inputs import read_text
from benchmarks.programs import require_same, run_with_log
from benchmarks.tables import table
from data.pretraining import corpus
from data.settings import Settings, setting
from data.storage import files, manifests
from demo import sizes
from demo.run_demo import LENGTH, PARTS, PREDICTIONS, make_records
from training import program
from training.config import flags

_MOST_WORDPIECES = 5000  # of a vocabulary
_COLUMNS = (
    *("text", "wordpieces", "vocabulary", "loss: frequencies"),
    *("best (updates)", "at the end", "words right", "most frequent word"),
)


class SizesOptions(Settings):
    """What is measured."""

    output_dir: str = setting(help="Folder of all runs.")
    texts: tuple[str, ...] = setting(help="FILE or FILE:MEGABYTES.")
    num_train_steps: int = setting(700, "Updates of each run.", least=1)
    eval_every_steps: int = setting(100, "Updates between evaluations.")


def main() -> None:
    """Measures the texts one after the other."""
    options = flags.read(SizesOptions)
    program.load_tensorflow()
    rows = [measure(options, text) for text in options.texts]
    print(table(_COLUMNS, rows))


def measure(options: SizesOptions, text: str) -> tuple[str, ...]:
    """Trains on one text; returns its row of the table."""
    from training.loop import events

    path, _, megabytes = text.partition(":")
    name = f"{Path(path).stem}_{megabytes or 'all'}"
    out = Path(options.output_dir, name)
    require_same(
        out,
        text=files.sha256(path),
        num_train_steps=options.num_train_steps,
        eval_every_steps=options.eval_every_steps,
    )
    if not (out / "model/eval_results.txt").exists():
        _make_records(out, path, float(megabytes or 0))
        _pretrain(out, options)
    points = events.read_points(str(out / "model/eval"))
    losses, right = (points[f"masked_lm_{tag}"] for tag in ("loss", "accuracy"))
    best = min(losses, key=losses.get)
    manifest = manifests.read(manifests.path_of([f"{out}/train.tf_record"]))
    frequencies, commonest = _baselines(out, manifest["vocab_size"])
    return (
        name,
        f"{manifest['counts']['wordpieces']:,}",
        f"{manifest['vocab_size']:,}",
        f"{frequencies:.2f}",
        f"{losses[best]:.2f} ({best})",
        f"{losses[max(losses)]:.2f}",
        f"{right[best]:.1%}",
        f"{commonest:.1%}",
    )


def _make_records(out: Path, path: str, megabytes: float) -> None:
    """Writes texts, vocabulary, records and the model's sizes."""
    text = f"{out}/text.txt"
    lines, _ = read_text(path, megabytes)
    files.write_text(text, "\n".join([*lines, ""]))
    corpus.write(f"{out}/train.txt", f"{out}/eval.txt", text=text)
    chosen = sizes.of_text(f"{out}/train.txt", _MOST_WORDPIECES, 0)
    make_records(out, chosen)
    words = sum(1 for _ in files.read_lines(f"{out}/vocab.txt"))
    sizes.write_config(f"{out}/bert_config.json", words, 2, 128, LENGTH)


def _pretrain(out: Path, options: SizesOptions) -> None:
    run_with_log(
        out / "log.txt",
        "run_pretraining.py",
        do_train=True,
        do_eval=True,
        recipe="budget",
        input_file=f"{out}/train.tf_record",
        eval_file=f"{out}/eval.tf_record",
        bert_config_file=f"{out}/bert_config.json",
        output_dir=f"{out}/model",
        max_seq_length=LENGTH,
        max_predictions_per_seq=PREDICTIONS,
        train_batch_size=32,
        learning_rate=1e-3,
        num_train_steps=options.num_train_steps,
        eval_every_steps=options.eval_every_steps,
        eval_batch_size=32,
        max_eval_steps=64,
        fuse=True,
    )


def _baselines(out: Path, num_words: int) -> tuple[float, float]:
    """Loss of the training text's frequencies; share of the commonest."""
    import tensorflow as tf

    from data.records import feature_spec, reading

    specs = feature_spec.pretraining_features(LENGTH, PREDICTIONS)
    counts = {}
    for part in PARTS:
        counts[part] = np.zeros(num_words)
        path = f"{out}/{part}.tf_record"
        for batch in tf.data.TFRecordDataset(path).batch(1000):
            found = reading.parse_batch(specs, batch)
            real = found["masked_lm_weights"].numpy() > 0
            words = found["masked_lm_ids"].numpy()[real]
            counts[part] += np.bincount(words, minlength=num_words)
    known = counts["train"] + 1
    asked = counts["eval"] / counts["eval"].sum()
    loss = -(asked * np.log(known / known.sum())).sum()
    return float(loss), float(asked.max())


if __name__ == "__main__":
    flags.define(SizesOptions)
    program.run(main)

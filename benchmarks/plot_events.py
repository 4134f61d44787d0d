r"""Draws the learning curves of a run from its TensorBoard events.

  python benchmarks/plot_events.py --output_dir=/tmp/pretrained \
    --png=curves.png

One panel shows losses, one accuracies. Lines are training, dots are evaluations
on other records.
"""

import pathlib

import tensorflow as tf
from absl import app, flags
from matplotlib import pyplot

FLAGS = flags.FLAGS


def read_points(folder: pathlib.Path) -> dict[str, dict[int, float]]:
    """Returns name -> {step: value} of a folder's event files.

    Of a step that was written twice, by a resumed run, the last value counts.
    """
    points: dict[str, dict[int, float]] = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                number = float(tf.make_ndarray(value.tensor))
                points.setdefault(value.tag, {})[event.step] = number
    return points


def main(_):
    """Draws the two panels."""
    folder = pathlib.Path(FLAGS.output_dir)
    training, evaluation = read_points(folder), read_points(folder / "eval")
    if not training:
        raise SystemExit(f"error: no events with figures in {folder}.")
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8), dpi=110)
    for axis, title in zip(axes, ("loss", "accuracy"), strict=True):
        for color, label in ("C0", "masked_lm"), ("C1", "next_sentence"):
            name, label = f"{label}_{title}", label.replace("_", " ")
            steps = zip(*sorted(training[name].items()), strict=True)
            axis.plot(*steps, color=color, label=label)
            if name in evaluation:
                dots = zip(*sorted(evaluation[name].items()), strict=True)
                axis.plot(*dots, "o", color=color, label=f"{label}, held out")
        axis.set_xlabel("step")
        axis.set_title(title)
        axis.grid(alpha=0.3)
    axes[0].legend(loc="center right")
    figure.suptitle(FLAGS.title)
    figure.tight_layout()
    figure.savefig(FLAGS.png)


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", None, "Folder of a run.", required=True)
    flags.DEFINE_string("png", None, "Picture to write.", required=True)
    flags.DEFINE_string("title", "", "Above the picture.")
    app.run(main)

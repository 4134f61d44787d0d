r"""Draws a run's learning curves from its TensorBoard events.

  python benchmarks/plot_events.py --output_dir=/tmp/pretrained \
    --png=curves.png

One panel for losses, one for accuracies; lines are training, dots are the
evaluations on other records.
"""

import pathlib

import matplotlib
import tensorflow as tf
from absl import app, flags

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (after the choice of backend)

FLAGS = flags.FLAGS
PANELS = {
    "loss": ("masked_lm_loss", "next_sentence_loss"),
    "accuracy": ("masked_lm_accuracy", "next_sentence_accuracy"),
}


def read_points(folder: pathlib.Path) -> dict[str, dict[int, float]]:
    """Returns name -> {step: value} of a folder's event files.

    A step that stands twice (a run resumed from before it) counts as it was
    written last.
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
    for axis, (title, names) in zip(axes, PANELS.items(), strict=True):
        for color, name in zip(("C0", "C1"), names, strict=True):
            label = name.removesuffix(f"_{title}").replace("_", " ")
            steps, values = zip(*sorted(training[name].items()), strict=True)
            axis.plot(steps, values, color=color, label=label)
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

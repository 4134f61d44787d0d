r"""Draws the learning curves of runs, from their TensorBoard events.

    python run_plot.py --runs=/tmp/small,/tmp/large --png=curves.png

    python run_plot.py --runs='/tmp/trials/trial-*' --tags=loss,accuracy \
        --png=trials.png

A panel for each tag; lines are training, lines with dots evaluations on other
records. Folders whose names differ only in `seedN` are one curve, their mean,
with a band from the lowest to the highest.
"""

from absl import logging

from data.settings import Settings, optional, setting
from data.storage import outputs
from training import program
from training.config import flags


class PlotOptions(Settings):
    """Which curves are drawn, and where to."""

    runs: tuple[str, ...] = setting(
        help="Comma-separated output_dirs of runs, or globs of them."
    )
    tags: tuple[str, ...] | None = optional(
        "Names of the curves; default: all losses and scores."
    )
    png: str = setting(help="The picture to write.")


def main() -> None:
    """Reads the events and draws them."""
    options = flags.read(PlotOptions)
    outputs.check({}, {"png": [options.png]})
    program.load_tensorflow()
    from training import curves

    found = curves.read(options.runs)
    tags = curves.draw(found, options.png, options.tags)
    names = dict.fromkeys(name for name, _ in found)
    logging.info("%s: %s of %s", options.png, ", ".join(tags), ", ".join(names))


if __name__ == "__main__":
    flags.define(PlotOptions)
    program.run(main)

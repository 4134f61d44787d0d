"""The scores of several trainings of a task, and which of them is best.

Source: the paper's sections 4.1 and A.3.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from training.config.finetuning_options import ClassifierOptions
from training.finetuning.metric_values import Results, flat, goodness


class Trial(NamedTuple):
    """One training and what it scored.

    Attributes:
      options: options of its run.
      results: dev set -> metric -> value; {} if it failed.
      seconds: from its start to its scores, without pauses.
      failure: why `results` is empty; "" if it did not fail.
    """

    options: ClassifierOptions
    results: Results
    seconds: float
    failure: str

    @property
    def setting(self) -> tuple[float, float, int]:
        """Learning rate, epochs, batch size: all but the seed."""
        names = "learning_rate", "num_train_epochs", "train_batch_size"
        return tuple(map(self.options.find, names))

    def value(self, metric: str) -> float:
        """Its score; nan if it failed."""
        return flat(self.results)[metric] if self.results else math.nan


def summarize(trials: Sequence[Trial], metric: str) -> Iterator[list]:
    """Yields a row for each setting, in the order of its first trial.

    It is the setting, the median, least and largest score and their deviation
    without the trials that failed, and the number of trials.
    """
    for setting in dict.fromkeys(trial.setting for trial in trials):
        values = [t.value(metric) for t in trials if t.setting == setting]
        scored = [value for value in values if not math.isnan(value)]
        summaries = statistics.median, min, max
        figures = [f(scored) if scored else None for f in summaries]
        spread = statistics.stdev(scored) if len(scored) > 1 else None
        failed = len(values) - len(scored)
        count = f"{len(values)}" + (f" ({failed} failed)" if failed else "")
        yield [*map(short, setting), *figures, spread, count]


def choose(trials: Sequence[Trial], metric: str) -> Trial:
    """Returns the best trial of the setting whose median is the best.

    A failed trial counts as the worst possible. Of equal settings and trials,
    the first is taken. Raises ValueError if all of them failed.
    """
    if all(math.isnan(trial.value(metric)) for trial in trials):
        first = trials[0].failure or f"its {metric} is nan"
        raise ValueError(f"all {len(trials)} trials failed; the first: {first}")

    def rank(trial: Trial) -> float:
        return goodness(metric, trial.value(metric))

    def rank_of_setting(setting: tuple) -> tuple[float, float]:
        ranks = [rank(trial) for trial in trials if trial.setting == setting]
        scored = [x for x in ranks if x > -math.inf]
        # Settings of which most trials failed differ only in the others.
        return statistics.median(ranks), statistics.median(scored or ranks)

    best = max((trial.setting for trial in trials), key=rank_of_setting)
    return max((t for t in trials if t.setting == best), key=rank)


def short(number: float) -> str:
    """5e-05 as people write it, 5e-5; 3.0 as 3."""
    return f"{number:g}".replace("e-0", "e-")

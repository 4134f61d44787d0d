"""A study whose runs are made up, and its options."""

import numpy as np

from studies.engine.declaring import Row, Study
from studies.engine.plan import PRETRAINING
from studies.engine.study_options import StudyData, StudyOptions

PAPER = (80.0, 81.5, 79.0, 80.0)
NAMES = ("base", "better", "worse", "equal")


def made_up_study(measures=("tags", "casing", "perplexity")):
    """A base, and rows that the paper finds better, worse and equal."""
    return Study(
        title="Made up",
        source="Nobody, Table 0",
        question="Does the engine count?",
        rows=tuple(
            Row(name=name, title=name, paper=(number,))
            for name, number in zip(NAMES, PAPER, strict=True)
        ),
        columns=("F1",),
        measures=measures,
        nearest={"tags": "F1", "casing": "F1"},
    )


def options(folder, given=None, **changes):
    """Two fine-tunings of each row of a study in a folder; `given` data."""
    values = {"num_trials": 2, "study": "made_up", "scale": "tiny"} | changes
    data = given or StudyData()
    return StudyOptions(output_dir=str(folder), data=data, **values)


class MadeUpRuns:
    """Runs that return random numbers, and note that they were made.

    Args:
      fail_at: number of the run at which `fail` is called; 0 = never.
      fail: see fail_at.
    """

    def __init__(self, fail_at=0, fail=None):
        self.made = []
        self._fail_at, self._fail = fail_at, fail

    def __call__(self, job):
        """Prepares a run, as `Programs` does."""

        def function():
            self.made.append((job.row.name, job.run, job.seed))
            if len(self.made) == self._fail_at:
                self._fail()
            return values_of(job)

        return {"row": job.row.name, "run": job.run}, function


def values_of(job):
    """The results of a made-up run; they depend on the run alone."""
    if job.run == PRETRAINING:
        return {}
    rng = np.random.default_rng([NAMES.index(job.row.name), job.seed])
    names = ("token_accuracy", "masked_lm_perplexity", "other", "spearman")
    return dict(zip(names, rng.uniform(0.5, 1.0, 4).tolist(), strict=True))

"""Runs run_pretraining.py with other constants of Adam, which are no flags.

python -m benchmarks.budget.with_constants BETA_2=0.98 --do_train ...
"""

import runpy
import sys

from training.loop import optimizers

if __name__ == "__main__":
    while not sys.argv[1].startswith("--"):
        name, value = sys.argv.pop(1).split("=")
        kind = type(getattr(optimizers, name))
        setattr(optimizers, name, kind(value))
    runpy.run_path("run_pretraining.py", run_name="__main__")

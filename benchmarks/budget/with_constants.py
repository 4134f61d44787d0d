r"""Runs run_pretraining.py with other constants of Adam, which are no flags.

python benchmarks/budget/with_constants.py BETA_2=0.98 -- --do_train ...
"""

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from training.loop import optimizers  # noqa: E402

if __name__ == "__main__":
    end = sys.argv.index("--")
    for text in sys.argv[1:end]:
        name, value = text.split("=")
        kind = type(getattr(optimizers, name))
        setattr(optimizers, name, kind(value))
    sys.argv[1 : end + 1] = []
    runpy.run_path(str(ROOT / "run_pretraining.py"), run_name="__main__")

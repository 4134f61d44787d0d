"""--recipe: which flags it stands for, and which it leaves alone."""

import itertools
import json

import pytest

from tests.support import flags_support
from training.config import recipes

STEPS = 200


def values(recipe="budget", **changes):
    usual = {"begins": True, "masks": True, "hidden_size": None}
    usual |= {"num_train_steps": STEPS, "num_train_minutes": 0.0}
    usual |= {"optimizer": "adamw"}
    return recipes.values(recipe, **usual | changes)


def test_the_budget_has_a_warm_up_of_ten_percent():
    expected = recipes.RECIPES["budget"] | {"num_warmup_steps": 0.1 * STEPS}
    assert values() == expected


@pytest.mark.parametrize(
    ("hidden_size", "rate"), [(None, 5e-4), (128, 1e-3), (512, 2.5e-4)]
)
def test_a_wider_model_has_a_lower_rate(hidden_size, rate):
    assert values(hidden_size=hidden_size)["learning_rate"] == rate
    muon = values(hidden_size=hidden_size, optimizer="muon")
    assert muon["learning_rate"] == 4 * rate


@pytest.mark.parametrize("of", ["num_train_steps", "num_train_minutes"])
def test_a_long_run_has_twice_the_rate(of):
    """Not if minutes are given, and are few, whatever the steps are."""
    least = {"num_train_steps": 600, "num_train_minutes": 15}[of]
    for hidden_size, factor in (None, 2), (128, 1), (256, 2), (512, 1):
        short, long, muon = (
            values(hidden_size=hidden_size, **changes)["learning_rate"]
            for changes in (
                {"num_train_steps": 10**6, of: least - 1},
                {of: least, "begins": False},
                {of: least, "optimizer": "muon"},
            )
        )
        assert (long, muon) == (factor * short, 4 * short)
    # Without short rows, which it was measured with.
    assert values(**{of: least}, masks=False)["learning_rate"] == 5e-4


def test_the_original_changes_nothing():
    assert recipes.RECIPES["original"] == {}


def test_weights_from_elsewhere_stay_and_records_with_masks_are_not_cut():
    missing = values().keys() - values(begins=False).keys()
    assert missing == {"first_weights", "short_rows_share"}
    missing = values().keys() - values(masks=False).keys()
    assert missing == {"short_rows_share"}


def test_every_flag_of_a_recipe_exists(pytestconfig):
    rows = flags_support.parse("run_pretraining", [], pytestconfig.rootpath)
    assert values().keys() <= rows["defaults"].keys()


def test_the_nearest_measurement_is_taken():
    for minutes, wordpieces in recipes.BEST:
        measured = recipes.BEST[minutes, wordpieces]
        for a, b in itertools.product((0.8, 1, 1.25), repeat=2):
            found = recipes.best_sizes(a * minutes, round(b * wordpieces))
            assert found == measured
    # Far outside of what was measured.
    assert recipes.best_sizes(0.01, 1) == recipes.BEST[min(recipes.BEST)]


@pytest.mark.parametrize("minutes", [0, 15])
def test_the_best_sizes_are_named_before_training(minutes, tmp_path, logged):
    (tmp_path / "r").write_bytes(b"four")
    shards = [{"file": "r", "counts": {"bytes": 4}}]
    manifest = {"made_from": {}, "counts": {"wordpieces": 1_200_000}}
    manifest["shards"] = shards
    (tmp_path / "r.manifest.json").write_text(json.dumps(manifest))
    recipes.log_best_sizes(minutes, str(tmp_path / "r"))
    named = str(recipes.best_sizes(15, 1_200_000))
    assert (named in logged.text) is bool(minutes)

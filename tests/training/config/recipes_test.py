"""--recipe: which flags it stands for, and which it leaves alone."""

from tests.support import flags_support
from training.config import recipes

STEPS = 200


def values(recipe="budget", begins=True, masks=True):
    return recipes.values(
        recipe, num_train_steps=STEPS, begins=begins, masks=masks
    )


def test_the_budget_has_a_warm_up_of_ten_percent():
    expected = recipes.RECIPES["budget"] | {"num_warmup_steps": 0.1 * STEPS}
    assert values() == expected


def test_the_original_changes_nothing():
    assert values("original") == {}


def test_weights_that_come_from_elsewhere_stay():
    missing = values().keys() - values(begins=False).keys()
    assert missing == {"first_weights", "short_rows_share"}


def test_records_with_masks_are_not_cut():
    missing = values().keys() - values(masks=False).keys()
    assert missing == {"short_rows_share"}


def test_every_flag_of_a_recipe_exists(pytestconfig):
    rows = flags_support.parse("run_pretraining", [], pytestconfig.rootpath)
    assert values().keys() <= rows["defaults"].keys()

"""--recipe: which flags it stands for, and which it leaves alone."""

from tests.support import flags_support
from training.config import recipes

STEPS = 200


def values(recipe="budget", begins=True):
    return recipes.values(recipe, num_train_steps=STEPS, begins=begins)


def test_the_budget_has_a_warm_up_of_ten_percent():
    expected = recipes.RECIPES["budget"] | {"num_warmup_steps": 0.1 * STEPS}
    assert values() == expected


def test_the_original_changes_nothing():
    assert values("original") == {}


def test_weights_that_come_from_elsewhere_stay():
    missing = values().keys() - values(begins=False).keys()
    assert missing == {"first_weights"}


def test_every_flag_of_a_recipe_exists(pytestconfig):
    rows = flags_support.parse("run_pretraining", [], pytestconfig.rootpath)
    assert values().keys() <= rows["defaults"].keys()

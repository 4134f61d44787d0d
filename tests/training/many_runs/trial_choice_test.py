"""Which trials there are, and which of them is chosen, by hand."""

import math
import os

import pytest

from training.config.finetuning_options import TrialOptions
from training.many_runs import trials
from training.many_runs.trial_choice import Trial, choose, short, summarize


def made_trials(options, table):
    """Trials by learning rate -> values; None = it failed."""
    found = []
    for rate, values in table.items():
        asked = TrialOptions(num_trials=len(values), learning_rates=(rate,))
        planned = trials.trials_of(options, asked)
        for one, value in zip(planned, values, strict=True):
            results = {} if value is None else {"dev": {"f1": value, "mse": 1}}
            found.append(Trial(one, results, 1.0, "" if results else "nan!"))
    return found


def test_a_setting_is_summed_up_by_its_finished_trials(options):
    found = made_trials(options, {5e-5: [0.1, 0.4, 0.2, None], 3e-5: [0.7]})
    first, second = summarize(found, "f1")
    # The deviation of 1, 4, 2: mean 7/3, squares 42/9, over n - 1 = 2.
    deviation = pytest.approx(math.sqrt(42 / 9 / 2) / 10)
    assert first == ["5e-5", "1", "8", 0.2, 0.1, 0.4, deviation, "4 (1 failed)"]
    assert second == ["3e-5", "1", "8", 0.7, 0.7, 0.7, None, "1"]


@pytest.mark.parametrize(
    ("table", "rate", "seed"),
    [
        # The best median, not the best trial; its best seed.
        ({5e-5: [0.9, 0.1, 0.2], 3e-5: [0.3, 0.5, 0.4]}, 3e-5, 12346),
        # Ties: the first setting, the first seed.
        ({5e-5: [0.4, 0.6, 0.6], 3e-5: [0.7, 0.6, 0.5]}, 5e-5, 12346),
        # What failed is worse than anything: medians 0.3 and none.
        ({5e-5: [0.9, None, None], 3e-5: [0.1, 0.3, 0.4]}, 3e-5, 12347),
        ({5e-5: [0.3, None, 0.2], 3e-5: [0.1, 0.1, 0.1]}, 5e-5, 12345),
        # Most trials failed everywhere: the finished ones decide.
        ({5e-5: [0.3, None], 3e-5: [None, 0.4]}, 3e-5, 12346),
        ({5e-5: [None, None], 3e-5: [None, -0.4]}, 3e-5, 12346),
        ({5e-5: [math.nan, 0.0]}, 5e-5, 12346),
    ],
)
def test_the_best_seed_of_the_best_median_is_chosen(options, table, rate, seed):
    chosen = choose(made_trials(options, table), "f1")
    assert (chosen.setting[0], chosen.options.find("seed")) == (rate, seed)


def test_errors_count_downwards(options):
    found = made_trials(options, {5e-5: [0.2], 3e-5: [0.2]})
    worse = found[0]._replace(results={"dev": {"loss": 2.0}})
    better = found[1]._replace(results={"dev": {"loss": 1.0}})
    assert choose([worse, better], "loss") is better


def test_if_all_fail_there_is_nothing_to_choose(options):
    found = made_trials(options, {5e-5: [None, None]})
    with pytest.raises(ValueError, match="all 2 trials failed; the first: nan"):
        choose(found, "f1")


def test_settings_times_seeds_each_in_its_folder(options):
    settings = {"learning_rates": (5e-5, 0.001), "epochs": (2.0, 2.5)}
    asked = TrialOptions(num_trials=2, batch_sizes=(16,), **settings)
    planned = list(trials.trials_of(options, asked))
    folders = [one.finetuning.train.output_dir for one in planned]
    assert [os.path.basename(folder) for folder in folders] == [
        f"trial-lr{rate}-epochs{epochs}-batch16-seed{seed}"
        for rate in ("5e-5", "0.001")
        for epochs in ("2", "2.5")
        for seed in (12345, 12346)
    ]
    assert planned[3].finetuning.num_train_epochs == 2.5
    assert planned[3].finetuning.train.train_batch_size == 16
    assert planned[3].finetuning.train.seed == 12346
    assert short(2e-5) == "2e-5"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_trials": 0}, "--num_trials=0; it must be at least 1"),
        ({"epochs": (2, 3, 2)}, "--trial_epochs=2,3,2 has a value twice"),
        ({"batch_sizes": (16, 0)}, "--trial_batch_sizes=16,0; .* at least 1"),
    ],
)
def test_impossible_trials_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        TrialOptions(**changes)

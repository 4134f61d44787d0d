import json
import shutil

import numpy as np
import pytest

from data.records import feature_spec
from tests.support.objectives_support import CONFIG
from tests.support.pretraining_support import read_all, refused
from tests.support.records_support import write_examples
from training.runs import pretraining

POSITIONS = "bert/embeddings/position_embeddings"


def write_records(path, length):
    """Sixteen records of any ids, all of them real."""
    rng = np.random.default_rng(length)
    columns = {
        "input_ids": rng.integers(0, 50, (16, length)),
        "input_mask": np.ones((16, length), int),
        "segment_ids": rng.integers(0, 2, (16, length)),
        "masked_lm_positions": rng.integers(0, length, (16, 3)),
        "masked_lm_ids": rng.integers(0, 50, (16, 3)),
        "masked_lm_weights": np.ones((16, 3)),
        "next_sentence_labels": rng.integers(0, 2, (16, 1)),
    }
    specs = feature_spec.pretraining_features(length, 3)
    return write_examples(path, specs, columns)


@pytest.fixture
def phases(options, tmp_path):
    """Options of a run at length 128, and of one at length 512."""
    config = CONFIG | {"vocab_size": 50, "max_position_embeddings": 512}
    (tmp_path / "config.json").write_text(json.dumps(config))
    made = []
    for length in (128, 512):
        made.append(
            options.replace(
                bert_config_file=str(tmp_path / "config.json"),
                input_file=write_records(tmp_path / f"{length}", length),
                init_checkpoint=None,
                max_seq_length=length,
                max_predictions_per_seq=3,
                output_dir=str(tmp_path / f"run-{length}"),
                train_batch_size=4,
            )
        )
    return made


def test_a_longer_phase_starts_from_the_weights_alone(phases, tmp_path):
    short, long = phases
    pretraining.run(short)
    # A rate too small to move anything: what is saved is what was loaded.
    pretraining.run(
        long.replace(
            init_checkpoint=short.train.output_dir,
            num_train_steps=1,
            learning_rate=1e-30,
        )
    )
    before = read_all(tmp_path / "run-128/model.ckpt-2")
    after = read_all(tmp_path / "run-512/model.ckpt-1")
    weights = [n for n in before if not n.endswith(("adam_m", "adam_v"))]
    weights.remove("global_step")
    for name in weights:
        np.testing.assert_array_equal(after[name], before[name])
    # One step, of its own schedule, with slots of its own: the positions that
    # the first phase never saw have learned as much as the others.
    assert after["global_step"] == 1
    for slots, seen in ((before, 128), (after, 512)):
        moved = np.abs(slots[f"{POSITIONS}/adam_m"]).max(axis=1)
        assert (moved[:seen] > 0).all()
        assert not moved[seen:].any()


@pytest.mark.all
def test_one_schedule_over_two_lengths(phases, tmp_path, caplog):
    short, long = phases
    train = {"num_train_steps": 4, "num_warmup_steps": 1}
    pretraining.run(short.replace(stop_at_step=3, **train))
    pretraining.run(long.replace(continue_from=short.train.output_dir, **train))
    before = read_all(tmp_path / "run-128/model.ckpt-3")
    after = read_all(tmp_path / "run-512/model.ckpt-4")
    assert (before["global_step"], after["global_step"]) == (3, 4)
    # The last rate is 0, so only the slots change.
    np.testing.assert_array_equal(after[POSITIONS], before[POSITIONS])
    v = f"{POSITIONS}/adam_v"
    assert (after[v] >= 0.999 * before[v] * (1 - 1e-6)).all()
    assert (after[v][128:] > before[v][128:]).all()
    # The second run has begun with the first; another one would be ignored.
    train |= {"num_train_steps": 5, "continue_from": str(tmp_path / "other")}
    shutil.copytree(tmp_path / "run-128", tmp_path / "other")
    pretraining.run(long.replace(**train))
    assert "--continue_from is not used: " in caplog.text
    # Nor is it needed any more.
    shutil.rmtree(tmp_path / "other")
    pretraining.run(long.replace(**train | {"num_train_steps": 6}))
    assert (tmp_path / "run-512/model.ckpt-6.index").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"continue_from": "a", "init_checkpoint": "b"},
            "--continue_from=a contradicts --init_checkpoint=b; drop one.",
        ),
        (
            {"continue_from": "a", "do_train": False, "do_eval": True},
            "--continue_from needs --do_train; give that, too, or drop",
        ),
        (
            {"continue_from": "out/", "output_dir": "out"},
            "--continue_from=out/ is the --output_dir, where a run resum",
        ),
    ],
)
def test_flags_that_contradict_are_refused(options, changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        options.replace(**{"init_checkpoint": None} | changes)


def test_a_first_phase_that_cannot_be_continued_is_refused(phases, tmp_path):
    message = "^--continue_from=/no/run is not there; g"
    _, long = phases
    refused(long, message, FileNotFoundError, continue_from="/no/run")
    other = tmp_path / "other"
    other.mkdir()
    config = json.loads((tmp_path / "config.json").read_text())
    config["num_attention_heads"] = 4
    (other / "bert_config.json").write_text(json.dumps(config))
    message = "other holds a run of another model: num_attention_heads 4 -> 2"
    refused(long, message, continue_from=str(other))

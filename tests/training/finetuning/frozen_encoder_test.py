"""A head on a frozen encoder: what is trained, kept, resumed, refused."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from modeling import TaskModel, bilstm, checkpoints
from tests.support import rounding
from tests.training.finetuning_support import (
    losses_with_and_without,
    make_options,
    on_one_and_two_devices,
    open_start,
    options_of,
    stopped_and_resumed,
    write_tagged,
)
from tests.training.support import recorded_metrics
from training.finetuning import finetuner
from training.loop.checkpointing import CheckpointManager, ResumePoint
from training.runs import classifier


def make_run(options, *, mix="weighted_all", head="bilstm"):
    make_model = functools.partial(
        TaskModel, kind="tagging", num_labels=3, feature_based=mix, head=head
    )
    return finetuner.Finetuning(open_start(options, make_model))


@pytest.mark.all
def test_a_frozen_encoder_stays_bit_for_bit_and_has_no_slots(goldens, tmp_path):
    config = str(goldens / "bert_config.json")
    run = make_run(make_options(goldens, tmp_path, bert_config_file=config))
    before = {n: v.numpy() for n, v in run._weights.items()}
    step = run.train(write_tagged(tmp_path))
    assert step == 4
    saved = checkpoints.Checkpoint(run.manager.prefix(step))
    for name, value in before.items():
        frozen = name.startswith("bert/")
        assert np.array_equal(saved.read(name), value) == frozen, name
        assert (f"{name}/adam_m" in saved.shapes) != frozen, name
    assert {n.split("/")[0] for n in before} == {
        *("bert", "layer_mix", "bilstm", "output_weights", "output_bias")
    }


@pytest.mark.parametrize(
    "before, now", [("linear", "bilstm"), ("bilstm", "linear")]
)
def test_a_head_of_another_shape_is_new(goldens, tmp_path, caplog, before, now):
    first = make_run(make_options(goldens, tmp_path / "a"), mix="", head=before)
    weights = first._weights
    for variable in weights.values():
        variable.assign_add(tf.ones_like(variable))
    first.manager.save(weights, ResumePoint(1, 8, 12345, 19))
    caplog.clear()
    options = make_options(
        goldens, tmp_path / "b", init_checkpoint=str(tmp_path / "a")
    )
    found = make_run(options, mix="", head=now)._weights
    assert "all but the head is taken" in caplog.text
    for name, variable in found.items():
        is_taken = name in weights and np.array_equal(variable, weights[name])
        assert is_taken == checkpoints.is_of_encoder(name), name


@pytest.mark.all
def test_a_stopped_run_ends_as_an_uninterrupted_one(goldens, tmp_path):
    # With the dropout of BiLSTM and head.
    options = make_options(goldens, tmp_path)
    train_files = write_tagged(tmp_path)
    assert stopped_and_resumed(make_run, options, train_files, stop=3) == 4


@pytest.mark.all
@pytest.mark.parametrize(
    ("flag", "micro_batches"),
    [("trim_batches", 1), ("trim_batches", 2), ("xla", 1)],
)
def test_what_makes_it_faster_gives_the_same_steps(
    goldens, tmp_path, monkeypatch, flag, micro_batches
):
    monkeypatch.setattr(bilstm, "DROPOUT", 0.0)
    options = make_options(
        goldens,
        tmp_path,
        learning_rate=1e-4,
        gradient_accumulation_steps=micro_batches,
    )
    found = losses_with_and_without(
        flag, make_run, options, write_tagged(tmp_path)
    )
    rounding.assert_equal(*found, rtol=rounding.EQUAL)


def train_and_score(goldens, out, device):
    """Losses and results without dropout."""
    bilstm.DROPOUT = 0.0
    changes = {"num_train_epochs": 1.0, "device": device}
    run = make_run(make_options(goldens, out / "run", **changes))
    run.model._head_dropout = 0.0
    files = write_tagged(out)
    with recorded_metrics() as metrics:
        run.train(files)
    return metrics["loss"].tolist(), run.evaluate(files)[0]


@pytest.mark.all
def test_two_devices_train_and_score_alike(goldens, tmp_path):
    found = on_one_and_two_devices(train_and_score, goldens, tmp_path)
    (one, results), (two, same) = found
    rounding.assert_equal(one, two)
    assert results == pytest.approx(same, abs=rounding.TRAINED_OUTPUTS)


@pytest.mark.parametrize(
    ("mix", "rate", "warns"),
    [("last", 5e-5, True), ("last", 1e-3, False), ("", 5e-5, False)],
)
def test_a_low_rate_is_warned_of(goldens, tmp_path, caplog, mix, rate, warns):
    head = {"feature_based": mix, "head": "bilstm"}
    rates = {"learning_rate": rate}
    options = options_of(goldens, tmp_path, "tagging", rates, **head)
    classifier._warn_of_rate(options)
    assert ("needs 1e-3 to 3e-3" in caplog.text) == warns


def test_a_folder_keeps_its_head(goldens, tmp_path, monkeypatch):
    options = make_options(goldens, tmp_path)
    manager, path = CheckpointManager(str(tmp_path)), tmp_path / "head.json"

    # Another mix has the same variables.
    monkeypatch.setattr(CheckpointManager, "check", lambda *_: None)

    def keep(mix, head):
        head = {"feature_based": mix, "head": head}
        make_model = functools.partial(
            TaskModel, kind="tagging", num_labels=3, **head
        )
        open_start(options, make_model, head=head).keep()

    keep("last", "bilstm")
    assert path.exists()
    # Nothing is trained yet: it may be anything else, or as ever.
    keep("", "linear")
    assert not path.exists()
    keep("last", "bilstm")
    manager.save({}, ResumePoint(4, 32, 12345, 19))
    keep("last", "bilstm")
    for other, head, message in (
        ("embeddings", "bilstm", "--feature_based 'last' -> 'embeddings'."),
        ("", "linear", "--feature_based 'last' -> '', --head 'bilstm' -> "),
    ):
        with pytest.raises(ValueError, match=f"holds a run .*: {message}"):
            keep(other, head)
    # A run of the original, or one without these flags, has no such file.
    path.unlink()
    keep("", "linear")
    with pytest.raises(ValueError, match="--head 'linear' -> 'bilstm'. Give"):
        keep("", "bilstm")

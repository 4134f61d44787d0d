"""--separate_documents of run_pretraining.py: rows of --join_documents."""

import numpy as np
import pytest

from data.pretraining.data_options import PretrainingDataOptions
from tests.data.pretraining.support import recipe_of, shard_names
from tests.data.pretraining.support import write as write_shards
from tests.support.pretraining_support import refused, train
from tests.support.run_files import results_in
from tests.training.support import assert_near_weights
from training.runs import pretraining

_MASKING = PretrainingDataOptions(max_seq_length=64, max_predictions_per_seq=10)


@pytest.fixture(scope="module")
def joined(goldens, tmp_path_factory):
    """How records are masked -> records of the golden corpus."""
    corpus = goldens / "pretraining_data/corpus.txt"
    found = {}
    for masking in ("static", "dynamic"):
        folder = tmp_path_factory.mktemp(masking)
        recipe = recipe_of(
            goldens / "vocab.txt",
            masking=masking,
            next_sentence_prediction=False,
            join_documents=True,
        )
        write_shards([corpus], folder, recipe, num_shards=1)
        (found[masking],) = shard_names(folder, 1)
    return found


@pytest.fixture
def separated(options, joined, goldens):
    """Two steps on joined documents, each of which sees itself alone."""
    return options.replace(
        input_file=joined["dynamic"],
        vocab_file=str(goldens / "vocab.txt"),
        masking=_MASKING,
        separate_documents=True,
        do_eval=True,
        max_eval_steps=2,
    )


def _losses(folder):
    """Those of an evaluation."""
    return {n: x for n, x in results_in(folder).items() if "loss" in n}


@pytest.mark.all
@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_training_and_evaluation_see_one_document(
    separated, tmp_path, joined, masking
):
    if masking == "static":
        separated = separated.replace(masking=None, input_file=joined["static"])
    apart = train(separated, tmp_path / "apart")
    whole = {"separate_documents": False, "do_eval": False}
    together = train(separated, tmp_path / "together", **whole)
    table = "bert/embeddings/word_embeddings"
    assert not np.array_equal(apart[table], together[table])
    # The same weights, evaluated in both ways.
    for name, separates in (("same", True), ("other", False)):
        pretraining.run(
            separated.replace(
                do_train=False,
                init_checkpoint=str(tmp_path / "apart/model.ckpt-2"),
                output_dir=str(tmp_path / name),
                separate_documents=separates,
            )
        )
        found = _losses(tmp_path / name)
        assert (found == _losses(tmp_path / "apart")) == separates


@pytest.mark.all
def test_batches_may_be_divided_and_cut(separated, tmp_path):
    given = {"dropout_prob": 0.0, "group_by_length": True}
    whole = train(separated, tmp_path / "whole", **given)
    parts = train(
        separated, tmp_path / "parts", gradient_accumulation_steps=2, **given
    )
    assert_near_weights(parts, whole)


@pytest.mark.all
@pytest.mark.parametrize("objective", ["left_to_right", "replaced_tokens"])
def test_other_objectives_see_one_document_too(separated, tmp_path, objective):
    given = {"objective": objective, "masking": None, "init_checkpoint": None}
    train(separated, tmp_path / "apart", **given)
    given |= {"separate_documents": False}
    train(separated, tmp_path / "together", **given)
    assert _losses(tmp_path / "apart") != _losses(tmp_path / "together")


def test_pairs_are_refused_before_training(options, goldens, tmp_path):
    vocab = {"vocab_file": str(goldens / "vocab.txt")}
    message = "^--separate_documents: .* holds sentence pairs, whose parts must"
    refused(options, message, separate_documents=True, **vocab)
    assert not any((tmp_path / "out").iterdir())  # nothing is written


def test_records_and_a_vocabulary_are_needed(options):
    for changes, message in (
        ({"do_train": False, "strip_checkpoint": True}, "needs --do_train or"),
        ({"init_checkpoint": None}, "--vocab_file"),
    ):
        with pytest.raises(ValueError, match=message):
            options.replace(separate_documents=True, **changes)

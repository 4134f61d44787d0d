"""What a TPU would run of every program, compiled as a whole by XLA.

Every strategy counts as a TPUStrategy, so that a step takes the road of a TPU:
words looked up by a matrix product, no trimming, each device updating its own
copy of the weights.
"""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from data.pretraining import documents, queries
from data.pretraining.data_options import PretrainingDataOptions, Wordpieces
from data.pretraining.dynamic_masking import mask_batches
from data.pretraining.masking import Masker
from data.records import feature_spec, input_pipeline, length_batches
from data.records.input_pipeline import Shard
from data.squad.windows import feature_specs
from data.text.tokenization import FullTokenizer
from data.text.vocabulary import load_vocab
from data.vectors import text_rows
from modeling import BertModel, PretrainingModel, SpanModel, TaskModel
from modeling.choices import MIXES
from modeling.kernels import vocabulary
from modeling.objectives.tasks import HEADS, KINDS
from tests.support import rounding, tpu_support
from tests.support.classifier_support import write_records
from tests.support.model_folders import write_released
from tests.support.objectives_support import LENGTH, PREDICTIONS, write_vocab
from tests.support.objectives_support import write_records as write_unmasked
from tests.support.vectors_support import extracted
from tests.training.finetuning_support import make_options, make_run, open_start
from tests.training.support import golden_records, steps_of
from training.finetuning import finetuner
from training.inference import Evaluator, OutputCollector
from training.loop import trainer
from training.pretraining import answers
from training.runs import pretraining
from training.runs import vectors as extraction
from training.vectors.extractor import Extractor, VectorOptions

pytestmark = pytest.mark.all

NUM_LABELS = {"regression": 1}
LEARNING_RATE = 1e-3
# XLA rounds to 16 bits in other places than the step that is not compiled:
# each of both rounds through one block and a head, forward and back.
NUM_ROUNDINGS = (2 * 2) * (
    rounding.EMBEDDINGS + rounding.BLOCK + 2 * rounding.DENSE + 1
)
TOLERANCES = {
    "float32": rounding.EQUAL,
    "mixed_bfloat16": rounding.deviation(1, "bfloat16", NUM_ROUNDINGS),
    "mixed_float16": rounding.deviation(1, "float16", NUM_ROUNDINGS),
}
# A first update is 0.1 / sqrt(0.001) learning rates in the direction of the
# gradient's sign, which is only rounding where the gradient is near 0.
OPPOSITE_SIGNS = 2 * np.sqrt(10) * LEARNING_RATE
SLOW = pytest.mark.slow


@pytest.fixture(autouse=True)
def on_a_tpu(monkeypatch):
    """Every strategy is an instance of `tf.distribute.TPUStrategy`."""
    monkeypatch.setattr(tf.distribute, "TPUStrategy", tf.distribute.Strategy)
    monkeypatch.setattr(vocabulary, "on_tpu", lambda: True)


def first_of(batches):
    """The first batch; all of them have its shapes."""
    tpu_support.assert_static(batches)
    return next(iter(batches))


def check_training(model, batch, tolerance=rounding.EQUAL, **options):
    """Compiles and runs an update, clipping and the optimizer included."""
    shape = {"train_batch_size": len(batch["input_ids"])}
    steps = steps_of(model, learning_rate=LEARNING_RATE, **shape, **options)
    is_exact = model.bert.compute_dtype == "float32"
    before = steps.weights["bert/encoder/layer_0/output/dense/kernel"].numpy()
    tpu_support.assert_same_results(
        steps._replica_step,
        steps.saved,
        (batch, tf.constant(3, tf.int64), tf.constant(2.5)),
        tolerance=tolerance,
        of_variables=tolerance if is_exact else OPPOSITE_SIGNS,
    )
    after = steps.weights["bert/encoder/layer_0/output/dense/kernel"].numpy()
    if model.bert.compute_dtype != "float16":  # a first update may overflow
        is_frozen = not model.bert.trainable
        assert np.array_equal(before, after) == is_frozen


def check_answers(step, batch, tolerance=rounding.EQUAL):
    """Compiles and runs what changes no weights."""
    tpu_support.assert_same_results(step, {}, (batch,), tolerance=tolerance)


def task_model(config, kind, **options):
    """A model whose labels are never so close that rounding chooses one.

    The score counts right labels: one tie fallen the other way is 1, whatever
    the tolerance of what was rounded. Choices share one bias, so the weights
    are the same ones at each run, too.
    """
    keras.utils.set_random_seed(1)
    model = TaskModel(
        config,
        kind,
        NUM_LABELS.get(kind, 3),
        use_one_hot_embeddings=True,
        **options,
    )
    bias = model.head.output_bias
    bias.assign(tf.range(bias.shape[0], dtype=tf.float32))
    return model


def task_files(tmp_path, kind):
    """Seven examples, so that the last batch of four is filled up."""
    return write_records(
        tmp_path,
        [5, 16, 9, 3, 12, 7, 4],
        kind=kind,
        seq_length=16,
        num_labels=NUM_LABELS.get(kind, 3),
    )


def check_task(config, tmp_path, kind, *, trains=True, **options):
    """Compiles and runs the steps of run_classifier.py."""
    tolerance = TOLERANCES[options.get("dtype", "float32")]
    model = task_model(config, kind, **options)
    opened = task_files(tmp_path, kind)
    shape = {"batch_size": 4, "num_choices": 3 if kind == "choice" else 1}
    asked = length_batches.all_examples(opened, trim=False, **shape)
    check_answers(
        OutputCollector(model)._replica_step, first_of(asked), tolerance
    )
    if trains:
        batches = length_batches.training_batches(opened, seed=1, **shape)
        check_training(model, first_of(batches), tolerance)


RECOMPUTED = {"gradient_checkpointing": True}
MICRO_BATCHES = {"gradient_accumulation_steps": 2}
SLOW_OPTIONS = (
    {"dtype": "mixed_bfloat16", "optimizer": "lamb", **RECOMPUTED},
    {"dtype": "mixed_bfloat16"},
    {"dtype": "mixed_float16", **MICRO_BATCHES},
    {"optimizer": "lamb", **MICRO_BATCHES},
    {"optimizer": "muon"},
    {**RECOMPUTED, **MICRO_BATCHES},
    {"xla": True},
    {"layerwise_lr_decay": 0.9, "trainable_layers": 1},
)


@pytest.mark.parametrize(
    "options",
    [MICRO_BATCHES, *(pytest.param(x, marks=SLOW) for x in SLOW_OPTIONS)],
    ids=str,
)
def test_pretraining_trains(config, goldens, options):
    options = dict(options)
    dtype = options.pop("dtype", "float32")
    model = PretrainingModel(
        config,
        dtype=dtype,
        use_one_hot_embeddings=True,
        gradient_checkpointing=options.get("gradient_checkpointing", False),
    )
    batch = first_of(pretraining_batches(goldens))
    check_training(model, batch, TOLERANCES[dtype], **options)


def pretraining_batches(goldens):
    return input_pipeline.training_batches(
        golden_records(goldens), batch_size=8, seed=1
    )


def test_pretraining_within_documents_trains(config, goldens):
    # The first part of a pair is a document here.
    vocab = FullTokenizer(str(goldens / "vocab.txt")).vocab
    batches = documents.number_documents(
        pretraining_batches(goldens), vocab["[SEP]"]
    )
    model = PretrainingModel(config, use_one_hot_embeddings=True)
    batch = first_of(batches)
    assert set(batch["document_ids"].numpy().ravel()) == {0, 1, 2}
    check_training(model, batch)


def test_pretraining_evaluates(config, goldens):
    batches = input_pipeline.evaluation_batches(
        golden_records(goldens), batch_size=8
    )
    model = PretrainingModel(config, use_one_hot_embeddings=True)
    check_answers(Evaluator(model)._replica_step, first_of(batches))


def test_pretraining_answers_queries(config, goldens):
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"))
    asked = [
        queries.make_query(text, tokenizer)
        for text in ("the [MASK] went [MASK]", "a man ||| he went")
    ]
    batch = queries.query_batch(asked, 64, max_predictions=2)
    model = PretrainingModel(config, use_one_hot_embeddings=True)
    check_answers(
        answers.Answers(None, model, tokenizer, asked)._replica_step,
        {name: tf.constant(value) for name, value in batch.items()},
    )


def test_masks_made_while_reading_have_one_shape(tmp_path):
    options = PretrainingDataOptions(
        max_seq_length=LENGTH, max_predictions_per_seq=PREDICTIONS
    )
    opened = input_pipeline.open_records(
        [write_unmasked(tmp_path / "unmasked.tf_record")],
        feature_spec.pretraining_features(LENGTH, PREDICTIONS, masked=False),
        limits={},
    )
    vocab = load_vocab(write_vocab(tmp_path / "vocab.txt"))
    batches = mask_batches(
        input_pipeline.training_batches(opened, batch_size=4, seed=1),
        Masker(Wordpieces.from_vocab(vocab), options),
        seed=1,
        batch_size=4,
    )
    assert first_of(batches)["masked_lm_ids"].shape == [4, PREDICTIONS]


# `classification` is predicted where it is trained.
@pytest.mark.parametrize("kind", sorted({*KINDS} - {"classification"}))
def test_run_classifier_predicts(config, tmp_path, kind):
    check_task(config, tmp_path, kind, trains=False)


def test_run_classifier_trains(config, tmp_path):
    check_task(config, tmp_path, "classification", class_weights=(1, 5, 2))


@SLOW
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_head_trains(config, tmp_path, kind, head, dtype):
    check_task(config, tmp_path, kind, head=head, dtype=dtype)


@pytest.mark.parametrize(
    "mix",
    [
        pytest.param(mix, marks=() if mix == "weighted_all" else SLOW)
        for mix in MIXES
    ],
)
def test_a_frozen_encoder_under_a_bilstm(config, tmp_path, mix):
    blocks = 4 if "four" in mix else 2 if "second" in mix else 1
    config = dataclasses.replace(config, num_hidden_layers=blocks)
    check_task(config, tmp_path, "tagging", feature_based=mix, head="bilstm")


def squad_files(goldens, is_training):
    """The original's records of training; evaluation reads less of them."""
    return input_pipeline.open_records(
        [str(goldens / "squad/train-v1.1.tf_record")],
        feature_specs(96, is_training),
        limits={},
    )


@pytest.mark.parametrize(
    "score_padding", [False, pytest.param(True, marks=SLOW)]
)
def test_run_squad_trains_and_predicts(config, goldens, score_padding):
    model = SpanModel(
        config, score_padding=score_padding, use_one_hot_embeddings=True
    )
    batches = length_batches.training_batches(
        squad_files(goldens, True), batch_size=4, seed=1
    )
    check_training(model, first_of(batches))
    asked = length_batches.all_examples(
        squad_files(goldens, False), batch_size=4, trim=False
    )
    check_answers(OutputCollector(model)._replica_step, first_of(asked))


@pytest.mark.parametrize(
    "options",
    [
        {"whole_words": True, "layer_mix": "sum"},
        {"pooling": "mean", "layer_mix": "concat"},
        {"attention": True, "layers": (0,)},
        pytest.param({}, marks=SLOW),
        pytest.param({"pooling": "cls"}, marks=SLOW),
        pytest.param({"pooling": "max"}, marks=SLOW),
    ],
)
def test_extract_features_runs_lines_of_one_shape(config, goldens, options):
    tokenizer = FullTokenizer(str(goldens / "vocab.txt"))
    lines = ["the man went to the store", "he ||| went", ""]
    rows = [text_rows.RowMaker(tokenizer, 32).line(line) for line in lines]
    extractor = Extractor(
        BertModel(config, use_one_hot_embeddings=True),
        VectorOptions(**{"layers": (-1, "embeddings"), **options}),
        max_seq_length=32,
        batch_size=4,
    )
    batch, one = extractor._pad(rows), extractor._pad(rows[1:2])
    shapes = {name: value.shape for name, value in batch.items()}
    assert shapes == {name: value.shape for name, value in one.items()}
    assert set(shapes.values()) == {(4, 32)}
    check_answers(
        extractor._replica_step,
        {name: tf.constant(value) for name, value in batch.items()},
    )


def test_every_program_looks_words_up_by_a_product(
    options, goldens, tmp_path, monkeypatch
):
    class Made(Exception): ...

    def make(*_, use_one_hot_embeddings, **__):
        assert use_one_hot_embeddings
        raise Made

    class Model(PretrainingModel):
        def __init__(self, config, **encoder_options):
            super().__init__(config)
            if encoder_options:  # none if only shapes are asked for
                make(**encoder_options)

    # They have no --use_tpu: only the strategy tells.
    with pytest.raises(Made):
        tuning = make_options(goldens, tmp_path, init_checkpoint=None)
        finetuner.Finetuning(open_start(tuning, Model))
    monkeypatch.setattr(pretraining.objectives, "get", lambda name: Model)
    with pytest.raises(Made):
        pretraining.run(options)
    monkeypatch.setattr(extraction, "BertModel", make)
    released = write_released(goldens, tmp_path / "released")
    with pytest.raises(Made):
        extracted(released, tmp_path, ["the man went to the store"])


@pytest.mark.parametrize("what", ["train", "predict"])
def test_a_run_on_a_tpu_never_trims(goldens, tmp_path, monkeypatch, what):
    seen = []
    monkeypatch.setattr(
        trainer.Trainer,
        "train",
        lambda self, make_batches, *_, **__: seen.append(
            make_batches(0, Shard())
        ),
    )

    def no_outputs(self, make_batches, *_):
        seen.append(make_batches(Shard()))
        names = "is_real_example", "example_index"
        yield dict.fromkeys(names, [np.zeros([0, 1], int)])

    monkeypatch.setattr(OutputCollector, "over", no_outputs)
    opened = task_files(tmp_path, "classification")
    options = make_options(
        *(goldens, tmp_path),
        init_checkpoint=None,
        max_seq_length=16,
        train_batch_size=4,
    )
    run = make_run(options, num_labels=3)
    run.train(opened) if what == "train" else run.outputs(opened)
    tpu_support.assert_static(seen[0])
    assert seen[0].element_spec["input_ids"].shape[1] == 16

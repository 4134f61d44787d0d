import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import BertModel, LayerMix, MaskedLM
from tests.modeling.keras_support import (
    BATCH,
    CONFIG,
    IDS,
    LABELS,
    MASK,
    SEGMENTS,
    Classifier,
    compiled,
    cross_entropy,
    functional,
    learned,
    losses_of_fit,
    sequential,
)
from tests.support import fork_server, rounding
from tests.support.tiers import rare

BFLOAT16 = {"dtype": "mixed_bfloat16"}


# Inputs


@pytest.fixture(scope="module")
def bert():
    keras.utils.set_random_seed(1)
    return BertModel(CONFIG)


@pytest.fixture(scope="module")
def pooled(bert):
    return bert(*map(tf.constant, BATCH.values())).pooled_output


@pytest.mark.parametrize(
    "inputs",
    [
        (IDS.astype(np.int64), MASK.astype(bool), SEGMENTS.astype(np.uint8)),
        (IDS.tolist(), MASK.tolist(), SEGMENTS.tolist()),
        (list(IDS), list(MASK), list(SEGMENTS)),
        (tf.constant(IDS), tf.constant(MASK == 1), tf.constant(SEGMENTS)),
        (IDS.astype(np.float32), MASK.astype(np.float32), SEGMENTS),
        (BATCH,),
        ({name: x.tolist() for name, x in BATCH.items()},),
        ({"input_ids": IDS, "input_mask": MASK, "token_type_ids": SEGMENTS},),
    ],
    ids=lambda inputs: type(inputs[0]).__name__,
)
def test_all_kinds_of_inputs_are_one(bert, pooled, inputs):
    np.testing.assert_array_equal(bert(*inputs).pooled_output, pooled)


def test_missing_inputs_mean_all_real_and_segment_0(bert):
    want = bert(IDS, np.ones_like(IDS), np.zeros_like(IDS)).pooled_output
    ids = {"input_ids": IDS}
    for inputs in (IDS, ids, ids | {"input_mask": None}):
        np.testing.assert_array_equal(bert(inputs).pooled_output, want)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (([101, 102],), r"input_ids has the shape \(2,\); expected \[batch"),
        (([],), r"input_ids has the shape \(0,\)"),
        (([[1, 2], [3]],), r"lengths \(1, 2\); pad them, .* input_mask with 0"),
        ((IDS, [[[1, 1], [1]]]), r"lengths \(1, 2\); pad them"),
        ((tf.ragged.constant([[1, 2], [3]]),), "ids is ragged; .*to_tensor"),
        ((np.array([["a"]]),), "input_ids holds texts, .* tokenize them"),
        ((np.ones([1, 7], np.int32),), "7 wordpieces long.* 6 positions"),
        ((IDS, MASK[:, :5]), r"input_mask has the shape \(8, 5\), but .*8, 6"),
        ((IDS, np.ones([8, 6, 1])), r"mask has the shape \(8, 6, 1\), but"),
        ((IDS, np.ones([8, 5, 6])), r"mask has the shape \(8, 5, 6\), but"),
        ((IDS, None, IDS[0]), r"token_type_ids has the shape \(6,\), but"),
        (({"ids": IDS},), "a dict of ids; expected input_ids and"),
        (({},), "a dict of nothing; expected input_ids"),
        (({**BATCH, "label": IDS},), "mask, label, segment_ids; expected"),
        (({**BATCH, "token_type_ids": IDS},), "one of segment_ids and token_"),
        ((BATCH, MASK), "give all inputs in the dict, or none"),
    ],
)
def test_wrong_inputs_are_refused_with_a_remedy(bert, inputs, message):
    with pytest.raises(ValueError, match=message):
        bert(*inputs)


def test_an_unknown_output_is_refused(bert):
    message = "output_key 'cls'; it must be one of sequence_output, pooled_"
    with pytest.raises(ValueError, match=message):
        BertModel(CONFIG, output_key="cls")
    with pytest.raises(ValueError, match=message):
        bert(IDS, output_key="cls")


def test_one_output_is_that_of_all(bert):
    every = bert(IDS)
    for key, want in {
        "sequence_output": every.get_sequence_output(),
        "pooled_output": every.pooled_output,
        "embedding_output": every.embedding_output,
        "embedding_table": bert.get_embedding_table().value,
    }.items():
        np.testing.assert_array_equal(bert(IDS, output_key=key), want)


@pytest.mark.parametrize("first", ["BertModel", "Embeddings"])
def test_ids_are_never_rounded_to_16_bits(first):
    # Keras makes an input in the first layer's compute dtype.
    layer = BertModel(CONFIG, output_key="pooled_output", **BFLOAT16)
    if first == "Embeddings":
        layer = layer.embeddings
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    message = r'ids of bfloat16, which .*keras.Input\(\[None\], dtype="int32'
    with pytest.raises(ValueError, match=message):
        model(IDS)
    with pytest.raises(ValueError, match=message):  # as a model casts them
        layer(tf.cast(IDS, tf.bfloat16))


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_variables_may_have_other_than_32_bits(dtype, one_hot):
    bert = BertModel(CONFIG, dtype=dtype, use_one_hot_embeddings=one_hot)
    pooled = bert(IDS).pooled_output
    assert pooled.dtype == dtype
    assert np.isfinite(pooled).all()


def test_a_mix_needs_all_layers(bert):
    pooled = BertModel(CONFIG, output_key="sequence_output")
    with pytest.raises(ValueError, match="output_key out"):
        LayerMix(CONFIG)(pooled(IDS))
    # Without an Input, Keras makes the ids float32, which is exact.
    mixed = keras.Sequential([bert, LayerMix(CONFIG)])
    np.testing.assert_array_equal(mixed(IDS), bert(IDS).all_encoder_layers[-1])


# Training


@pytest.mark.parametrize(
    ("make", "inputs", "settings", "options"),
    [
        rare(functional, BATCH, {}, {}),
        (Classifier, BATCH, {}, {"run_eagerly": True}),
        rare(Classifier, BATCH, BFLOAT16, {"jit_compile": True}),
        rare(sequential, IDS, BFLOAT16, {}),
        rare(Classifier, BATCH, {"gradient_checkpointing": True}, {}),
    ],
    ids=["functional", "eager", "xla", "sequential", "recomputed"],
)
def test_fit_drops_and_evaluate_does_not(make, inputs, settings, options):
    keras.utils.set_random_seed(1)
    model = compiled(make(**settings), rate=0.0, **options)
    first, second = losses_of_fit(model, inputs, epochs=2)
    plain = model.evaluate(inputs, LABELS, batch_size=8, verbose=0)
    scores = model.predict(inputs, batch_size=8, verbose=0)
    assert scores.shape == (8, 3)
    # The outputs are the same; the loss is a mean of eight float32 numbers.
    assert plain == pytest.approx(cross_entropy(scores), abs=rounding.EQUAL)
    assert abs(first - plain) > 1e-3
    assert abs(second - plain) > 1e-3
    assert abs(first - second) > 1e-3


# Files


@pytest.mark.all
@pytest.mark.parametrize(
    ("make", "inputs"),
    [(Classifier, BATCH), (functional, BATCH), (sequential, IDS)],
)
def test_a_saved_model_predicts_and_trains_the_same(make, inputs, tmp_path):
    keras.utils.set_random_seed(1)
    model = compiled(make())
    losses_of_fit(model, inputs, epochs=1)
    want = model.predict(inputs, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(inputs, verbose=0), want)
    assert np.isfinite(losses_of_fit(again, inputs, epochs=1)).all()

    model.save_weights(tmp_path / "a.weights.h5")
    losses_of_fit(model, inputs, epochs=1)
    assert not np.array_equal(model.predict(inputs, verbose=0), want)
    model.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(model.predict(inputs, verbose=0), want)

    options = {"verbose": False}
    if make is Classifier:  # Keras would take floats
        spec = tf.TensorSpec([None, None], tf.int32)
        options["input_signature"] = [dict.fromkeys(BATCH, spec)]
    model.export(tmp_path / "exported", **options)
    exported = tf.saved_model.load(tmp_path / "exported")
    rounding.assert_equal(
        exported.serve(tf.nest.map_structure(tf.constant, inputs)), want
    )


def test_a_mix_of_layers_reads_the_whole_output(tmp_path):
    two_blocks = dataclasses.replace(CONFIG, num_hidden_layers=2)
    model = keras.Sequential(
        [
            keras.Input([None], dtype="int32"),
            BertModel(two_blocks),
            LayerMix(two_blocks, "second_to_last"),
        ]
    )
    want = model.layers[0](IDS).all_encoder_layers[-2]
    np.testing.assert_array_equal(model(IDS), want)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(IDS), want)


@pytest.mark.all
@pytest.mark.filterwarnings("ignore:Gradients do not exist.*pooler")
def test_a_masked_lm_shares_the_table_in_files_too(tmp_path):
    ids, bert = keras.Input([None], dtype="int32"), BertModel(CONFIG)
    vectors = bert(ids, output_key="sequence_output")
    table = bert(ids, output_key="embedding_table")
    model = keras.Model(ids, MaskedLM(CONFIG)(vectors, table))
    model.save(tmp_path / "model.keras")
    model = keras.models.load_model(tmp_path / "model.keras")
    assert len(model.weights) == 23 + 5
    before = model(IDS)
    assert before.shape == (8, 6, 300)
    bert = next(x for x in model.layers if isinstance(x, BertModel))
    table = bert.get_embedding_table()
    vectors = model.layers[-1].transform(bert(IDS).get_sequence_output())
    rounding.assert_equal(
        before, tf.matmul(vectors, table.value, transpose_b=True)
    )
    compiled(model)
    labels = np.expand_dims(IDS, -1)
    old = table.numpy()
    model.fit(IDS, labels, batch_size=8, verbose=0)
    # Through the output, words that are in no text learn too.
    assert (table.numpy() != old).any(axis=1).all()


# Frozen layers

# What is frozen -> how many of 25 variables learn.
FROZEN = {
    "made": (None, 2),
    "all": (lambda bert: bert, 2),
    "blocks": (lambda bert: bert.encoder, 9),
    "part": (lambda bert: bert.encoder.blocks[0].attention, 15),
}
# Keras comes after our package: it then has no layers to register yet.
LOAD = """
import sys
import modeling
import keras, numpy as np
models = {path: keras.models.load_model(f"{path}/model.keras")
          for path in sys.argv[1:]}
from tests.modeling import keras_support
for path, model in models.items():
    state = np.load(f"{path}/state.npz").values()
    for variable, want in zip(model.optimizer.variables, state, strict=True):
        np.testing.assert_array_equal(variable, want)
    print(*keras_support.learned(model, keras_support.BATCH))
"""


@pytest.mark.all  # a process of its own that trains
def test_frozen_layers_do_not_learn_also_in_a_new_process(tmp_path):
    lines = []
    for name, (part, count) in FROZEN.items():
        model = functional(trainable=part is not None)
        if part:
            bert = next(x for x in model.layers if isinstance(x, BertModel))
            part(bert).trainable = False
        lines.append(learned(compiled(model), BATCH))
        assert lines[-1] == sorted(v.path for v in model.trainable_variables)
        assert len(lines[-1]) == count
        (tmp_path / name).mkdir()
        model.save(tmp_path / name / "model.keras")
        state = [v.numpy() for v in model.optimizer.variables]
        np.savez(tmp_path / name / "state.npz", *state)
    folders = [tmp_path / name for name in FROZEN]
    done = fork_server.cold_python("-c", LOAD, *folders)
    assert [line.split() for line in done.stdout.splitlines()] == lines


SCRIPT = """
import keras, numpy as np, tensorflow as tf
from tests.modeling import keras_support
same = np.tile(keras_support.IDS[:1], (8, 1))
keras_support.LABELS[:] = 1
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    for make, inputs, policy in [
        (keras_support.Classifier, {"input_ids": same}, "mixed_bfloat16"),
        (keras_support.sequential, same, "float32"),
    ]:
        keras.utils.set_random_seed(1)
        model = make(dtype=policy)
        bert = model.layers[-2]
        keras_support.compiled(model, rate=0.0)
        first, second = keras_support.losses_of_fit(model, inputs, epochs=2)
        plain = model.evaluate(
            inputs, keras_support.LABELS, batch_size=8, verbose=0)
        assert min(abs(first - second), abs(first - plain)) > 1e-3
        scores = model.predict(inputs, batch_size=8, verbose=0)
        assert scores.shape == (8, 3)
        assert abs(keras_support.cross_entropy(scores) - plain) < 1e-5
    # Devices of equal inputs drop differently.
    seeds = tf.distribute.get_strategy().run(
        lambda: bert.seed_of_call(True, None)).values
    assert (seeds[0].numpy() != seeds[1].numpy()).any()
"""


@pytest.mark.all  # a process of its own that trains
def test_two_devices_train():
    fork_server.python("-c", SCRIPT, devices=2)

"""The original's Adam and schedule, against independent NumPy forms."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import rounding
from tests.training.loop.updates import assert_thirty_updates_equal
from tests.training.support import Sgd
from training.config.run_options import TrainOptions
from training.loop import optimizers, rates
from training.loop.lamb import Lamb
from training.loop.muon import Muon
from training.loop.rates import learning_rate


@pytest.mark.parametrize(
    ("step", "warmup", "expected"),
    [
        # By hand from create_optimizer: warm-up peak * step / 10, then
        # peak * (1 - step / 60), so a small drop where the warm-up ends.
        (0, 10, 0.0),
        (1, 10, 1e-4),
        (9, 10, 9e-4),
        (10, 10, 1e-3 * 50 / 60),
        (30, 10, 5e-4),
        (60, 10, 0.0),
        (75, 10, 0.0),  # stays at the end value
        (0, 0, 1e-3),
    ],
)
def test_schedule_by_hand(step, warmup, expected):
    options = TrainOptions(
        output_dir="unused",
        learning_rate=1e-3,
        num_train_steps=60,
        num_warmup_steps=warmup,
    )
    found = float(learning_rate(tf.constant(step, tf.int64), options))
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "decayed"),
    [
        ("bert/embeddings/word_embeddings", True),
        ("bert/encoder/layer_0/output/dense/kernel", True),
        ("bert/encoder/layer_0/output/dense/bias", False),
        ("bert/encoder/layer_0/output/LayerNorm/gamma", False),
        ("cls/seq_relationship/output_weights", True),
        ("cls/seq_relationship/output_bias", False),
        ("scope/layer_norm_3/gamma", False),
    ],
)
def test_decay_exclusions_look_at_the_full_name(name, decayed):
    assert optimizers.is_decayed(name) == decayed


def direction(name, param, m, v, t):
    """Written from the paper's and issue's rules: no bias correction."""
    moved = m / (np.sqrt(v) + 1e-6)
    is_decayed = not any(x in name for x in ("LayerNorm", "bias"))
    return moved + 0.01 * param if is_decayed else moved


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])  # clipped or not
def test_thirty_updates_equal_numpy(scale):
    assert_thirty_updates_equal(optimizers.AdamWeightDecay, direction, scale)


NAMES = [
    "bert/embeddings/word_embeddings",
    "bert/embeddings/LayerNorm/beta",
    *(
        f"bert/encoder/layer_{i}/output/dense/{part}"
        for i in range(12)
        for part in ("kernel", "bias")
    ),
    "bert/pooler/dense/kernel",
    "output_weights",
]


def layer_rates(names, **options):
    """The factors of a run with these options."""
    train = TrainOptions(output_dir="x", num_train_steps=1, **options)
    return rates.layer_rates(names, train)


def test_layers_learn_the_slower_the_lower_they_are():
    rates = layer_rates(NAMES, layerwise_lr_decay=0.95)
    assert list(rates) == NAMES
    for i in range(12):
        name = f"bert/encoder/layer_{i}/output/dense/bias"
        assert rates[name] == pytest.approx(0.95 ** (11 - i))
    for name in NAMES[:2]:
        assert rates[name] == pytest.approx(0.95**12)
    for name in ("bert/pooler/dense/kernel", "output_weights"):
        assert rates[name] == 1
    assert layer_rates(NAMES) == dict.fromkeys(NAMES, 1.0)


def test_the_layers_of_an_electra_learn_by_its_rule():
    """Source: `_get_layer_lrs` of google-research/electra, written down."""
    names = [
        *(n.replace("bert/", "electra/") for n in NAMES if "pooler" not in n),
        "electra/embeddings_project/kernel",
    ]
    depths = {"embeddings/": 0, "embeddings_project/": 0, "output_weights": 14}
    depths |= {f"encoder/layer_{i}/": i + 1 for i in range(12)}
    rates = layer_rates(names, layerwise_lr_decay=0.8)
    for name in names:
        (depth,) = [d for part, d in depths.items() if part in name]
        assert rates[name] == pytest.approx(0.8 ** (14 - depth))
    assert layer_rates(names) == dict.fromkeys(names, 1.0)
    # The projection belongs to the embeddings.
    assert layer_rates(names, trainable_layers=0) == {"output_weights": 1.0}


@pytest.mark.parametrize("count", [0, 1, 3, 12])
def test_only_the_last_layers_learn(count):
    rates = layer_rates(NAMES, trainable_layers=count, layerwise_lr_decay=0.5)
    # Two variables a layer, the last ones, and pooler and head.
    assert list(rates) == NAMES[-2 - 2 * count :]


def test_more_layers_than_the_model_has_are_refused():
    message = "^--trainable_layers=13, but the model has 12; give 12 or less"
    with pytest.raises(ValueError, match=message):
        layer_rates(NAMES, trainable_layers=13)


@pytest.mark.parametrize("kind", [optimizers.AdamWeightDecay, Lamb, Muon])
@pytest.mark.parametrize("scale", [0.01, 1.0])  # clipped or not
def test_gradients_of_looked_up_rows_are_those_of_the_table(kind, scale):
    rng = np.random.default_rng(1)
    start = [rng.normal(size=s).astype(np.float32) for s in [(9, 4), (4,)]]
    wholes = []
    for as_slices in (True, False):
        table, bias = (tf.Variable(x) for x in start)
        optimizer = kind({"a/word_embeddings": table, "a/bias": bias})
        assert optimizer.takes_slices
        draws = np.random.default_rng(2)
        norms = []
        for step in range(1, 7):
            # Most rows never, some twice in a step.
            rows = tf.constant(draws.choice([0, 3, 3, 8], size=5))
            values, other = (
                tf.constant(scale * draws.normal(size=s), tf.float32)
                for s in [(5, 4), (4,)]
            )
            slices = tf.IndexedSlices(values, rows, tf.constant([9, 4]))
            gradient = slices if as_slices else tf.convert_to_tensor(slices)
            norm = optimizer.apply(
                [gradient, other],
                tf.constant(0.01),
                tf.constant(step, tf.int64),
                {0: tf.reduce_sum(values**2)},
            )
            # Of a row that is looked up twice, both gradients.
            expected = np.sqrt(
                (values**2).numpy().sum() + (other**2).numpy().sum()
            )
            np.testing.assert_allclose(norm, expected, rtol=rounding.ONE_SUM)
            norms.append(norm)
        wholes.append([table, bias, *optimizer.slots.values()])
    for ours, dense in zip(*wholes, strict=True):
        # Up to ten roundings an update, in another order.
        share = rounding.most(1, "float32", 10 * 6)
        np.testing.assert_allclose(
            ours, dense, rtol=share, atol=share * np.abs(dense).max()
        )
    assert (np.array(norms) > 1).any() == (scale == 1.0)


@pytest.mark.parametrize("kind", [optimizers.AdamWeightDecay, Lamb, Muon])
def test_a_rule_that_wraps_another_does_not_take_slices(kind):
    class Wrapped(kind):
        @staticmethod
        def new_values(param, m, v, grad, **options):
            return kind.new_values(param, m, v, 2.0 * grad, **options)

    class Same(kind):
        """Overrides something else."""

    variables = {"a/word_embeddings": tf.Variable(tf.zeros([4, 2]))}
    assert not Wrapped(variables).takes_slices
    assert not Sgd(variables).takes_slices
    assert Same(variables).takes_slices

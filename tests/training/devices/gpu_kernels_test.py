"""Every operation of every program's step has a kernel for a GPU.

Steps are traced, not run, as if there were a GPU. The registry of kernels is
that of TensorFlow's package, which contains those of a GPU.
"""

import itertools

import pytest
import tensorflow as tf
from tensorflow.python.framework import config as tensorflow_config

from data.finetuning import feature_options
from data.records import feature_spec
from data.squad import windows
from data.text.packing import INPUTS
from data.text.vocabulary import load_vocab
from modeling import BertModel, PretrainingModel, SpanModel, TaskModel
from modeling.objectives.left_to_right import LeftToRightModel
from modeling.objectives.tasks import HEADS, KINDS
from tests.support import gpu_support
from tests.support.model_folders import description_of
from tests.training.support import steps_of
from training.devices import kinds
from training.export.task_signatures import TaskServing
from training.inference import Evaluator, OutputCollector
from training.pretraining import answers
from training.vectors.extractor import Extractor, VectorOptions

pytestmark = pytest.mark.all

# float16 has the fewest kernels.
POLICIES = (
    pytest.param("float32", marks=pytest.mark.slow),
    pytest.param("mixed_bfloat16", marks=pytest.mark.slow),
    "mixed_float16",
)
LENGTH = 16
# Their results are shapes, sizes, indices of int32 and conditions on these,
# names of labels, and keys of random bits. TensorFlow keeps them in the host's
# memory.
HOST = set(
    """
    AddV2 BroadcastGradientArgs ConcatOffset ConcatV2 Const Equal ExpandDims
    Fill FloorDiv FloorMod GatherV2 Greater GreaterEqual Identity
    InvertPermutation Less LessEqual Max Maximum Minimum Mul Neg Pack Pad Range
    Reshape Shape ShapeN Size Slice StatelessRandomGetKeyCounter StridedSlice
    Sub Sum
    TensorListElementShape TensorListLength Tile Unpack VariableShape ZerosLike
    """.split()
)


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch):
    """TensorFlow says that there is a GPU."""
    real = tf.config.list_logical_devices
    gpu = tf.config.LogicalDevice("/device:GPU:0", "GPU")
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind=None: [gpu] if kind == "GPU" else real(kind),
    )


def batch_of(specs):
    """The specs of a batch of records."""
    return {
        spec.name: tf.TensorSpec(
            [None, spec.length],
            tf.float32 if spec.dtype == "float32" else tf.int32,
        )
        for spec in specs
    }


def traced(step, *arguments):
    """Traces a step whose weights exist."""
    return tf.function(step, autograph=False).get_concrete_function(*arguments)


def check(function):
    missing = gpu_support.without_kernel(function)
    assert not missing, sorted(missing)
    new = gpu_support.on_host(function) - HOST
    assert not new, sorted(new)


def check_training(model, batch, **options):
    step = steps_of(model, **options)._replica_step
    function = traced(
        step, batch, tf.TensorSpec([], tf.int64), tf.TensorSpec([])
    )
    check(function)
    return function


def check_never_waits(function):
    waits = gpu_support.waits(function)
    assert not waits, sorted(waits)


PRETRAINING = batch_of(feature_spec.pretraining_features(LENGTH, 4))
WAYS = (
    {"fuse": False},
    {"fuse": True, "gradient_checkpointing": True},
    {"xla": True, "optimizer": "lamb"},
    {"gradient_accumulation_steps": 2},
)


@pytest.mark.parametrize(
    ("policy", "way"),
    [
        ("float32", WAYS[1]),
        ("mixed_bfloat16", WAYS[0]),
        *(("mixed_float16", way) for way in WAYS),
    ],
    ids=str,
)
def test_pretraining_trains(config, policy, way):
    recomputes = way.get("gradient_checkpointing", False)
    model = PretrainingModel(
        config, dtype=policy, gradient_checkpointing=recomputes
    )
    function = check_training(model, PRETRAINING, **way)
    if not (way.get("xla") or "gradient_accumulation_steps" in way):
        check_never_waits(function)
        # One draw for each of the dropouts of the embeddings and the block;
        # those of the block twice, if it is recomputed.
        draws = gpu_support.drawn(function)
        assert len(draws) == (1 + 2 * 3 if recomputes else 1 + 3), draws
    compiled = {x.op for x, is_in in gpu_support.operations(function) if is_in}
    # The update, if anything is compiled.
    assert ("Sqrt" in compiled) == bool(way.get("xla") or way.get("fuse"))
    assert ("MatMul" in compiled) == bool(way.get("xla"))


@pytest.mark.parametrize("policy", POLICIES)
def test_pretraining_evaluates_and_answers_queries(config, policy):
    model = PretrainingModel(config, dtype=policy)
    check(traced(Evaluator(model)._replica_step, PRETRAINING))
    long = Evaluator(model, work=kinds.GPU.repaid)
    function = traced(long._replica_step, PRETRAINING)
    check(function)
    assert any(is_in for _, is_in in gpu_support.operations(function))
    names = (*INPUTS, "masked_lm_positions")
    asked = {name: PRETRAINING[name] for name in names}
    check(traced(answers.Answers(None, model, None, ())._replica_step, asked))


@pytest.mark.parametrize("policy", POLICIES)
def test_left_to_right_trains_and_evaluates(config, policy):
    batch = batch_of(
        feature_spec.pretraining_features(LENGTH, 4, masked=False, pairs=False)
    )
    for drawn, way in ((0, WAYS[1]), (4, WAYS[0])):
        model = LeftToRightModel(
            config, num_predicted_positions=drawn, dtype=policy
        )
        function = check_training(model, batch, **way)
        # Positions are drawn by their random numbers.
        found = {x.op for x, _ in gpu_support.operations(function)}
        assert ("TopKV2" in found) == bool(drawn)
    check(traced(Evaluator(model)._replica_step, batch))


def task_model(config, kind, policy, **options):
    num_labels = 1 if kind == "regression" else 3
    model = TaskModel(config, kind, num_labels, dtype=policy, **options)
    return model, batch_of(
        feature_options.feature_specs(kind, LENGTH, num_labels)
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_run_classifier_predicts(config, policy):
    for kind in KINDS:
        model, batch = task_model(config, kind, policy)
        check(traced(OutputCollector(model)._replica_step, batch))


@pytest.mark.parametrize(
    ("policy", "kind", "head"),
    [
        ("mixed_float16", "classification", "linear"),
        ("mixed_float16", "tagging", "bilstm"),
        *(
            pytest.param(policy, kind, head, marks=pytest.mark.slow)
            for policy in ("float32", "mixed_bfloat16", "mixed_float16")
            for kind, head in itertools.product(KINDS, HEADS)
            if (kind, head) != ("tagging", "mean")
        ),
    ],
)
def test_run_classifier_trains(config, policy, kind, head):
    model, batch = task_model(config, kind, policy, head=head)
    check_never_waits(check_training(model, batch))


@pytest.mark.parametrize("policy", POLICIES)
def test_run_squad_trains_and_predicts(config, policy):
    model = SpanModel(config, dtype=policy)
    specs = windows.feature_specs(LENGTH, True)
    check_never_waits(check_training(model, batch_of(specs)))
    asked = batch_of(windows.feature_specs(LENGTH, False))
    check(traced(OutputCollector(model)._replica_step, asked))


@pytest.mark.parametrize("policy", POLICIES)
def test_extract_features_runs_lines(config, policy):
    spec = tf.TensorSpec([4, LENGTH], tf.int32)
    batch = dict.fromkeys((*INPUTS, "word_ids"), spec)
    model = BertModel(config, dtype=policy)
    for options in (
        {"whole_words": True, "layer_mix": "sum"},
        {"pooling": "mean", "attention": True, "layers": (0,)},
        {"pooling": "max"},
    ):
        extractor = Extractor(
            model,
            VectorOptions(**{"layers": (-1, "embeddings"), **options}),
            max_seq_length=LENGTH,
            batch_size=4,
        )
        check(traced(extractor._replica_step, batch))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_an_export_answers_ids(config, goldens, kind, policy):
    model, _ = task_model(config, kind, policy)
    served = TaskServing(
        model,
        description_of(kind, labels=("a", "b", "c"), max_seq_length=LENGTH),
        load_vocab(str(goldens / "vocab.txt")),
    )
    check(served._answer.get_concrete_function())


def test_an_operation_without_a_kernel_is_named():
    @tf.function
    def step(x):
        return tf.tensor_scatter_nd_update(x, [[0]], x[:1])

    x = tf.zeros([3], tf.float16)
    (name,) = gpu_support.without_kernel(step.get_concrete_function(x))
    assert name == "TensorScatterUpdate(T=float16, Tindices=int32)"


def test_nothing_raises_with_op_determinism(config):
    tensorflow_config.enable_op_determinism()
    try:
        found = set()
        for model, batch in (
            (PretrainingModel(config), PRETRAINING),
            (SpanModel(config), batch_of(windows.feature_specs(LENGTH, True))),
            task_model(config, "classification", "float32"),
        ):
            function = check_training(model, batch)
            found |= {x.op for x, _ in gpu_support.operations(function)}
    finally:
        tensorflow_config.disable_op_determinism()
    assert "MatMul" in found
    assert not found & gpu_support.RAISING


def test_an_operation_that_raises_with_op_determinism_is_found(config):
    model, batch = task_model(config, "classification", "float32")
    function = check_training(model, batch)
    found = {x.op for x, _ in gpu_support.operations(function)}
    raising = found & gpu_support.RAISING
    assert raising == {"SparseSoftmaxCrossEntropyWithLogits"}

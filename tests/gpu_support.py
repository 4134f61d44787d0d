"""Says which operations of a step have no kernel for a GPU, without one.

TensorFlow's package contains the GPU's kernels, so their registry can be read
on a CPU. An operation without one would run on the host, and its tensors would
travel there and back.
"""

import collections
import functools

import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

# Kernels for any device are registered as DEFAULT.
_GPU = ("GPU", "DEFAULT")
_COMPILED = ("XLA_GPU_JIT",)
# Arguments and results of functions.
_PASSED = {"Placeholder", "_Arg", "_Retval"}
# Operations that raise on a GPU with op determinism: those of the messages of
# TensorFlow 2.21 that begin with "Determinism is not yet supported" or with "A
# deterministic GPU implementation of". `tf.nn` then replaces both cross
# entropies by other operations.
RAISING = {
    "AdjustContrast",
    "AdjustContrastv2",
    "Bincount",
    "CropAndResizeGradBoxes",
    "CropAndResizeGradImage",
    "DebugNumericSummaryV2",
    "DenseBincount",
    "Dilation2DBackpropFilter",
    "Dilation2DBackpropInput",
    "FakeQuantWithMinMaxVarsGradient",
    "FakeQuantWithMinMaxVarsPerChannelGradient",
    "MaxPoolGradWithArgmax",
    "ResizeNearestNeighborGrad",
    "SoftmaxCrossEntropyWithLogits",
    "SparseSoftmaxCrossEntropyWithLogits",
    "SparseTensorDenseMatMul",
    "Svd",
    "Timestamp",
}


def operations(function) -> list[tuple[tf.compat.v1.NodeDef, bool]]:
    """The operations of a function and of those that it calls.

    Args:
      function: a `ConcreteFunction`.

    Returns:
      Each operation, and whether XLA compiles it.
    """
    graph = function.graph.as_graph_def()
    library = {f.signature.name: f for f in graph.library.function}
    found, waiting, seen = [], [(graph.node, False)], set()
    while waiting:
        nodes, is_compiled = waiting.pop()
        for node in nodes:
            found.append((node, is_compiled))
            for name in _called(node):
                body = library[name]
                compiles = is_compiled or body.attr["_XlaMustCompile"].b
                if (name, compiles) not in seen:
                    seen.add((name, compiles))
                    waiting.append((body.node_def, compiles))
    return found


def _called(node):
    """The names of the functions that an operation calls."""
    for attribute in node.attr.values():
        if attribute.func.name:
            yield attribute.func.name
        yield from (f.name for f in attribute.list.func)


def without_kernel(function) -> set[str]:
    """The operations that have no kernel, such as `Softmax(T=half)`.

    Texts, the names of labels, always lie in the host's memory.
    """
    _register_compiled()
    return {
        f"{_text(node)}{' in XLA' if is_compiled else ''}"
        for node, is_compiled in operations(function)
        if node.op not in _PASSED
        and "=string" not in _text(node)
        and not _kernels(node, is_compiled)
    }


def on_host(function) -> set[str]:
    """The operations whose GPU kernels compute in the host's memory."""
    return {
        node.op
        for node, is_compiled in operations(function)
        if not is_compiled and node.op not in _PASSED and _is_on_host(node)
    }


def _is_on_host(node):
    """Whether all results of an operation lie in the host's memory."""
    names = {x.name for x in _definition(node.op).output_arg}
    return bool(names) and all(
        names <= set(kernel.host_memory_arg)
        for kernel in _kernels(node, is_compiled=False)
    )


def _kernels(node, is_compiled):
    """The kernels that can compute an operation."""
    devices = _COMPILED if is_compiled else _GPU
    return [
        kernel
        for device in devices
        for kernel in _registered(node.op)[device]
        if all(_admits(rule, node) for rule in kernel.constraint)
    ]


def _admits(rule, node):
    """Whether a kernel is for the types of an operation."""
    attribute = node.attr[rule.name]
    types = attribute.list.type or [attribute.type]
    allowed = rule.allowed_values.list.type
    return not allowed or all(dtype in allowed for dtype in types)


def _text(node):
    """An operation with its types."""
    types = [
        f"{key}={tf.as_dtype(x.type).name}"
        for key, x in sorted(node.attr.items())
        if x.WhichOneof("value") == "type"
    ]
    return f"{node.op}({', '.join(types)})"


@functools.cache
def _definition(op):
    return op_def_registry.get(op)


@functools.cache
def _registered(op):
    """The kernels of an operation, by device."""
    found = collections.defaultdict(list)
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        found[kernel.device_type].append(kernel)
    return found


@functools.cache
def _register_compiled():
    """Lets TensorFlow register the kernels of XLA, at the first use of it."""
    tf.function(lambda x: x + 1.0, jit_compile=True)(tf.constant(0.0))
    assert _registered("MatMul")["XLA_GPU_JIT"]

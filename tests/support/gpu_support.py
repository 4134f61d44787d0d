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
    """The operations of a `ConcreteFunction` and of those that it calls.

    Returns each operation, and whether XLA compiles it.
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


def waits(function) -> set[str]:
    """The pairs of operations between which the host waits for the GPU.

    The first one computes a tensor in the GPU's memory, the second one reads it
    in the host's, such as `ArgMax > Equal`. Only the function's own operations
    are looked at, not those of functions that it calls.
    """
    return {
        f"{tensor.op.type} > {op.type}"
        for op in function.graph.get_operations()
        for name, tensor in zip(
            _names(op, op.op_def.input_arg), op.inputs, strict=True
        )
        if _reads_on_host(op, name) and not _is_written_on_host(tensor)
    }


def _names(op, arguments):
    """The name of the argument of each input or output of an operation."""
    for argument in arguments:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        yield from [argument.name] * count


def _reads_on_host(op, name):
    return "CPU" in op.device or _is_in_host_memory(op, name)


def _is_written_on_host(tensor):
    op = tensor.op
    names = list(_names(op, op.op_def.output_arg))
    calls = any(_called(op.node_def))
    return (
        op.type in _PASSED
        or "CPU" in op.device
        # Such as sizes, and handles of variables.
        or (calls and tensor.dtype in (tf.int32, tf.resource))
        or _is_in_host_memory(op, names[tensor.value_index])
    )


def _is_in_host_memory(op, name):
    """Whether all GPU kernels of an operation have an argument on the host."""
    found = _kernels(op.node_def, is_compiled=False)
    return bool(found) and all(name in x.host_memory_arg for x in found)


def drawn(function) -> list[str]:
    """The names of the operations that draw random numbers on the GPU."""
    return [
        op.name
        for op in function.graph.get_operations()
        if op.type.startswith("StatelessRandomUniform")
        and "CPU" not in op.device
    ]


def _is_on_host(node):
    """Whether all results of an operation lie in the host's memory."""
    names = {x.name for x in op_def_registry.get(node.op).output_arg}
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

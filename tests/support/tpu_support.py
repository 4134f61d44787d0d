"""Says whether a TPU could run a step, without one.

A TPU runs what XLA makes of a whole step, and XLA makes it once for each shape.
So a step must have one shape everywhere inside, and nothing for the host.
"""

import re

import numpy as np
import tensorflow as tf

# What a TPU's cores hold: TensorFlow's list, `kTpuAllTypes` in
# tensorflow/core/tpu/tpu_defs.h, as far as we use it; and handles of variables
# and of lists.
TYPES = {
    *(tf.bool, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64),
    *(tf.float16, tf.bfloat16, tf.float32, tf.resource, tf.variant),
}
# Operations for which XLA would have to ask the host, or whose results have a
# shape that depends on values.
DENIED = re.compile(
    "|".join(
        (
            r".*PyFunc.*",
            r"Print.*|Assert|Timestamp|.*Summary.*|Debug.*|Check.*",
            r"String.*|.*Regex.*|.*Lookup.*|.*Ragged.*|Sparse(?!Softmax).*",
            r"Where|Unique.*|DynamicPartition|ListDiff|Bincount|SetSize",
            r"Read(?!VariableOp).*|Write.*|Save.*|Restore.*|.*Iterator.*",
            r".*Dataset.*|.*Reader.*|Decode.*|Parse.*|_?Host.*|_?Send|_?Recv",
            # Random numbers that depend on what ran before.
            r"Random.*|TruncatedNormal|.*Stateful.*",
        )
    )
)
_HOST = re.compile(
    r"= .*? (infeed|outfeed|send|recv|send-done|recv-done)\("
    r"|custom_call_target=\"([^\"]*(?:callback|host|Host|Callback)[^\"]*)\""
)


def graph_problems(function) -> list[str]:
    """What a TPU could not run in a `ConcreteFunction` and those it calls."""
    graph = function.graph.as_graph_def(add_shapes=True)
    bodies = {"": graph.node}
    bodies |= {f.signature.name: f.node_def for f in graph.library.function}
    compiled = [
        f"{f.signature.name} is compiled by itself, for the host"
        for f in graph.library.function
        if f.attr["_XlaMustCompile"].b
    ]
    return compiled + [
        f"{body}/{node.name}: {problem}"
        for body, nodes in bodies.items()
        for node in nodes
        for problem in _problems_of(node)
    ]


def _problems_of(node):
    """What is wrong with one operation."""
    if DENIED.fullmatch(node.op):
        yield f"{node.op} is not for a TPU"
    for key, attribute in node.attr.items():
        types = [*attribute.list.type]
        types += (
            [attribute.type] if attribute.WhichOneof("value") == "type" else []
        )
        for dtype in {tf.as_dtype(t) for t in types} - TYPES:
            yield f"{node.op} has {key}={dtype.name}"
    if node.op == "TensorListStack":
        return  # a list forgets its length; what reads it must say it again
    for shape in node.attr["_output_shapes"].list.shape:
        if not tf.TensorShape(shape).is_fully_defined():
            yield f"{node.op} gives {tf.TensorShape(shape)}"


def program_problems(program: str) -> list[str]:
    """What a TPU could not run in what XLA was given to compile, HLO."""
    problems = []
    for line in program.splitlines():
        # `f32[<=8,4]` holds up to 8 rows.
        if "[<=" in line or ",<=" in line:
            problems.append(f"dynamic shape: {line.strip()[:100]}")
        if _HOST.search(line):
            problems.append(f"asks the host: {line.strip()[:100]}")
        if " f64[" in line or " c128[" in line:
            problems.append(f"64-bit floats: {line.strip()[:100]}")
    return problems


def compiled(step, *arguments):
    """Compiles a step as a whole, and refuses one that is not for a TPU."""
    function = tf.function(step, jit_compile=True)
    problems = graph_problems(function.get_concrete_function(*arguments))
    assert not problems, "\n".join(problems)
    program = function.experimental_get_compiler_ir(*arguments)(stage="hlo")
    assert "ENTRY" in program
    problems = program_problems(program)
    assert not problems, "\n".join(problems)
    return function


def assert_static(batches: tf.data.Dataset) -> None:
    """Refuses batches whose shapes are not all known beforehand."""
    for name, spec in batches.element_spec.items():
        assert spec.shape.is_fully_defined(), f"{name}: {spec.shape}"


def assert_same_results(
    step, variables, arguments, *, tolerance, of_variables=None
) -> None:
    """Runs a step compiled and as it is, from the same weights.

    `variables` are all that it may change, by name. `tolerance` is the greatest
    difference of results, and of variables if `of_variables` is not given.
    """
    if of_variables is None:
        of_variables = tolerance
    before = {name: variable.numpy() for name, variable in variables.items()}

    def run(function):
        for name, variable in variables.items():
            variable.assign(before[name])
        results = tf.nest.flatten(function(*arguments))
        after = {name: v.numpy() for name, v in variables.items()}
        return [x.numpy() for x in results], after

    got, got_after = run(compiled(step, *arguments))
    want, want_after = run(tf.function(step))
    for one, other in zip(got, want, strict=True):
        assert np.isfinite(other).all()
        np.testing.assert_allclose(one, other, atol=tolerance, rtol=tolerance)
    for name, value in want_after.items():
        np.testing.assert_allclose(
            got_after[name], value, atol=of_variables, rtol=0, err_msg=name
        )

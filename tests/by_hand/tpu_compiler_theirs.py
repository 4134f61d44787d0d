"""Compiles what tpu_compiler.py wrote, with libtpu; see there.

Needs `jax[tpu]` in an environment of its own, and no TPU.
"""

import os
import pathlib
import re
import sys
import time

# Without a TPU there is no metadata server to ask which TPU this is.
os.environ.update(
    TPU_SKIP_MDS_QUERY="1",
    TPU_ACCELERATOR_TYPE="v5litepod-4",
    TPU_WORKER_HOSTNAMES="localhost",
    TPU_WORKER_ID="0",
)

import numpy as np  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jaxlib import xla_client  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402


def compile_for(device, program):
    """Compiles serialized HLO for one core."""
    text = xla_client._xla.mlir.xla_computation_to_mlir_module(
        xla_client.XlaComputation(program)
    )
    # The copy only hands weights over to the next step.
    text = re.sub(
        r"mhlo\.copy (%\w+)(?: \{[^}]*\})? : (tensor<[^>]*>)",
        r"stablehlo.convert \1 : \2",
        text,
    )
    module = ir.Module.parse(text, context=mlir.make_ir_context())
    options = xla_client.CompileOptions()
    options.executable_build_options.device_assignment = (
        xla_client.DeviceAssignment.create(np.array([[device.id]]))
    )
    devices = xla_client.DeviceList((device,))
    return device.client.compile(module, devices, options)


def main(folder, topology):
    """Compiles every program and prints a line for each."""
    device = topologies.get_topology_desc(
        platform="tpu", topology_name=topology
    ).devices[0]
    print(f"compiled for {device.device_kind}")
    for path in sorted(pathlib.Path(folder).glob("*.hlo")):
        start_s = time.monotonic()
        executable = compile_for(device, path.read_bytes())
        memory = executable.get_compiled_memory_stats()
        (module,) = executable.hlo_modules()
        host = re.findall(r" (infeed|outfeed|send|recv)\(", module.to_string())
        print(
            f"{path.stem}: {time.monotonic() - start_s:.0f} s, "
            f"{memory.argument_size_in_bytes / 1e6:.1f} MB of weights, slots "
            f"and batch, {memory.temp_size_in_bytes / 1e6:.1f} MB beside "
            f"them, {len(host)} calls of the host",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])

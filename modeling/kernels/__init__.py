"""Every function of the model that is written for speed, and its plain form.

scopes         values that hold in a `with` block
seeds          the seeds of dropout, their random bits; whether there is a GPU
recomputation  recomputes activations in the backward pass, to save memory
block          the forms; compiling; the operations of a Transformer block
vocabulary     scores and losses over a vocabulary

Under `Form.PLAIN` each function uses TensorFlow's own operations. The other
forms are faster and compute the same values, except for rounding. `STANDARD`
and `COMPILED` also have the same gradients; `KERNELS` and `SERVED` are for
inference only. Each docstring gives the speed-up of its function;
benchmarks/measurements.md has the conditions of the measurements.
"""

from data.storage import cuda
from modeling.kernels.block import Form, current, form
from modeling.kernels.seeds import has_gpu

# Every model comes here before it asks TensorFlow for devices.
cuda.find()

__all__ = ["Form", "current", "form", "has_gpu"]

"""Every function of the model that is written for speed, and its plain form.

seeds          the seeds of dropout, their random bits; whether there is a GPU
recomputation  computation twice instead of memory
block          the forms; compiling; the operations of a Transformer block
vocabulary     scores and losses over a vocabulary

Under `Form.PLAIN` each function is TensorFlow's textbook code. In the other
forms it has the same values and takes less time. `STANDARD` and `COMPILED` have
the same gradients, too; `KERNELS` and `SERVED` are for inference alone. Each
docstring says what the function gains; benchmarks/measurements.md has the
conditions of the measurements.
"""

from data.storage import cuda
from modeling.kernels.block import Form, current, form
from modeling.kernels.seeds import has_gpu

# Every model comes here before it asks TensorFlow for devices.
cuda.find()

__all__ = ["Form", "current", "form", "has_gpu"]

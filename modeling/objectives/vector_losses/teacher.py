"""Distillation: trains vectors to the directions of a teacher's vectors.

The cosine does not depend on the lengths of the teacher's vectors, so that one
learning rate suits all teachers; for vectors of length 1 it is the squared
error. No projection is learned: the vectors themselves are searched, and a
projection that is dropped afterwards would leave their own angles untrained.
Where the sizes differ, or there are several, the teacher's vectors are rotated
to their principal axes and cut, which keeps their angles as well as any smaller
size can.
"""

import tensorflow as tf

from modeling.objectives.vector_losses.similarity import Vectors, cosines


def loss(vectors: Vectors, targets: tf.Tensor, scale: float) -> tf.Tensor:
    """Mean of 1 - cosine; `scale` is not used."""
    (own,) = vectors
    return 1.0 - tf.reduce_mean(cosines(own, targets))

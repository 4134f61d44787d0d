"""What the training loop and the evaluations require of a model."""

from collections.abc import Mapping
from typing import Any, Protocol

import tensorflow as tf

Batch = Mapping[str, tf.Tensor]


class Model(Protocol):
    """A model that can be trained; see `modeling.objectives`."""

    layers: tuple

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Divisors of the losses; the divisors of a batch's parts add up."""

    def losses(
        self, batch: Batch, loss_weights: dict, dropout_seed: Any
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """The loss of a part of a batch, and its metrics."""


class ExampleModel(Model, Protocol):
    """A model that also gives outputs for each example."""

    config: Any

    def score_examples(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Output name -> tensor [B, ...]; see `TaskModel.score_examples`."""

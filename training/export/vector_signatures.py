"""A model of sentence vectors as functions of ids, records or plain texts.

Axes: B batch, H hidden.
"""

import tensorflow as tf

from training.export.functions import Tensors
from training.export.serving import Serving


class VectorServing(Serving):
    """A `SentenceEncoder`.

    | signature | takes |
    | --- | --- |
    | serve_text | `text` string [B]; the default prompt is put before it |

    | output | is |
    | --- | --- |
    | vectors | float32 [B, H], of length 1 if the model's form says so |
    """

    kinds = ("vectors",)
    compared = ("vectors",)

    def scores(self, rows: Tensors) -> tf.Tensor:
        """Computes the vectors of `INPUTS`."""
        return self._model.vectors(rows)

    def in_words(self) -> str:
        """Returns what the model does, as Markdown."""
        form, more = self._model.form, ""
        length = " of length 1" if form.normalize else ""
        if form.vector_sizes:
            sizes = ", ".join(map(str, form.vector_sizes))
            more = f" Its first {sizes} numbers are vectors, too."
        if prompt := form.prompt():
            more += f" `{prompt}` is put before each text."
        return (
            f"BERT that gives a text a vector{length}: similar texts have a "
            f"high cosine similarity.{more} Texts of more than "
            f"{self.description.max_seq_length} wordpieces are cut."
        )

    def _serve_text(self, text: tf.Tensor) -> Tensors:
        """See `Serving._serve_text`; the prompt is put before each text."""
        prompt = self._model.form.prompt()
        return super()._serve_text(tf.strings.join([prompt, text]))

    def _outputs(self, rows: Tensors, input_mask: tf.Tensor) -> Tensors:
        return {"vectors": self.scores(rows)}

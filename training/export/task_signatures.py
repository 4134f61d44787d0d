"""A fine-tuned model as functions of ids, records or plain texts.

Axes: B batch, S wordpieces, C choices, L labels, W words.
"""

import tensorflow as tf

from data.calibration import LEAST, MOST, THRESHOLD, Calibration
from data.in_graph import tagging, windows
from data.tasks.task import KINDS
from data.text.in_graph import packing
from training.export import functions
from training.export.functions import Tensors, of_texts
from training.export.serving import Serving, Signatures, trimmed

# Windows computed at once, so that the memory for a book is bounded.
_WINDOWS_AT_ONCE = 64


class TaskServing(Serving):
    """A model of a task of `data/tasks`: a classifier or a tagger.

    | signature | takes |
    | --- | --- |
    | serve_text | `text` string [B]; for pairs `text_a` and `text_b`; for |
    | | choice `context` [B] and `choices` [B, C] |
    | serve_words | for tagging alone: `words` string [B, W], "" = padding |

    | output | for | is |
    | --- | --- | --- |
    | probabilities | all but regression | float32 [B, L], for tagging |
    | | | [B, S or W, L] |
    | labels | likewise | string [B, L], the names of the probabilities |
    | label | likewise | string [B] ([B, S or W]), the best; for multilabel |
    | | | all above their thresholds, with the task's separator between |
    | thresholds | multilabel, if it is calibrated | float32 [B, L] |
    | score | all but multilabel | float32 [B] ([B, S or W]), its |
    | | | probability; for regression the number |
    | choice | choice | int32 [B], place of the best, from 0 |
    | num_words | serve_text and serve_words of tagging | int32 [B] |
    | words, starts, ends | serve_text of tagging | [B, W]; characters of |
    | | | the text from `starts` to before `ends` |
    """

    kinds = KINDS
    compared = ("probabilities", "score")

    def in_words(self) -> str:
        """Returns what the model does, as Markdown."""
        said = self.description
        texts = "two texts" if said.is_pair else "a text"
        does = {
            "classification": f"gives {texts} one of these labels",
            "regression": f"gives {texts} a number",
            "multilabel": f"gives {texts} any number of these labels",
            "choice": "chooses one of several texts, by these names",
            "tagging": "gives every word one of these labels",
        }[said.kind]
        labels = ", ".join(f"`{label}`" for label in said.labels)
        alone = " It was trained on sentences with the text around them."
        calibrated = (
            " Its probabilities are calibrated by the temperature "
            f"{self.calibration.temperature:.4f}, and its thresholds fitted; "
            "evaluation metrics are computed without either."
        )
        # A tagged text loses no words.
        long = "continue in more rows" if said.kind == "tagging" else "are cut"
        if said.stride:
            long = f"are read in windows, one every {said.stride} wordpieces"
            if said.kind != "tagging":
                long += f", whose outputs are pooled ({said.pooling})"
        return (
            f"BERT, fine-tuned for the task {said.task_name}: it {does}"
            f"{': ' if labels else ''}{labels}. Texts of more than "
            f"{said.max_seq_length} wordpieces {long}."
            f"{alone if said.document_context else ''}"
            f"{calibrated if self.calibration != Calibration() else ''}"
        )

    def _text_signatures(self) -> Signatures:
        said = self.description
        if said.kind == "tagging":
            return self._serve_text_and_words()
        if said.kind == "choice":
            choices = [self.text] * self._model.num_labels
            texts = {"context": [self.text], "choices": [choices]}
            return {"serve_text": of_texts(self._serve_choices, **texts)}
        if said.is_pair and not said.stride:
            return {"serve_text": self._of_pair()}
        return super()._text_signatures()

    def _serve_text(self, text: tf.Tensor) -> Tensors:
        """Answers texts, which may have several windows."""
        said, size = self.description, self._model.num_labels
        if not said.stride:
            return super()._serve_text(text)
        pieces = self._tokenizer.tokenize(text)
        rows, number = windows.text_windows(pieces, said.stride, **self._layout)

        def answer(rows):
            return self._model.predict(trimmed(rows))

        # The answers of windows are pooled before they are calibrated.
        found = functions.in_parts(answer, rows, _WINDOWS_AT_ONCE, [size])
        if said.pooling == "mean":
            return self._named(tf.math.segment_mean(found, number))
        pooled = tf.math.segment_max(found, number)
        if said.kind == "classification":
            pooled /= tf.reduce_sum(pooled, axis=1, keepdims=True)
        return self._named(pooled)

    def _serve_choices(self, context: tf.Tensor, choices: tf.Tensor) -> Tensors:
        """Answers contexts [B] and their choices [B, C]."""
        num_choices = self._model.num_labels
        contexts = tf.repeat(context, num_choices)
        rows = self._pack(contexts, tf.reshape(choices, [-1]))
        shape = [tf.shape(context)[0], num_choices, -1]
        rows = {name: tf.reshape(x, shape) for name, x in rows.items()}
        return self._answer(rows)

    def _serve_text_and_words(self) -> Signatures:
        """Returns `serve_text` and `serve_words` of a tagger."""
        words = tf.RaggedTensorSpec([None] * 3, tf.int32, ragged_rank=2)
        answer = functions.as_function(self._answer_words, words)

        def serve_text(text):
            found = self._tokenizer.tokenize_with_offsets(text)
            pieces, *places = tagging.words_of_pieces(*found, self._vocab)
            starts, ends = (place.to_tensor() for place in places)
            found = {"words": packing.substrings(text, starts, ends)}
            return answer(pieces) | found | {"starts": starts, "ends": ends}

        def serve_words(words):
            words = tf.RaggedTensor.from_tensor(words, padding="")
            pieces = self._tokenizer.tokenize(words.values)
            return answer(words.with_values(pieces))

        strings = tf.TensorSpec([None, None], tf.string)
        of_words = functions.as_function(serve_words, strings)
        return {
            "serve_text": of_texts(serve_text, text=[self.text]),
            "serve_words": (of_words, {"words": [self.text.split()]}),
        }

    def _outputs(self, rows: Tensors, input_mask: tf.Tensor) -> Tensors:
        if self.description.kind == "choice":
            length = tf.shape(rows["input_ids"])[-1]
            shape = [-1, self._model.num_labels * length]
            rows = {name: tf.reshape(x, shape) for name, x in rows.items()}
        predictions = self._model.predict(rows)
        if self.description.kind == "tagging":
            predictions = functions.padded(predictions, input_mask)
            # The mask also gives the result its static length.
            predictions *= tf.cast(input_mask, tf.float32)[:, :, tf.newaxis]
        return self._named(predictions)

    def _answer_words(self, pieces: tf.RaggedTensor) -> Tensors:
        """Answers sentences, [B, (words), (wordpieces)]."""
        layout = self._layout | {"stride": self.description.stride}
        rows, label_mask = tagging.tagged_rows(
            pieces, unknown_id=self._vocab["[UNK]"], **layout
        )
        predictions = tf.boolean_mask(self._model.predict(rows), label_mask)
        sentences = pieces.with_values(predictions)
        counts = tf.cast(sentences.row_lengths(), tf.int32)
        return self._named(sentences.to_tensor()) | {"num_words": counts}

    def _named(self, predictions: tf.Tensor) -> Tensors:
        """Names the outputs that follow from the model's predictions."""
        kind = self.description.kind
        if kind == "regression":
            return {"score": predictions[:, 0]}
        labels = tf.constant(self.description.labels)
        predictions = self._calibrated(predictions)
        thresholds = self.calibration.thresholds
        # One copy for each example: a server's JSON is a list of examples.
        copies = tf.repeat(labels[tf.newaxis], tf.shape(predictions)[0], 0)
        named = {"probabilities": predictions, "labels": copies}
        if kind == "multilabel":
            least = tf.zeros_like(predictions) + (thresholds or THRESHOLD)
            chosen = tf.ragged.boolean_mask(copies, predictions > least)
            if thresholds:
                named["thresholds"] = least
            between = self.description.label_separator
            label = tf.strings.reduce_join(chosen, axis=1, separator=between)
            return named | {"label": label}
        best = tf.argmax(predictions, axis=-1, output_type=tf.int32)
        score = tf.reduce_max(predictions, axis=-1)
        if len(thresholds) == 2:  # see `calibration.decide`
            best = tf.cast(predictions[:, 1] > thresholds[1], tf.int32)
            score = tf.gather(predictions, best, batch_dims=1)
        named |= {"label": tf.gather(labels, best), "score": score}
        return named | ({"choice": best} if kind == "choice" else {})

    def _calibrated(self, predictions: tf.Tensor) -> tf.Tensor:
        """Does what `Calibration.probabilities` does."""
        temperature = self.calibration.temperature
        if temperature == 1:
            return predictions
        given = tf.clip_by_value(predictions, LEAST, MOST)
        if self.description.kind == "multilabel":
            logits = tf.math.log(given) - tf.math.log1p(-given)
            return tf.sigmoid(logits / temperature)
        return tf.nn.softmax(tf.math.log(given) / temperature)

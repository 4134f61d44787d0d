"""A model that answers questions as functions of ids, records or plain texts.

Axes: B batch, S wordpieces, N windows, M spans.
"""

import tensorflow as tf

from data.in_graph import answers, windows
from data.squad.window_options import LARGE_SCORE
from data.text.in_graph import packing
from training.export.functions import Tensors, in_parts, of_texts, padded
from training.export.serving import Serving, Signatures

# Windows computed at once: a long text costs time, not memory.
_WINDOWS_AT_ONCE = 32
# The score of padding that is not computed.
_NEVER = -1e9
_QUESTION = "Where did the man go?"
_CONTEXT = "The man went to the store. He bought some milk there."


class SpanServing(Serving):
    """A model that marks the answer to a question in a text.

    | signature | takes | returns |
    | --- | --- | --- |
    | serving_default | see `Serving` | `start_logits`, `end_logits` |
    | serve_ids | | float32 [B, S] |
    | serve_examples | | |
    | serve_text | `question` and `context`, | `answer` string [B], the |
    | | string [B] each | characters `start` to before `end` of the |
    | | | context, int32 [B]; `probability` float32 [B] among the |
    | | | n best; with `version_2_with_negative` also |
    | | | `null_score_diff` float32 [B] |

    Where no answer is given, `answer` is "", and `start` and `end` are 0.
    Padding is never an answer, even for a model trained with --score_padding;
    the logits of padding that all rows share are -1e9.
    """

    kinds = ("span",)
    compared = ("start_logits",)

    def in_words(self) -> str:
        """Returns what the model does, as Markdown."""
        said = self.description
        nothing = ""
        if said.version_2_with_negative:
            over = f"`null_score_diff` > {said.null_score_diff_threshold:g}"
            nothing = f' or says that there is none: the answer is "" if {over}'
        return (
            "BERT, fine-tuned on questions: it marks the answer in a text"
            f"{nothing}. A long text is read in windows of "
            f"{said.max_seq_length} wordpieces, {said.doc_stride} apart. "
            "`start` and `end` count characters of the text; `answer` is the "
            "text between them."
        )

    def _text_signatures(self) -> Signatures:
        texts = {"question": [_QUESTION], "context": [_CONTEXT]}
        return {"serve_text": of_texts(self._answer_texts, **texts)}

    def _outputs(self, rows: Tensors, input_mask: tf.Tensor) -> Tensors:
        # Differs from the original: padding that all rows share is not
        # computed, because that takes less time.
        logits = padded(self._model.predict(rows), input_mask, _NEVER)
        return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}

    def _answer_texts(self, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        """Answers a question on each text; see the class."""
        options = self.description.answers
        # Once, because a tokenizer is half of the graph.
        texts, count = tf.concat([context, question], 0), tf.size(context)
        found = self._tokenizer.tokenize_with_offsets(texts)
        asked = found[0][count:]
        ids, starts, ends = (x[:count] for x in found)
        lengths = self.description.windows
        made = windows.make_windows(asked, ids, lengths, **self._special)
        rows = packing.padded(made.rows, made.doc_offset)
        logits = in_parts(self._score, rows, _WINDOWS_AT_ONCE, [None, 2])
        spans = answers.best_spans(logits, made, options)
        exists = spans.score > float("-inf")
        begins = ids.row_starts()[:, tf.newaxis]

        def characters(values, places):
            places = tf.where(exists, places + begins, 0)
            # A batch of empty texts has no value at all.
            found = tf.gather(tf.concat([values, [0]], axis=0), places)
            return tf.where(exists, found, 0)

        # Differs from the original: the answer is the exact slice of the text,
        # not whole words and single spaces, so that a client can mark it.
        start = characters(starts.values, spans.first)
        end = characters(ends.values, spans.last)
        texts = packing.substrings(context, start, end)
        probability, of_null = answers.probabilities(spans, texts, options)
        found = {"answer": texts, "start": start, "end": end}
        best = {name: x[:, 0] for name, x in found.items()}
        best["probability"] = probability
        if options.version_2_with_negative:
            return self._with_null(best, spans, of_null)
        return best

    def _with_null(
        self, best: Tensors, spans: answers.Spans, of_null: tf.Tensor
    ) -> Tensors:
        """Replaces the best spans by no answer where that is better."""
        score = spans.score[:, 0]
        exists = score > float("-inf")
        difference = tf.where(exists, spans.null - score, LARGE_SCORE)
        is_null = difference > self.description.null_score_diff_threshold
        null = {"answer": "", "start": 0, "end": 0, "probability": of_null}
        chosen = {n: tf.where(is_null, null[n], x) for n, x in best.items()}
        return chosen | {"null_score_diff": tf.cast(difference, tf.float32)}

    def _score(self, rows: Tensors) -> tf.Tensor:
        """Scores windows: [N, S, 2], as start and as end."""
        logits = self._answer(rows)
        return tf.stack([logits["start_logits"], logits["end_logits"]], axis=2)

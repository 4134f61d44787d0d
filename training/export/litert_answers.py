"""Answers of a LiteRT export to texts: `Predictor` without TensorFlow.

Axes: N rows, S wordpieces, L labels.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from data import calibration, settings
from data.finetuning import feature_options, features, long_text
from data.squad import answers, articles, examples, windows
from data.squad.window_options import AnswerOptions, WindowOptions
from data.storage.json_files import read_json
from data.tasks.examples import Example, InputExample, TaggingExample
from data.text.tokenization import FullTokenizer
from data.vectors.text_rows import RowMaker
from training.export.asking import checked_row, listed
from training.export.litert_model import REMEDY, LiteModel

_NEVER = -1e9  # the score of padding, which is not computed


def load(path: str) -> "LiteAnswers":
    """Loads a file of an export, see `litert_model.find`.

    Raises ValueError if a file is damaged, or the runtime is not installed.
    """
    model = LiteModel(path)
    said = read_json(os.path.join(model.folder, "task.json"), ("kind",), REMEDY)
    classes = {"tagging": _Tagger, "span": _Reader, "vectors": _Encoder}
    return classes.get(said["kind"], _Classifier)(model, said)


class LiteAnswers:
    """Answers texts, one row after the other; `said` is task.json's content.

    A subclass has `answer`, which takes the texts that have the `names`.

    Attributes:
      names: inputs of `serve_text`, see `Serving`.
      kind: what the model does, see `Description.kind`.
    """

    names: tuple[str, ...] = ("text",)

    def __init__(self, model: LiteModel, said: dict[str, Any]):
        self.kind, self._model, self._said = said["kind"], model, said
        vocab_file = os.path.join(model.folder, "vocab.txt")
        lower, whole = said["do_lower_case"], said["never_split"]
        self._tokenizer = FullTokenizer(vocab_file, lower, whole)

    def predict(
        self, texts: Sequence[Any], batch_size: int = 1, **own: Any
    ) -> list[dict]:
        """Answers as `Predictor.predict` does; `batch_size` changes nothing.

        `own` are further arguments of `answer`.
        """
        shapes = dict.fromkeys(self.names, ())
        rows = [checked_row(*x, shapes) for x in enumerate(listed(texts, 0))]
        return [self.answer(*row, **own) for row in rows]


class _Classifier(LiteAnswers):
    def __init__(self, model, said):
        super().__init__(model, said)
        if said["is_pair"]:
            self.names = "text_a", "text_b"
        self._calibration = calibration.Calibration(**model.card["calibration"])
        options = settings.make(feature_options.FeatureOptions, said)
        self._converter = features.Converter(self._tokenizer, options)

    def answer(self, *texts):
        found = np.stack([x for _, x in self._rows(InputExample("", *texts))])
        numbers = np.zeros(len(found), int)
        found = long_text.pool(found, numbers, self._said["pooling"], self.kind)
        if self.kind == "regression":
            return {"score": float(found[0, 0])}
        found = self._calibration.probabilities(found, self.kind)
        labels, thresholds = self._said["labels"], self._calibration.thresholds
        answer = {"labels": labels, "probabilities": found[0].tolist()}
        if self.kind == "multilabel":
            return answer | ({"thresholds": thresholds} if thresholds else {})
        (best,) = calibration.decide(self.kind, found, thresholds).tolist()
        return answer | {"label": labels[best], "score": float(found[0, best])}

    def _rows(self, example: Example) -> Iterator[tuple[dict, np.ndarray]]:
        """Yields an example's rows and what they predict, [L] or [S, L]."""
        for row in self._converter.rows([example]):
            size = sum(row["input_mask"])
            inputs = row["input_ids"][:size], row["segment_ids"][:size]
            yield row, predictions(self.kind, self._model.scores(*inputs))


class _Tagger(_Classifier):
    def answer(self, text):
        spans = self._tokenizer.spans(text)
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        words = [word for word, _ in self._tokenizer.words(text)]
        label, score = self.label_words(words)
        return {"starts": starts, "ends": ends, "label": label, "score": score}

    def label_words(self, words: list[str]) -> tuple[list[str], list[float]]:
        """Returns the labels of a sentence's words, and their probabilities."""
        labels, scores = [], []
        rows = self._rows(TaggingExample("", words)) if words else ()
        for row, found in rows:
            found = found[np.array(row["label_mask"][: len(found)]) == 1]
            labels += [self._said["labels"][i] for i in found.argmax(axis=1)]
            scores += found.max(axis=1).tolist()
        return labels, scores


class _Reader(LiteAnswers):
    names = ("question", "context")

    def answer(self, question, context):
        lengths = settings.make(WindowOptions, self._said)
        options = settings.make(AnswerOptions, self._said)
        asked = {"id": "", "question": question}
        content = {"paragraphs": [{"context": context, "qas": [asked]}]}
        article = articles.SquadArticles("", [("", content)], "")
        found = examples.read_examples(article)
        asked = [*windows.convert_examples(found, self._tokenizer, lengths)]
        of_question = asked[0][1]
        shape = len(of_question), lengths.max_seq_length, 2
        logits = np.full(shape, _NEVER, np.float32)
        for scores, window in zip(logits, of_question, strict=True):
            tokens = window.tokens
            segments = np.arange(len(tokens)) >= window.doc_offset
            scores[: len(tokens)] = self._model.scores(tokens, segments)
        (found,) = answers.predict(asked, logits, options)
        best = found.answer
        start, end = best.start or 0, best.end or 0
        span = {"answer": context[start:end], "start": start, "end": end}
        span["probability"] = best.probability
        if options.version_2_with_negative:
            span["null_score_diff"] = found.score_diff
        elif best.start is None:  # a text without a word
            span["probability"] = 0.0
        return span


class _Encoder(LiteAnswers):
    def encode(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 1,
        prompt_name: str | None = None,
        vector_size: int | None = None,
    ) -> np.ndarray:
        """Computes float32 [texts, H]; see `bert.Model.encode`.

        Raises ValueError for an unknown prompt, and for a `vector_size`.
        """
        if vector_size is not None:
            raise ValueError(
                f"vector_size is {vector_size}, but an export of LiteRT gives "
                "whole vectors: leave it out, or load its run's output_dir."
            )
        found = self.predict(texts, batch_size, prompt_name=prompt_name)
        return np.stack([x["vectors"] for x in found])

    def answer(self, text, prompt_name=None):
        form = self._model.card["form"]
        name = form["default_prompt"] if prompt_name is None else prompt_name
        if name not in ("", *form["prompts"]):
            raise ValueError(
                f"there is no prompt {name!r}; the model has "
                f"{', '.join(form['prompts']) or 'none'}."
            )
        most, prompt = self._said["max_seq_length"], form["prompts"].get(name)
        row = RowMaker(self._tokenizer, most).single((prompt or "") + text)
        if row.num_lost:
            kept = most - 2
            logging.warning("%.40r was cut after %d wordpieces.", text, kept)
        return {"vectors": self._model.scores(row.input_ids, row.segment_ids)}


def predictions(kind: str, logits: np.ndarray) -> np.ndarray:
    """Turns logits [..., L] into what a `TaskModel` of the kind predicts."""
    # Not by SciPy, whose import takes a third of a second.
    if kind == "regression":
        return logits
    if kind == "multilabel":
        return 1 / (1 + np.exp(-logits))
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)

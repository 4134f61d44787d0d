"""BERT in Python: load a model, ask it, fine-tune it.

    import bert

    model = bert.load("/models/uncased_L-12_H-768_A-12")
    model.encode(["He left.", "She stayed."])
    model.fill_mask(["Paris is the [MASK] of France."])

    bert.finetune(table, "/models/uncased_L-12_H-768_A-12", "/tmp/reviews")
    bert.load("/tmp/reviews").predict(["A fine film."])

Everything here calls what the programs call; see docs/python.md.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from data.entities import entities_of
from data.settings import typed
from data.storage import files
from training.export import litert_model
from training.export.asking import PAIRS, fillings, listed, masked, named
from training.export.vector_methods import VectorMethods

if TYPE_CHECKING:
    from training.export.litert_answers import LiteAnswers
    from training.export.predictor import Predictor

# Method -> the kinds of model that have it.
_KINDS = {
    "fill_mask": ("pretraining",),
    "predict": ("classification", "multilabel", "regression", "choice"),
    "entities": ("tagging",),
    "answer": ("span",),
}
_METHODS = {kind: name for name, kinds in _KINDS.items() for kind in kinds}
_ENCODE = "encode (in a shell: run_sentence_vectors.py --do_encode)"


@typed
def load(
    folder: str | os.PathLike,
    *,
    max_seq_length: int | None = None,
    use_calibration: bool = True,
    **options: Any,
) -> "Model":
    """Loads a model.

    Args:
      folder: the original release's, Hugging Face's, the output_dir of a run
        (see `modeling.load`), an export_dir, one version of it, or one of its
        .tflite files (a folder stands for the 8-bit one).
      max_seq_length: most wordpieces of a text; None = as the model was
        trained, else as many as it has positions. An export has its own.
      use_calibration: whether to use what --calibrate has kept in the folder.
      **options: see `modeling.load`, which also says what is refused. An export
        takes none.

    Raises ValueError for an argument of another type.
    """
    settings = {} if use_calibration else {"use_calibration": False}
    if max_seq_length is not None:
        settings["max_seq_length"] = max_seq_length
    return Model(os.fspath(folder), settings, options)


class Model(VectorMethods):
    """A model that is asked about lists of texts; `load` makes it.

    The texts of one call are sorted by length and computed in batches. Results
    are in the order of the texts. Texts that are too long are truncated, but
    `entities`, `answer` and models of `long_text=windows` read them in windows.

    A method raises ValueError if the model has another kind, or if the list is
    empty, is a table, or contains something that is not a text.

    Attributes:
      folder: as given to `load`.
      kind: `encoder`, `pretraining`, `classification`, `multilabel`,
        `regression`, `choice`, `tagging`, `span` or `vectors`.
      loaded: what `modeling.load` returned: the Keras model, its encoder,
        tokenizer, labels and more; None = it is an export.
    """

    def __init__(
        self, folder: str, settings: dict[str, Any], options: dict[str, Any]
    ):
        self.folder, self._settings = folder, settings
        # Settings, as text because some are lists -> what computes by them.
        # Each traces its graph once.
        self._predictors: dict[str, Predictor | LiteAnswers] = {}
        if found := _export_of(folder):
            self._refuse_for_export(settings | options)
            self._predictors[repr([])], self.kind = found, found.kind
            self._vectors = found
            return
        import modeling
        from training.vectors.texts import TextVectors

        if files.exists(folder):
            folder = files.absolute(folder)  # its files are read later, too
        self.loaded = loaded = typed(modeling.load)(folder, **options)
        self.kind = loaded.kind
        self._vectors = TextVectors(loaded, settings.get("max_seq_length"))

    def __repr__(self):
        return f"<bert.Model {self.folder!r}: {self.kind}>"

    def fill_mask(
        self,
        texts: Iterable[str],
        *,
        top_k: int | None = None,
        batch_size: int = 32,
    ) -> list[list[list[dict[str, Any]]]]:
        """Finds the likeliest wordpieces for every [MASK].

        Args:
          texts: strings with one `[MASK]` or more.
          top_k: wordpieces for each [MASK]; None = as the model's run says,
            else 5. An export has its own.
          batch_size: texts computed at once.

        Returns:
          For each text, for each [MASK] in it, the likeliest wordpieces:
          `token`, and `score`, its probability.
        """
        texts = masked(self._checked("fill_mask", texts), self.loaded)
        settings = {} if top_k is None else {"top_k": top_k}
        answers = self._answers(texts, batch_size, **settings)
        return list(map(fillings, range(len(texts)), texts, answers))

    def predict(
        self, texts: Iterable[Any], *, batch_size: int = 32
    ) -> list[dict[str, Any]]:
        """Predicts the label, the labels, the number or the choice.

        Args:
          texts: strings; for a task of pairs tuples of two strings; for a
            choice tuples of a string and the list of its choices.
          batch_size: texts computed at once.

        Returns:
          For each text, by the kind of the model:

          - classification: `label`, `score` (its probability) and
            `probabilities`, label -> probability.
          - multilabel: `labels`, those above 0.5 or their thresholds, and
            `probabilities`.
          - regression: `score`, the number.
          - choice: `choice` (the place of the best, from 0), `score` and
            `probabilities`, in the order of the choices.
        """
        texts = self._checked("predict", texts)
        answers = self._answers(texts, batch_size)
        return [named(self.kind, answer) for answer in answers]

    def explain(
        self, text: str | tuple[str, str], label: str | None = None
    ) -> dict[str, Any]:
        """Attributes a label's score (None = the answer's) to words of a text.

        Returns `label`, `score` (log-odds), `baseline` (without the words) and
        `words`: `word`, `value`, `start`, `end`, `text` (1 = second of a pair).
        """
        (answer,) = self.predict([text])
        length = self._text_vectors().max_seq_length
        from training.export.loaded_model import describe
        from training.finetuning.explaining import Explainer

        said = describe(self.loaded, max_seq_length=length)
        vocab = self.loaded.tokenizer.vocab
        explainer = Explainer(self.loaded.model, vocab, said)
        labels = [*answer["probabilities"]]
        if label is None:
            best = max(labels, key=answer["probabilities"].get)
            label = answer.get("label", best)
        if label not in labels:
            raise ValueError(
                f"label is {label!r}, but the labels of {self.folder} are "
                f"{', '.join(labels)}."
            )
        texts = (text,) if isinstance(text, str) else tuple(text)
        found = explainer.explain(texts, labels.index(label))
        names = ("text", "start", "end", "value")
        words = [dict(zip(names, word, strict=True)) for word in found.words]
        for word in words:
            word["word"] = texts[word["text"]][word["start"] : word["end"]]
        scores = {"score": found.score, "baseline": found.baseline}
        return {"label": label, **scores, "words": words}

    def entities(
        self, texts: Iterable[str], *, batch_size: int = 32
    ) -> list[list[dict[str, Any]]]:
        """Finds the entities of texts: wordpieces and words are joined.

        Returns for each text its entities: `text`, `label`, `start` and `end`
        (characters of the text) and `score`, the mean probability of the labels
        of its words. Labels other than O, B-x, I-x, E-x and S-x, such
        as parts of speech, give an entity for each word.
        """
        texts = self._checked("entities", texts)
        answers = self._answers(texts, batch_size)
        columns = ("starts", "ends", "label", "score")
        return [
            entities_of(text, *(answer[name] for name in columns))
            for text, answer in zip(texts, answers, strict=True)
        ]

    def answer(
        self,
        questions: Iterable[tuple[str, str]],
        *,
        batch_size: int = 32,
        **settings: Any,
    ) -> list[dict[str, Any]]:
        """Answers questions, each with a span of a text.

        Args:
          questions: tuples of a question and the text that has the answer.
          batch_size: questions computed at once.
          **settings: flags of run_squad.py for windows and answers, such as
            max_answer_length, with other values than in its run.

        Returns:
          For each question `answer`, `start` and `end` (characters of the
          text) and `score`, its probability among the best answers. If there
          may be no answer, which is "", also `null_score_diff`.
        """
        questions = self._checked("answer", questions)
        answers = self._answers(questions, batch_size, **settings)
        for answer in answers:
            answer["score"] = answer.pop("probability")
        return answers

    def ask(self, texts: Iterable[Any], **settings: Any) -> list[Any]:
        """Calls fill_mask, predict, entities or answer, by the model's kind."""
        texts = self._checked("ask", texts)
        return getattr(self, _METHODS[self.kind])(texts, **settings)

    def _checked(self, method: str, texts: Iterable[Any]) -> list[Any]:
        """Refuses a call for another kind of model; returns the texts."""
        kinds = _KINDS.get(method, tuple(_METHODS))
        if self.kind not in kinds:
            raise ValueError(
                f"{self.folder} is a model of the kind {self.kind}, but "
                f"{method} needs {' or '.join(kinds)}. Call "
                f"{_METHODS.get(self.kind, _ENCODE)}, or load another model."
            )
        return listed(texts)

    def _answers(
        self, texts: list[Any], batch_size: int, **settings: Any
    ) -> list[dict[str, Any]]:
        """Returns what an export's `serve_text` says of each text."""
        settings = self._settings | settings
        if self.loaded and self.kind in PAIRS:
            # Only our runs say whether they were trained on pairs.
            if (self.loaded.description or {}).get("is_pair") is None:
                settings["is_pair"] = isinstance(texts[0], tuple | list)
        key = repr(sorted(settings.items()))
        if key not in self._predictors:
            self._refuse_for_export(settings)
            from training.export.loaded_model import signatures_of
            from training.export.predictor import Predictor

            signatures = signatures_of(self.loaded, **settings)
            self._predictors[key] = Predictor(signatures)
        return self._predictors[key].predict(texts, batch_size)

    def _refuse_for_export(self, settings: Mapping[str, Any]) -> None:
        if settings and not self.loaded:
            raise ValueError(
                f"{self.folder} is an export with fixed settings; leave out "
                f"{', '.join(settings)}, or load the output_dir of its run."
            )


def _export_of(folder: str) -> "Predictor | LiteAnswers | None":
    """Loads an export; TensorFlow only if it has none of LiteRT's files."""
    if path := litert_model.find(folder):
        from training.export import litert_answers

        return litert_answers.load(path)
    from training.export.predictor import Predictor, find_version

    return Predictor.load(folder) if find_version(folder) else None


def finetune(
    train: Any,
    folder: str,
    output_dir: str,
    *,
    dev: Any = None,
    test: Any = None,
    kind: str = "single",
    text: str | Sequence[str] = "",
    label: str = "label",
    on_step: Callable[[int, Mapping[str, float]], None] | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Fine-tunes a model on a table, as run_classifier.py does.

    The same call resumes a run that was stopped. `load(output_dir)` loads the
    result.

    Args:
      train: a pandas DataFrame; a dict of columns; a list of dicts; a list of
        tuples, the texts first and the label last; or the path of a file, tsv,
        csv or JSON lines. A value is a string, a number or a list of them.
      folder: folder of the first weights, see `modeling.load`.
      output_dir: folder of checkpoints and results, as run_classifier.py
        writes them; tables from memory are kept in its folder `data`.
      dev: a table to evaluate on; or the share of `train` that is drawn for
        this, such as 0.1; None = no evaluation.
      test: a table to predict, with or without labels: predictions.tsv.
      kind: what a row is: `single` or `pair` (texts and a label),
        `regression`, `multilabel`, `choice` or `tagging`.
      text: column of the text, or both columns of two texts; "" = `text`, for
        pairs `text_a` and `text_b`, for tagging `words`.
      label: column of the label.
      on_step: called after each step, at most a second later, with the step
        from 1 and its metrics, such as `loss` and `learning_rate`. If it
        raises, the run saves its step and ends; the same call resumes it.
      **settings: flags of run_classifier.py for training and evaluation, such
        as `learning_rate`, `max_seq_length`, `num_trials`, `labels`.

    Returns:
      Metric -> value on the dev set, as in metrics.json; {} without one.

    Raises:
      ValueError, OSError: a table, a column or a value is missing or wrong, or
        the model does not fit.
    """
    from training.many_runs import table_run

    tables = {"train": train, "dev": dev, "test": test}
    folders = os.fspath(folder), files.absolute(os.fspath(output_dir))
    settings |= {"kind": kind, "text": text, "label": label, "on_step": on_step}
    return table_run.run(tables, *folders, **settings)


def train_vectors(
    train: Any, folder: str, output_dir: str, *, dev: Any = None, **settings
) -> dict[str, float]:
    """Trains vectors of texts, as run_sentence_vectors.py does.

    `train` and `dev` are tables or files, see `finetune`; columns `text_a`,
    `text_b` and `score`, or `text` to learn a teacher's vectors. None = the set
    of `task_name` in `data_dir`; as `dev` only for GLUE's tasks or an
    `eval_task_name`. `settings` are flags of the program, such as `loss` and
    `vector_sizes`. Returns metric -> value on the dev set.
    """
    from training.many_runs import table_run

    tables = {"train": train, "dev": dev}
    folders = os.fspath(folder), files.absolute(os.fspath(output_dir))
    return table_run.train_vectors(tables, *folders, **settings)

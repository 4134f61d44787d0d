"""A run of run_squad.py."""

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import NamedTuple

from absl import logging

from data.records import input_pipeline
from data.settings import names_of
from data.squad.articles import SquadArticles
from data.squad.examples import SquadReport
from data.squad.records import make_records as make_record_file
from data.squad.window_options import (
    NUM_SPECIAL,
    AnswerOptions,
    WindowOptions,
    check_null_threshold,
)
from data.squad.windows import Questions, feature_specs
from data.storage import files
from data.text.tokenization import FullTokenizer
from modeling.checkpoints import tf1
from modeling.embeddings import require_pairs
from modeling.objectives.spans import SpanModel
from training.config.squad_options import SquadOptions
from training.finetuning.answers import (
    THRESHOLD_FILE,
    QuestionScorer,
    known_threshold,
    read_threshold,
)
from training.finetuning.best_checkpoint import BestCheckpoint, Choice
from training.finetuning.distilling import Teacher, open_teacher
from training.finetuning.finetuner import Finetuning
from training.finetuning.metric_values import Results
from training.start import description
from training.start.description import Description, SpanDescription
from training.start.source import Source
from training.start.start import Start, check_outputs, read_files

_RESULTS = (
    *("predictions.json", "nbest_predictions.json", "null_odds.json"),
    *("metrics.json", "predictions.html"),
)
_RECORDS = ("train.tf_record", "eval.tf_record")
# Flags on which the best threshold depends.
_RULES = {
    *("do_lower_case", "never_split"),
    *names_of(WindowOptions),
    *names_of(AnswerOptions),
} - {"version_2_with_negative"}


class Opened(NamedTuple):
    """A run whose files are read and checked; nothing is written yet.

    Attributes:
      options: the run's options, completed by `found_files`.
      tokenizer: splits texts into wordpieces of the vocabulary.
      teacher: what the run learns from beside the answers.
      start: configuration, folder and first weights.
      scorer: of the questions to answer or to evaluate on; None = none.
      described: `task.json` of output_dir.
      choice: see `BestCheckpoint`.
    """

    options: SquadOptions
    tokenizer: FullTokenizer
    teacher: Teacher
    start: Start
    scorer: QuestionScorer | None
    described: Description | None
    choice: Choice


class Inputs(NamedTuple):
    """The records of a run; None = do not train, or do not answer.

    `num_examples` is the size of an epoch; None = the number of records.
    """

    train: input_pipeline.RecordFiles | None
    num_examples: int | None
    dev: input_pipeline.RecordFiles | None


def run(options: SquadOptions) -> None:
    """Trains and predicts after checking all inputs.

    Raises:
      ValueError, OSError: an input is missing or does not fit; all inputs are
        checked before the first training step.

    Source: `run_squad.main`.
    """
    opened = open_run(options)
    inputs = make_records(opened)
    model = make_model(opened)
    step, weights = train_and_score(opened, inputs, model)
    threshold = answer(opened, inputs, model, step)
    describe(opened, threshold, weights)
    if options.do_train:
        model.finish(old=() if options.do_predict else ["predictions.json"])


def open_run(options: SquadOptions) -> Opened:
    """Refuses missing files and weights that do not fit; writes no records.

    Raises:
      ValueError, OSError: an input is missing or does not fit.
    """
    found = read_files(options, kinds=["span"])
    options, config, tokenizer, source, described = found
    _warn_of_stride(options.windows)
    if options.score_padding:
        options = options.replace(trim_batches=False)
    names = ("train_file", "predict_file")
    inputs = {name: getattr(options, name) for name in names}
    check_outputs(options.output_dir, inputs, (*_RESULTS, *_RECORDS))
    teacher = open_teacher(options, tokenizer)
    head, pads = {"head": options.head}, options.score_padding
    start = Start(
        options.finetuning,
        config,
        source,
        functools.partial(SpanModel, **head, score_padding=pads),
        trains=options.do_train,
        head=head,
    )
    require_pairs(config, "a question and its text")
    options = _with_threshold(options, source, described)
    scorer, names = None, {}
    if options.predict_data:
        data = options.predict_data.read()
        asked = _questions(options, data, tokenizer)
        changed = _changed_rules(options, described)
        scorer = _make_scorer(options, asked, changed)
        names = {"dev": scorer.metric_names} if scorer.has_answers else {}
    choice = Choice.open(options.finetuning, names)
    opened = options, tokenizer, teacher, start, scorer
    return Opened(*opened, described, choice)


def _questions(
    options: SquadOptions,
    data: SquadArticles,
    tokenizer: FullTokenizer,
    is_training: bool = False,
) -> Questions:
    has_null = options.answers.version_2_with_negative
    how = tokenizer, options.windows, is_training, has_null
    return Questions(data, *how)


def _with_threshold(
    options: SquadOptions, source: Source, described: Description | None
) -> SquadOptions:
    """Takes the threshold of a model elsewhere, if no flag says it.

    Raises ValueError for --find_null_threshold without the flag that it needs.
    """
    answers, folder = options.answers, options.output_dir
    check_null_threshold(options, "version_2_with_negative")
    given = answers.null_score_diff_threshold
    if not answers.version_2_with_negative or given is not None:
        return options
    found_here = read_threshold(folder) and described  # else of another model
    is_elsewhere = not options.do_train and not tf1.has_run(folder)
    if options.find_null_threshold or found_here or not is_elsewhere:
        return options
    known = (source.folder and source.folder.description) or {}
    if described and not (known and description.names_model(options)):
        known = vars(described)
    threshold = known.get("null_score_diff_threshold", 0.0)
    logging.info("--null_score_diff_threshold=%g, of the model.", threshold)
    return options.replace(null_score_diff_threshold=threshold)


def _changed_rules(
    options: SquadOptions, described: Description | None
) -> list[str]:
    """Flags by which this command answers otherwise than the trained model."""
    is_trained = tf1.has_run(options.output_dir)
    if options.do_train or not (is_trained and described):
        return []
    return [
        name
        for name, value in described.options().items()
        if name in _RULES and options.find(name) != value
    ]


def _warn_of_stride(windows: WindowOptions) -> None:
    room = windows.max_seq_length - windows.max_query_length - NUM_SPECIAL
    if windows.doc_stride >= room:
        logging.warning(
            "--doc_stride=%d: windows with the longest questions have %d "
            "places for the text, so they do not overlap, and no window "
            "contains an answer on their border. A third of --max_seq_length "
            "is usual.",
            *(windows.doc_stride, room),
        )


def _make_scorer(
    options: SquadOptions, asked: Questions, changed: Sequence[str] = ()
) -> QuestionScorer:
    """Warns if the questions do not fit the flags, and refuses unknown ones."""
    scorer, name = QuestionScorer(asked, options, changed), asked.data.name
    if not scorer.has_answers:
        flag = "eval_every_steps" if options.watches else "find_null_threshold"
        if options.watches or options.find_null_threshold:
            raise ValueError(
                f"{name} has no answers to score by; leave out --{flag}."
            )
        logging.info("%s has no answers: no scores.", name)
    unanswerable = [x for x in asked.examples if x.answers == ()]
    if unanswerable and not options.answers.version_2_with_negative:
        logging.warning(
            "%s has %d unanswerable questions: as in SQuAD 1.1, they will be "
            "answered but not scored. For SQuAD 2.0, pass "
            "--version_2_with_negative.",
            *(name, len(unanswerable)),
        )
    return scorer


def make_records(opened: Opened) -> Inputs:
    """Writes the records of a run to its output_dir, or finds them there.

    Raises:
      ValueError, OSError: the data are missing or wrong, output_dir was trained
        on other data, or a file cannot be written.
    """
    options = opened.options
    train = dev = num_examples = None
    # Freed before the training: it takes 0.5 GB for SQuAD 2.0.
    train_data = options.train_data and options.train_data.read()
    if opened.scorer:
        dev, _ = _records(opened, opened.scorer.questions)
    if train_data:
        asked = _questions(options, train_data, opened.tokenizer, True)
        train, report = _records(opened, asked)
        num_examples = None if options.count_windows else report.num_examples
    return Inputs(train, num_examples, dev)


def _records(
    opened: Opened, questions: Questions
) -> tuple[input_pipeline.RecordFiles, SquadReport]:
    """Writes train.tf_record or eval.tf_record, unless it exists."""
    windows, is_training = questions.options, questions.is_training
    path = opened.options.output_dir
    path = os.path.join(path, _RECORDS[not is_training])
    check = opened.teacher.check(opened.start) if is_training else None
    report = make_record_file(questions, path, check)
    if not report.num_windows:
        raise ValueError(
            f"{questions.data.name}: all {report.num_empty_paragraphs} "
            "paragraphs are empty; give a file with texts."
        )
    limits = {
        "input_ids": opened.start.config.vocab_size,
        "segment_ids": opened.start.config.type_vocab_size,
        "start_positions": windows.max_seq_length,
        "end_positions": windows.max_seq_length,
    }
    specs = feature_specs(windows.max_seq_length, is_training)
    record_files = input_pipeline.open_records([path], specs, limits=limits)
    if is_training and opened.teacher.folder:
        record_files = opened.teacher.add_scores(opened.start, record_files)
    return record_files, report


def make_model(opened: Opened) -> Finetuning:
    """The model in its output_dir, described there when training begins."""
    threshold = opened.options.answers.null_score_diff_threshold
    return Finetuning(
        opened.start,
        batch_sizes=["predict_batch_size"] * bool(opened.scorer),
        distillation=opened.teacher.distillation,
        begin=functools.partial(describe, opened, threshold),
    )


def train_and_score(
    opened: Opened, inputs: Inputs, model: Finetuning
) -> tuple[int, str]:
    """Trains; returns the step of the kept weights, and their checkpoint."""
    scorer = opened.scorer

    def evaluate(step: int) -> Results:
        return {"dev": scorer.evaluate(model.outputs(inputs.dev), step)}

    best = BestCheckpoint(model, evaluate, opened.choice)
    dev = filter(None, [inputs.dev])
    step = best.train(inputs.train, dev, inputs.num_examples)
    # --do_predict scores what it answers.
    if scorer and not opened.options.do_predict and scorer.step != step:
        evaluate(step)
    return step, best.weights(step)


def answer(
    opened: Opened, inputs: Inputs, model: Finetuning, step: int
) -> float:
    """Writes the answers; returns the threshold of no answer."""
    options = opened.options
    if options.do_predict:
        outputs = model.outputs(inputs.dev)
        return opened.scorer.write(outputs, step)
    return known_threshold(options, step)


def describe(
    opened: Opened, threshold: float | None, weights: str = ""
) -> None:
    """Writes what the model is made with; "" = its training begins."""
    options, answers, found = opened.options, opened.options.answers, {}
    known, is_trained = opened.described, opened.start.manager.steps()
    path = os.path.join(options.output_dir, THRESHOLD_FILE)
    if options.find_null_threshold and not _changed_rules(options, known):
        found["null_score_diff_threshold"] = threshold
    if description.keep(options, known, weights, **found):
        return
    if threshold is None:
        threshold = known.null_score_diff_threshold if known else 0.0
    is_new = not weights and not is_trained
    is_given = answers.null_score_diff_threshold is not None
    if (is_given or is_new) and files.exists(path):
        logging.warning("%s is removed: the threshold is %g.", path, threshold)
        files.remove(path)
    answers = answers.replace(null_score_diff_threshold=threshold)
    described = description.make(
        *(options, SpanDescription),
        task_name="SQuAD 2.0" if answers.version_2_with_negative else "SQuAD",
        kind="span",
        model={},
        distillation=options.distillation.remembered,
        score_padding=options.score_padding,
        **dataclasses.asdict(options.windows),
        **dataclasses.asdict(answers),
    )
    description.write(options, described, weights)

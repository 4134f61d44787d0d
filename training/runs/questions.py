"""A run of run_squad.py."""

import dataclasses
import functools
import os

from absl import logging

from data.records.input_pipeline import RecordFiles, open_records
from data.squad import window_options
from data.squad.examples import SquadReport
from data.squad.records import make_records as make_record_file
from data.squad.windows import Questions, feature_specs
from data.storage import files
from modeling.checkpoints import tf1
from modeling.embeddings import require_pairs
from modeling.objectives.spans import SpanModel
from training.config.squad_options import SquadOptions
from training.devices.strategy import check_batch_sizes
from training.finetuning import answers
from training.finetuning.best_checkpoint import BestCheckpoint
from training.finetuning.distilling import Teacher
from training.finetuning.finetuner import Finetuning
from training.finetuning.metric_values import Results
from training.start import description, setup
from training.start.found_files import read_files
from training.start.source import Source
from training.start.start import Start, check_outputs

_RESULTS = (
    *("predictions.json", "nbest_predictions.json", "null_odds.json"),
    *("metrics.json", "predictions.html"),
)
_RECORDS = ("train.tf_record", "eval.tf_record")
# Flags on which the best threshold depends.
_RULES = answers.RULES - {"version_2_with_negative"}


def run(options: SquadOptions) -> None:
    """Trains and predicts after checking all inputs.

    Raises:
      ValueError, OSError: an input is missing or does not fit; all inputs are
        checked before the first training step.

    Source: `run_squad.main`.
    """
    Run(options).finish()


class Run:
    """A run whose files are read and checked; no records are written yet.

    Attributes:
      scorer: of the questions to answer or to evaluate on; None = none.

    Raises:
      ValueError, OSError: an input is missing or does not fit.
    """

    def __init__(self, options: SquadOptions):
        found = read_files(options, kinds=["span"])
        options, config, self._tokenizer, source, self._described = found
        options.windows.check_room()
        _warn_of_stride(options.windows)
        if options.score_padding:
            options = options.replace(trim_batches=False)
        inputs = {x: options.find(x) for x in ("train_file", "predict_file")}
        check_outputs(options.output_dir, inputs, (*_RESULTS, *_RECORDS))
        sizes = ["train_batch_size"] * options.do_train
        sizes += ["predict_batch_size"] * bool(options.predict_data)
        check_batch_sizes(options.finetuning, sizes)
        self._teacher = Teacher(options, self._tokenizer)
        head, pads = {"head": options.head}, options.score_padding
        self._start = Start(
            *(options.finetuning, config, source),
            functools.partial(SpanModel, **head, score_padding=pads),
            trains=options.do_train,
            head=head,
        )
        require_pairs(config, "a question and its text")
        self._options = options
        self._take_threshold(source)
        self.scorer, names = None, {}
        if options.predict_data:
            self.scorer = self._make_scorer(self._questions(is_training=False))
            if self.scorer.has_answers:
                names["dev"] = self.scorer.metric_names
        self._best = BestCheckpoint(options.finetuning, names)

    def _questions(self, is_training: bool) -> Questions:
        options = self._options
        data = options.train_data if is_training else options.predict_data
        has_null = options.answers.version_2_with_negative
        how = self._tokenizer, options.windows, is_training, has_null
        return Questions(data.read(), *how)

    def _take_threshold(self, source: Source) -> None:
        """Takes the threshold of a model elsewhere, if no flag says it.

        Raises ValueError for --find_null_threshold without the flag that it
        needs.
        """
        options, described = self._options, self._described
        rules, folder = options.answers, options.output_dir
        window_options.check_null_threshold(options, "version_2_with_negative")
        given = rules.null_score_diff_threshold
        if not rules.version_2_with_negative or given is not None:
            return
        # Without a description, the file is about another model.
        found_here = answers.read_threshold(folder) and described
        is_elsewhere = not options.do_train and not tf1.has_run(folder)
        if options.find_null_threshold or found_here or not is_elsewhere:
            return
        known = (source.folder and source.folder.description) or {}
        if described and not (known and description.names_model(options)):
            known = vars(described)
        threshold = known.get("null_score_diff_threshold", 0.0)
        logging.info("--null_score_diff_threshold=%g, of the model.", threshold)
        self._options = options.replace(null_score_diff_threshold=threshold)

    @property
    def _changed_rules(self) -> list[str]:
        """Flags by which this command answers otherwise than the model's."""
        options, described = self._options, self._described
        manager = self._start.manager
        stays = manager.made_from()  # as in `description.keep`
        if not manager.steps():
            stays = not description.names_model(options)
        if options.do_train or not (described and stays):
            return []
        return [
            name
            for name, value in described.options().items()
            if name in _RULES and options.find(name) != value
        ]

    def _make_scorer(self, asked: Questions) -> answers.QuestionScorer:
        """Warns of questions that do not fit the flags, or refuses them."""
        options, name = self._options, asked.data.name
        scorer = answers.QuestionScorer(asked, options, self._changed_rules)
        if not scorer.has_answers:
            watches, finds = options.watches, options.find_null_threshold
            if watches or finds:
                flag = "eval_every_steps" if watches else "find_null_threshold"
                raise ValueError(
                    f"{name} has no answers to score by; leave out --{flag}."
                )
            logging.info("%s has no answers: no scores.", name)
        unanswerable = [x for x in asked.examples if x.answers == ()]
        if unanswerable and not options.answers.version_2_with_negative:
            logging.warning(
                "%s has %d unanswerable questions: as in SQuAD 1.1, answered "
                "but not scored. For SQuAD 2.0 pass --version_2_with_negative.",
                *(name, len(unanswerable)),
            )
        return scorer

    def finish(self) -> None:
        """Makes the records, trains and answers as asked."""
        options, scorer = self._options, self.scorer
        train = dev = count = None
        if options.do_train:
            # The questions are not kept: they take 0.5 GB for SQuAD 2.0.
            train, report = self._records(self._questions(is_training=True))
            if not options.count_windows:
                count = report.num_examples
        if scorer:
            dev, _ = self._records(scorer.questions)
        model = self.make_model()

        def evaluate(step: int) -> Results:
            return {"dev": scorer.evaluate(model.outputs(dev), step)}

        devs, rules = filter(None, [dev]), vars(options.answers)
        step = self._best.train(model, evaluate, train, devs, count, **rules)
        if options.do_predict:
            threshold = scorer.write(model.outputs(dev), step)
        else:
            if scorer and scorer.step != step:
                evaluate(step)
            threshold = answers.known_threshold(options, step)
        self.describe(threshold, self._best.weights(step))
        if options.do_train:
            old = [] if options.do_predict else ["predictions.json"]
            model.finish(do_predict=old if scorer else [*old, "metrics.json"])

    def _records(self, questions: Questions) -> tuple[RecordFiles, SquadReport]:
        """Writes train.tf_record or eval.tf_record, unless it exists.

        Raises ValueError if there are no texts, or output_dir was trained on
        other data.
        """
        windows, is_training = questions.options, questions.is_training
        name, config = _RECORDS[not is_training], self._start.config
        path = os.path.join(self._options.output_dir, name)
        check = self._teacher.check(self._start) if is_training else None
        report = make_record_file(questions, path, check)
        if not report.num_windows:
            raise ValueError(
                f"{questions.data.name}: no paragraph has a wordpiece; give a "
                "file with texts."
            )
        names = ("start_positions", "end_positions")
        limits = setup.limits_of(config)
        limits |= dict.fromkeys(names, windows.max_seq_length)
        specs = feature_specs(windows.max_seq_length, is_training)
        record_files = open_records([path], specs, limits=limits)
        if is_training and self._teacher.folder:
            record_files = self._teacher.add_scores(record_files)
        return record_files, report

    def make_model(self) -> Finetuning:
        """The model in its output_dir, described there when training begins."""
        threshold = self._options.answers.null_score_diff_threshold
        return Finetuning(
            self._start,
            distillation=self._teacher.distillation,
            begin=functools.partial(self.describe, threshold),
        )

    def describe(self, threshold: float | None, weights: str = "") -> None:
        """Writes what the model is made with; "" = its training begins."""
        options, rules, found = self._options, self._options.answers, {}
        known, is_trained = self._described, self._start.manager.steps()
        path = os.path.join(options.output_dir, window_options.THRESHOLD_FILE)
        if options.find_null_threshold and not self._changed_rules:
            found["null_score_diff_threshold"] = threshold
        if description.keep(options, known, weights, **found):
            return
        if threshold is None:
            threshold = known.null_score_diff_threshold if known else 0.0
        is_new = not weights and not is_trained
        is_given = rules.null_score_diff_threshold is not None
        if (is_given or is_new) and files.exists(path):
            logging.warning(
                "%s is removed: the threshold is %g.", path, threshold
            )
            files.remove(path)
        rules = rules.replace(null_score_diff_threshold=threshold)
        described = description.make(
            *(options, description.SpanDescription),
            task_name="SQuAD 2.0" if rules.version_2_with_negative else "SQuAD",
            kind="span",
            distillation=options.distillation.remembered,
            score_padding=options.score_padding,
            **dataclasses.asdict(options.windows),
            **dataclasses.asdict(rules),
        )
        description.write(options, described, weights)


def _warn_of_stride(windows: window_options.WindowOptions) -> None:
    room = windows.max_seq_length - windows.max_query_length
    room -= window_options.NUM_SPECIAL
    if windows.doc_stride >= room:
        logging.warning(
            "--doc_stride=%d: windows with the longest questions have %d "
            "places for the text, so they do not overlap, and none has an "
            "answer on their border. A third of --max_seq_length is usual.",
            *(windows.doc_stride, room),
        )

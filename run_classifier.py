r"""Fine-tunes BERT on a task of sentences, pairs, choices or words.

  python run_classifier.py --task_name=MRPC --do_train --do_eval \
    --data_dir=glue_data/MRPC --vocab_file=$BERT/vocab.txt \
    --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/tmp/mrpc \
    --learning_rate=2e-5 --num_train_epochs=3

  python run_classifier.py --task_name=MRPC --do_predict \
    --data_dir=glue_data/MRPC --vocab_file=$BERT/vocab.txt \
    --bert_config_file=$BERT/bert_config.json --output_dir=/tmp/mrpc

Training writes checkpoints (model.ckpt-N), evaluation eval_results.txt and
metrics.json, prediction test_results.tsv (probabilities), predictions.tsv (with
ids and labels) and, for GLUE, the file its server takes. The same command again
resumes a run that was stopped. --num_trials=5 trains with five seeds and takes
the best on the dev set; --task_name=GLUE goes through all tasks in data_dir.
"""

from absl import flags

from data import tasks
from modeling.choices import HEADS, MIXES
from training import program
from training.config import finetuning_flags
from training.config import flags as training_flags
from training.config.finetuning_options import (
    TABLE,
    ClassifierOptions,
    TrialOptions,
    task_names,
)
from training.config.options import ExportOptions

FLAGS = flags.FLAGS

# Flags that only some tasks take: they refuse those that are not for them.
_TASK_TEXTS = {
    "language": "xnli: language of the examples; zh if not given.",
    "tfds": "Take the examples from this data set of tensorflow-datasets, in "
    "place of --data_dir; '' = the task's own.",
    "tfds_data_dir": "Where tensorflow-datasets keeps its data.",
    "kind": "tsv: what a row is: single (a text and a label), pair, "
    "regression, multilabel, choice or tagging.",
    "label_column": "tsv, conll, conllu: name or number (from 0, -1 = the "
    "last) of the column with the label.",
    "id_column": "tsv: column that names the example.",
    "label_separator": "tsv: between the labels of a multilabel cell; a comma "
    "if not given.",
    "train_file": "tsv, conll, conllu: file of the train set in --data_dir.",
    "dev_file": "tsv, conll, conllu: file of the dev set.",
    "test_file": "tsv, conll, conllu: file of the test set.",
}
_TASK_LISTS = {
    "text_columns": "tsv: columns of the text, or of both.",
    "choice_columns": "tsv: columns of the endings of a choice.",
    "labels": "tsv, conll, conllu: the labels in the order of their ids; "
    "those of the train set, sorted, if not given.",
    "metrics": "tsv: what to score, the main metric first.",
}
_QUOTED = (
    "tsv: cells may stand in double quotes; if not given, true of csv only."
)


def define_flags() -> None:
    """Flags of the original release, and new ones marked [new]."""
    finetuning_flags.define_finetuning_flags(
        max_seq_length=128,
        row="an example; longer ones are shortened, and counted",
        group_by_length=False,
    )
    flags.DEFINE_string(
        "data_dir",
        None,
        "Folder of the task's files; of several tasks, of their folders.",
    )
    flags.DEFINE_string(
        "task_name",
        None,
        f"The task: {', '.join(tasks.task_names())}; or several with commas "
        "between, or GLUE, each in OUTPUT_DIR/TASK.",
    )
    flags.DEFINE_bool("do_lower_case", True, "False for cased models.")
    flags.DEFINE_bool("do_train", False, "Whether to train.")
    flags.DEFINE_bool("do_eval", False, "Whether to score the dev sets.")
    flags.DEFINE_string(
        "eval_checkpoints",
        "last",
        "[new] Of which checkpoints: last, all, or steps with commas between; "
        "checkpoints.tsv compares them.",
    )
    flags.DEFINE_bool("do_predict", False, "Whether to answer the test sets.")
    flags.DEFINE_list(
        "class_weights", [], "[new] Weights of the labels in the loss."
    )
    flags.DEFINE_enum(
        "feature_based",
        "",
        ["", *MIXES, TABLE],
        "[new] Tagging: leave the encoder as it is and train a BiLSTM on these "
        "of its layers (the paper's section 5.3); wants --learning_rate=3e-3. "
        "table = on each in turn, in --output_dir/CHOICE.",
    )
    flags.DEFINE_enum(
        "head",
        None,
        HEADS,
        "[new] What stands on the encoder: linear, or bilstm (two layers, "
        "then linear), which --feature_based takes if this is not given.",
    )
    _define_trial_flags()
    flags.DEFINE_bool(
        "document_context",
        False,
        "[new] Tagging: fill the window with the sentences around.",
    )
    for name, meaning in _TASK_TEXTS.items():
        flags.DEFINE_string(name, None, f"[new] {meaning}")
    for name, meaning in _TASK_LISTS.items():
        flags.DEFINE_list(name, None, f"[new] {meaning}")
    flags.DEFINE_bool("quoted", None, f"[new] {_QUOTED}")
    flags.adopt_module_key_flags(finetuning_flags)  # so that --help shows them


def _define_trial_flags() -> None:
    """Flags of several trainings, of which the best is taken."""
    flags.DEFINE_integer(
        "num_trials",
        1,
        "[new] Train so often, with --seed and those after it, and take the "
        "best on the dev set.",
    )
    flags.DEFINE_list(
        "trial_learning_rates",
        [],
        "[new] Learning rates to try; the paper's: 5e-5,4e-5,3e-5,2e-5 for "
        "GLUE (section 4.1), 5e-5,3e-5,2e-5 otherwise (A.3). The setting with "
        "the best median over the seeds is taken.",
    )
    flags.DEFINE_list(
        "trial_epochs",
        [],
        "[new] Epochs to try; the paper's: 3 for GLUE, 2,3,4 otherwise.",
    )
    flags.DEFINE_list(
        "trial_batch_sizes",
        [],
        "[new] Batch sizes to try; the paper's: 32 for GLUE, 16,32 otherwise.",
    )


def main() -> None:
    """Turns the flags into options and runs them."""
    exported = _export_options() if FLAGS.do_export else None
    does_more = FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict
    if does_more or not exported:
        _options()  # wrong flags are refused before anything is waited for
    # Only now, since TensorFlow takes seconds: a wrong flag is told at once.
    from training.devices import session
    from training.export import saved_model
    from training.finetuning import classifier
    from training.many_runs import layer_table, suite
    from training.many_runs.trials import Trials

    device = training_flags.device_options()
    told = training_flags.shared_values()
    with session.joined(device, FLAGS.output_dir, told) as here:
        FLAGS.output_dir = here.output_dir
        if does_more:
            options, trials = _options()
            if FLAGS.feature_based == TABLE:
                layer_table.run(options, classifier)
            else:
                suite.run(options, Trials(trials, classifier))
        if exported and here.is_chief:
            saved_model.run(exported)


def _export_options() -> ExportOptions:
    """What to export; refuses runs of several models."""
    several = FLAGS.feature_based == TABLE
    if several or len(task_names(FLAGS.task_name)) > 1:
        raise ValueError(
            "--do_export exports one model; give it alone, with the "
            "--output_dir of one of them, when these runs are finished."
        )
    return ExportOptions(
        output_dir=FLAGS.output_dir,
        export_dir=FLAGS.export_dir,
        precision=FLAGS.export_precision,
    )


def _options() -> tuple[ClassifierOptions, TrialOptions]:
    """The flags, parsed; refuses those that do not go together."""
    trials = TrialOptions(
        num_trials=FLAGS.num_trials,
        learning_rates=_numbers("trial_learning_rates", float),
        epochs=_numbers("trial_epochs", float),
        batch_sizes=_numbers("trial_batch_sizes", int),
    )
    if FLAGS.feature_based != TABLE:
        return _classifier_options(FLAGS.feature_based), trials
    if len(task_names(FLAGS.task_name)) > 1:
        raise ValueError(
            "--feature_based=table is of one task; name one by --task_name."
        )
    if trials.are_asked_for:
        raise ValueError(
            "--feature_based=table trains once on each mix of layers; give "
            "trials of one of them, such as --feature_based=concat_last_four."
        )
    return _classifier_options(feature_based=""), trials


def _numbers(name: str, kind: type) -> tuple:
    """The numbers of a list flag."""
    try:
        return tuple(map(kind, FLAGS[name].value))
    except ValueError as error:
        raise ValueError(
            f"--{name}={','.join(FLAGS[name].value)}: {error}; give numbers "
            "with commas between."
        ) from None


def _classifier_options(feature_based: str) -> ClassifierOptions:
    """The flags of one training, parsed."""
    return ClassifierOptions(
        task_name=FLAGS.task_name,
        data_dir=FLAGS.data_dir,
        task_options={
            name: FLAGS[name].value
            for name in (*_TASK_TEXTS, *_TASK_LISTS, "quoted")
            if FLAGS[name].value is not None
        },
        vocab_file=FLAGS.vocab_file,
        do_lower_case=FLAGS.do_lower_case,
        document_context=FLAGS.document_context,
        do_train=FLAGS.do_train,
        do_eval=FLAGS.do_eval,
        eval_checkpoints=FLAGS.eval_checkpoints,
        do_predict=FLAGS.do_predict,
        class_weights=_numbers("class_weights", float),
        feature_based=feature_based,
        head=FLAGS.head or ("bilstm" if FLAGS.feature_based else "linear"),
        finetuning=finetuning_flags.finetuning_options(FLAGS.eval_batch_size),
    )


if __name__ == "__main__":
    define_flags()
    program.run(
        main,
        required=("task_name", "bert_config_file", "vocab_file", "output_dir"),
    )

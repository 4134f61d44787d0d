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

from training import program
from training.config import flags
from training.config.finetuning_options import (
    ClassifierOptions,
    TaskOptions,
    TrialOptions,
    check_strip,
    task_names,
)
from training.config.run_options import DeviceOptions, ExportOptions


def define_flags() -> None:
    """Defines the original's flags and, marked [new], our own."""
    flags.define(ClassifierOptions, head=None)
    flags.define(TrialOptions)
    flags.define(TaskOptions)
    flags.define(ExportOptions, do_export=False)


def main() -> None:
    """Trains, evaluates, predicts and exports, as the flags ask."""
    exported = _export_options() if flags.value("do_export") else None
    options = None
    works = ("do_train", "do_eval", "do_predict")
    check_strip(flags.value("strip_checkpoint"), flags.value("do_train"))
    trials = flags.read(TrialOptions)
    if any(map(flags.value, works)) or not exported:
        options = _classifier_options()
    device, output_dir = flags.read(DeviceOptions), flags.value("output_dir")
    program.load_tensorflow()
    from training.devices import session
    from training.export import saved_model
    from training.many_runs import suite
    from training.start import description

    if not options and not description.is_there(output_dir):
        options = _classifier_options()
    with session.joined(device, output_dir, flags.shared_values()) as here:
        if options:
            options = options.replace(output_dir=here.output_dir)
            suite.run(options, trials)
        if exported and here.is_chief:
            saved_model.run(exported)


def _export_options() -> ExportOptions:
    """What to export; refuses runs of several models."""
    if len(task_names(flags.value("task_name"))) > 1:
        raise ValueError(
            "--do_export exports one model; give it alone, with the "
            "--output_dir of one of them, when these runs are finished."
        )
    use = flags.value("use_calibration")
    return flags.read(ExportOptions, use_calibration=use)


def _classifier_options() -> ClassifierOptions:
    """What to do with one task."""
    head = "bilstm" if flags.value("feature_based") else "linear"
    return flags.read(
        ClassifierOptions,
        task_options=flags.read(TaskOptions).given,
        head=flags.value("head") or head,
    )


if __name__ == "__main__":
    define_flags()
    program.run(main)

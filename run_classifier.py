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

from training import program, task_program
from training.config import flags
from training.config.finetuning_options import (
    ClassifierOptions,
    TaskOptions,
    TrialOptions,
    task_names,
)
from training.config.run_options import ExportOptions


def main() -> None:
    """Trains, evaluates, predicts and exports, as the flags ask."""
    names = task_names(flags.value("task_name"))
    if flags.value("do_export") and len(names) > 1:
        raise ValueError(
            "--do_export exports one model; give it alone, with the "
            "--output_dir of one of them, when these runs are finished."
        )
    trials = flags.read(TrialOptions)
    task_program.main(
        ("do_train", "do_eval", "do_predict"),
        _classifier_options,
        lambda options: _run(options, trials),
        use_calibration=flags.value("use_calibration"),
    )


def _run(options: ClassifierOptions, trials: TrialOptions) -> None:
    from training.many_runs import suite

    suite.run(options, trials)


def _classifier_options() -> ClassifierOptions:
    """What to do with one task."""
    head = "bilstm" if flags.value("feature_based") else "linear"
    return flags.read(
        ClassifierOptions,
        task_options=flags.read(TaskOptions).changed(),
        head=flags.value("head") or head,
    )


if __name__ == "__main__":
    flags.define(ClassifierOptions, head=None)
    flags.define(TrialOptions)
    flags.define(TaskOptions)
    flags.define(ExportOptions)
    program.run(main)

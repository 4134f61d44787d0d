r"""Fine-tunes BERT to answer questions by a part of a text: SQuAD 1.1 and 2.0.

  python run_squad.py --do_train --train_file=train-v1.1.json \
    --do_predict --predict_file=dev-v1.1.json --vocab_file=$BERT/vocab.txt \
    --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/tmp/squad \
    --learning_rate=3e-5 --num_train_epochs=2

  python run_squad.py --do_predict --predict_file=dev-v2.0.json \
    --version_2_with_negative --find_null_threshold --write_html \
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \
    --output_dir=/tmp/squad2

Training writes checkpoints (model.ckpt-N), prediction predictions.json,
nbest_predictions.json, with --version_2_with_negative null_odds.json, and
metrics.json if the questions have answers. The same command again resumes a run
that was stopped.
"""

from training import program, task_program
from training.config import flags
from training.config.run_options import ExportOptions
from training.config.squad_options import SquadOptions


def main() -> None:
    """Trains, answers and exports, as the flags ask."""
    task_program.main(("do_train", "do_predict"), _squad_options, _run)


def _run(options: SquadOptions) -> None:
    from training.runs import questions

    questions.run(options)


def _squad_options() -> SquadOptions:
    """What to do; a threshold that is not given may have been found before."""
    threshold = flags.given("null_score_diff_threshold")
    return flags.read(SquadOptions, null_score_diff_threshold=threshold)


if __name__ == "__main__":
    flags.define(
        SquadOptions,
        max_seq_length=384,
        # Differs from the original: windows of similar length are trained
        # together, because batches are then cut to fewer wordpieces.
        group_by_length=True,
        null_score_diff_threshold=0.0,
    )
    flags.define(ExportOptions)
    program.run(main)

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

from training import program
from training.config import flags
from training.config.finetuning_options import check_strip
from training.config.run_options import DeviceOptions, ExportOptions
from training.config.squad_options import SquadOptions


def define_flags() -> None:
    """Defines the original's flags and, marked [new], our own."""
    flags.define(
        SquadOptions,
        max_seq_length=384,
        group_by_length=True,
        null_score_diff_threshold=0.0,
    )
    flags.define(ExportOptions, do_export=False)


def main() -> None:
    """Trains, answers and exports, as the flags ask."""
    exported = flags.read(ExportOptions) if flags.value("do_export") else None
    options = None
    check_strip(flags.value("strip_checkpoint"), flags.value("do_train"))
    if flags.value("do_train") or flags.value("do_predict") or not exported:
        options = _squad_options()
    device, output_dir = flags.read(DeviceOptions), flags.value("output_dir")
    program.load_tensorflow()
    from training.devices import session
    from training.export import saved_model
    from training.runs import questions
    from training.start import description

    if not options and not description.is_there(output_dir):
        options = _squad_options()
    with session.joined(device, output_dir, flags.shared_values()) as here:
        if options:
            questions.run(options.replace(output_dir=here.output_dir))
        if exported and here.is_chief:
            saved_model.run(exported)


def _squad_options() -> SquadOptions:
    """What to do; a threshold that is not given may have been found before."""
    return flags.read(
        SquadOptions,
        null_score_diff_threshold=flags.given("null_score_diff_threshold"),
        eval_batch_size=flags.value("predict_batch_size"),
    )


if __name__ == "__main__":
    define_flags()
    program.run(main)

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

from absl import flags

from training import program
from training.config import finetuning_flags
from training.config import flags as training_flags
from training.config.finetuning_options import SquadOptions
from training.config.options import ExportOptions

FLAGS = flags.FLAGS

# Of `SquadOptions`, each a flag of its name and default.
_FIELDS = {
    "do_train": "Whether to train.",
    "do_predict": "Whether to answer --predict_file, and to score the answers "
    "if the file has its own.",
    "do_lower_case": "False for cased models.",
    "doc_stride": "Wordpieces from the begin of a window to that of the next.",
    "max_query_length": "Wordpieces of a question; longer ones are cut, and "
    "counted.",
    "n_best_size": "Answers kept in nbest_predictions.json, and best starts "
    "and ends that they are made of.",
    "max_answer_length": "Most wordpieces of an answer.",
    "version_2_with_negative": "Whether questions may have no answer, as in "
    "SQuAD 2.0.",
    "find_null_threshold": "[new] Find the null_score_diff_threshold that is "
    "best for F1 on --predict_file; it is kept in output_dir, and used when "
    "none is given.",
    "count_windows": "[new] Count epochs by windows; by questions if not, as "
    "the original.",
    "score_padding": "[new] Let padding take part in the loss and among the "
    "best starts and ends, as the original. No batch is trimmed then.",
    "write_html": "[new] Write predictions.html: every question, its answer "
    "marked in the text, to be read in a browser.",
    "num_processes": "[new] Processes that make records of a large file.",
}


def define_flags() -> None:
    """Flags of the original release, and new ones marked [new]."""
    finetuning_flags.define_finetuning_flags(
        max_seq_length=384,
        row="a window: question and as much of the text as it holds",
        group_by_length=True,
        has_eval_batch_size=False,
    )
    for name, meaning in _FIELDS.items():
        training_flags.define_field(SquadOptions, name, meaning)
    flags.DEFINE_string("train_file", None, "SQuAD's JSON to train on.")
    flags.DEFINE_string("predict_file", None, "SQuAD's JSON to answer.")
    flags.DEFINE_float(
        "null_score_diff_threshold",
        0.0,
        "Answer nothing if the score of no answer, less that of the best, is "
        "above this. If not given, what --find_null_threshold left in "
        "output_dir goes before.",
    )
    flags.DEFINE_bool(
        "verbose_logging",
        False,
        "Without effect: what is odd in the data is counted, and logged.",
    )
    flags.DEFINE_string(
        "tfds",
        None,
        "[new] Take questions from this data set of tensorflow-datasets, such "
        "as squad or squad/v2.0, in place of both files.",
    )
    flags.DEFINE_string(
        "tfds_data_dir", None, "[new] Where tensorflow-datasets keeps its data."
    )
    flags.adopt_module_key_flags(finetuning_flags)  # so that --help shows them


def main() -> None:
    """Turns the flags into options and runs them."""
    exported = None
    if FLAGS.do_export:
        exported = ExportOptions(
            output_dir=FLAGS.output_dir,
            export_dir=FLAGS.export_dir,
            precision=FLAGS.export_precision,
        )
    does_more = FLAGS.do_train or FLAGS.do_predict or not exported
    # Wrong flags are refused before anything is waited for.
    options = _options() if does_more else None
    # Only now, since TensorFlow takes seconds: a wrong flag is told at once.
    from training.devices import session
    from training.export import saved_model
    from training.finetuning import questions

    device = training_flags.device_options()
    told = training_flags.shared_values()
    with session.joined(device, FLAGS.output_dir, told) as here:
        FLAGS.output_dir = here.output_dir
        if options:
            questions.run(_options())
        if exported and here.is_chief:
            saved_model.run(exported)


def _options() -> SquadOptions:
    """The flags, parsed."""
    threshold = FLAGS["null_score_diff_threshold"]
    return SquadOptions(
        train_file=FLAGS.train_file,
        predict_file=FLAGS.predict_file,
        tfds=FLAGS.tfds,
        tfds_data_dir=FLAGS.tfds_data_dir,
        vocab_file=FLAGS.vocab_file,
        null_score_diff_threshold=threshold.value
        if threshold.present
        else None,
        **{name: FLAGS[name].value for name in _FIELDS},
        # Evaluation is prediction.
        finetuning=finetuning_flags.finetuning_options(
            eval_batch_size=FLAGS.predict_batch_size
        ),
    )


if __name__ == "__main__":
    define_flags()
    program.run(main, required=("bert_config_file", "vocab_file", "output_dir"))

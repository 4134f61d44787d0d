r"""Pretrains BERT: masked LM and next sentence, from records to a checkpoint.

  python run_pretraining.py --do_train --do_eval \
    --input_file=/tmp/records/train.tf_record \
    --bert_config_file=configs/uncased_L-4_H-256_A-4.json \
    --output_dir=/tmp/pretrained --num_train_steps=3000 \
    --num_warmup_steps=300 --learning_rate=5e-4

  python run_pretraining.py --do_predict --predict_file=questions.txt \
    --vocab_file=vocab.txt --output_dir=/tmp/pretrained \
    --bert_config_file=configs/uncased_L-4_H-256_A-4.json

The records come from create_pretraining_data.py; give the same
--max_seq_length and --max_predictions_per_seq. --output_dir holds checkpoints
(model.ckpt-N, by the original's variable names), TensorBoard events and
eval_results.txt; the same command again resumes a run that was stopped.
"""

import dataclasses

from absl import flags

from data.pretraining.options import MASKINGS, PretrainingDataOptions
from training import program
from training.config import flags as training_flags
from training.config.options import ExportOptions
from training.config.pretraining_options import PretrainingOptions

FLAGS = flags.FLAGS

# As in create_pretraining_data.py.
_MASKING_FLAGS = {
    "masked_lm_prob": "Share of an example's wordpieces to mask.",
    "do_whole_word_mask": "Mask all pieces of a word, or none.",
    "max_ngram_size": "Mask spans of up to so many consecutive words.",
    "mask_token_prob": "Share of the masked that become [MASK].",
    "random_token_prob": "Share that becomes a random wordpiece.",
}


def define_flags() -> None:
    """Flags of the original release, and new ones marked [new]."""
    training_flags.define_model_flags()
    training_flags.define_training_flags()
    training_flags.define_device_flags()
    training_flags.define_export_flags()
    flags.DEFINE_string(
        "input_file", None, "Record files: comma-separated paths or globs."
    )
    flags.DEFINE_string(
        "output_dir", None, "Folder of checkpoints, events and results."
    )
    flags.DEFINE_integer(
        "max_seq_length", 128, "Wordpieces of an example, as in the records."
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        20,
        "Masked wordpieces of an example, as in the records.",
    )
    flags.DEFINE_enum(
        "masking",
        "static",
        MASKINGS,
        "[new] dynamic = mask the examples while reading them, anew in every "
        "epoch; the records come from create_pretraining_data.py "
        "--masking=dynamic. The next flags are for this.",
    )
    for name, meaning in _MASKING_FLAGS.items():
        training_flags.define_field(
            PretrainingDataOptions, name, f"[new] {meaning}"
        )
    flags.DEFINE_bool("do_train", False, "Whether to train.")
    flags.DEFINE_bool("do_eval", False, "Whether to evaluate.")
    flags.DEFINE_integer("num_train_steps", 100000, "Updates in all.")
    flags.DEFINE_integer("num_warmup_steps", 10000, "Updates of warm-up.")
    flags.DEFINE_integer(
        "stop_at_step",
        0,
        "[new] End this run at a step before --num_train_steps, such as the "
        "end of the first of two phases; 0 = go to the end.",
    )
    flags.DEFINE_string(
        "continue_from",
        "",
        "[new] Folder of a run that ended before --num_train_steps. This one "
        "goes on with its weights, optimizer slots and step, in another "
        "--output_dir, and reads its --input_file from the beginning.",
    )
    flags.DEFINE_integer("max_eval_steps", 100, "Evaluation batches.")
    flags.DEFINE_string(
        "eval_file",
        None,
        "[new] Records to evaluate on; --input_file if not given.",
    )
    flags.DEFINE_bool(
        "skip_bad_records",
        False,
        "[new] Leave out records that are damaged or cut off, and report how "
        "many; without it they are an error.",
    )
    flags.DEFINE_bool(
        "do_predict", False, "[new] Whether to answer --predict_file."
    )
    flags.DEFINE_string(
        "predict_file",
        None,
        "[new] One query a line: a sentence with [MASK], or `A ||| B` to ask "
        "whether B follows A. Answers go to predict_results.jsonl.",
    )
    flags.DEFINE_string(
        "vocab_file",
        None,
        "[new] Vocabulary, for --do_predict and --masking=dynamic.",
    )
    flags.DEFINE_bool(
        "do_lower_case", True, "[new] False for cased models (--do_predict)."
    )
    flags.DEFINE_integer("predict_top_k", 5, "[new] Words for each [MASK].")
    flags.DEFINE_bool(
        "strip_checkpoint",
        False,
        "[new] Also write bert_model.ckpt: the last checkpoint without "
        "optimizer slots, a third of the size.",
    )
    flags.DEFINE_bool(
        "use_one_hot_embeddings",
        False,
        "[new] Look words up by matrix product; always so on a TPU.",
    )
    flags.adopt_module_key_flags(training_flags)  # so that --help shows them


def main() -> None:
    """Turns the flags into options and runs them."""
    exported = None
    if FLAGS.do_export:
        exported = ExportOptions(
            output_dir=FLAGS.output_dir,
            export_dir=FLAGS.export_dir,
            precision=FLAGS.export_precision,
        )
        if not FLAGS.vocab_file:
            raise ValueError("--do_export: give --vocab_file.")
    does_more = (
        FLAGS.do_train
        or FLAGS.do_eval
        or FLAGS.do_predict
        or FLAGS.strip_checkpoint
    )
    # Wrong flags are refused before anything is waited for.
    options = _options() if does_more or not exported else None
    # Only now, since TensorFlow takes seconds: a wrong flag is told at once.
    from training import pretraining
    from training.devices import session
    from training.export import saved_model

    device = training_flags.device_options()
    told = training_flags.shared_values()
    with session.joined(device, FLAGS.output_dir, told) as here:
        FLAGS.output_dir = here.output_dir
        if options:
            pretraining.run(_options())
        if exported and here.is_chief:
            _describe()
            saved_model.run(exported)


def _describe() -> None:
    """Leaves in output_dir what an export must know of the flags."""
    from training.export import pretraining_signatures  # as in `main`

    pretraining_signatures.describe(
        FLAGS.output_dir,
        bert_config_file=FLAGS.bert_config_file,
        vocab_file=FLAGS.vocab_file,
        do_lower_case=FLAGS.do_lower_case,
        max_seq_length=FLAGS.max_seq_length,
        top_k=FLAGS.predict_top_k,
        init_checkpoint=FLAGS.init_checkpoint,
    )


def _options() -> PretrainingOptions:
    """The flags, parsed."""
    return PretrainingOptions(
        bert_config_file=FLAGS.bert_config_file,
        input_file=FLAGS.input_file,
        eval_file=FLAGS.eval_file,
        skip_bad_records=FLAGS.skip_bad_records,
        init_checkpoint=FLAGS.init_checkpoint,
        max_seq_length=FLAGS.max_seq_length,
        max_predictions_per_seq=FLAGS.max_predictions_per_seq,
        masking=_masking(),
        do_train=FLAGS.do_train,
        do_eval=FLAGS.do_eval,
        eval_batch_size=FLAGS.eval_batch_size,
        max_eval_steps=FLAGS.max_eval_steps,
        do_predict=FLAGS.do_predict,
        predict_file=FLAGS.predict_file,
        vocab_file=FLAGS.vocab_file,
        do_lower_case=FLAGS.do_lower_case,
        predict_top_k=FLAGS.predict_top_k,
        strip_checkpoint=FLAGS.strip_checkpoint,
        use_one_hot_embeddings=FLAGS.use_one_hot_embeddings,
        train=dataclasses.replace(
            training_flags.train_options(
                num_train_steps=FLAGS.num_train_steps,
                num_warmup_steps=FLAGS.num_warmup_steps,
            ),
            stop_at_step=FLAGS.stop_at_step,
            continue_from=FLAGS.continue_from,
        ),
        device=training_flags.device_options(),
    )


def _masking() -> PretrainingDataOptions | None:
    """How to mask while reading; None = the records have masks."""
    if FLAGS.masking == "static":
        return None
    return PretrainingDataOptions(
        **{name: FLAGS[name].value for name in _MASKING_FLAGS},
        max_seq_length=FLAGS.max_seq_length,
        max_predictions_per_seq=FLAGS.max_predictions_per_seq,
    )


if __name__ == "__main__":
    define_flags()
    program.run(main, required=("bert_config_file", "output_dir"))

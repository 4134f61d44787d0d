r"""Converts a model between the original's files and Hugging Face's.

  python convert_checkpoint.py --model=all-MiniLM-L6-v2 --output_dir=minilm

  python convert_checkpoint.py --model=/tmp/mrpc_output \
    --vocab_file=$BERT_BASE_DIR/vocab.txt --output_dir=mrpc_for_transformers

A folder with config.json and model.safetensors becomes bert_model.ckpt,
bert_config.json, vocab.txt and, if it has labels, labels.txt. A checkpoint, or
the output_dir of run_pretraining.py, run_classifier.py or run_squad.py, becomes
config.json, model.safetensors, vocab.txt, tokenizer_config.json and
special_tokens_map.json, which AutoModelFor... and AutoTokenizer load. Of trials
it is the chosen one, of --save_best the best weights, else the last.

The programs need no conversion to begin with a model of Hugging Face: they take
its folder as --init_checkpoint, its config.json as --bert_config_file and its
vocab.txt; where there is none, but a tokenizer.json, the conversion writes it.
transformers says of a converted model for questions or words that the pooler's
weights are not used: such a model has none there.
"""

from absl import flags

from data import tasks
from training import program

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines this program's flags."""
    flags.DEFINE_string(
        "model",
        None,
        "A folder of Hugging Face, a checkpoint (DIR/bert_model.ckpt), or the "
        "output_dir of a run.",
    )
    flags.DEFINE_string("output_dir", None, "A new folder.")
    flags.DEFINE_string(
        "bert_config_file",
        None,
        "Of a checkpoint; bert_config.json beside it if not given.",
    )
    flags.DEFINE_string(
        "vocab_file",
        None,
        "The model's vocabulary; the one beside its weights if not given.",
    )
    flags.DEFINE_enum(
        "kind",
        None,
        tasks.KINDS,
        "What a fine-tuned checkpoint answers; as its run says if not given.",
    )
    flags.DEFINE_string(
        "labels_file",
        None,
        "The names of the labels, one a line; labels.txt beside the checkpoint "
        "if not given.",
    )
    flags.DEFINE_bool(
        "do_lower_case",
        None,
        "Of a checkpoint; as its run says if not given, else "
        "true. False for cased models.",
    )


def main() -> None:
    """Turns the flags into options and converts."""
    # Only now, since TensorFlow takes seconds: --help does without it.
    from training.model_files import conversion

    conversion.run(
        conversion.ConversionOptions(
            model=FLAGS.model,
            output_dir=FLAGS.output_dir,
            bert_config_file=FLAGS.bert_config_file,
            vocab_file=FLAGS.vocab_file,
            kind=FLAGS.kind,
            labels_file=FLAGS.labels_file,
            do_lower_case=FLAGS.do_lower_case,
        )
    )


if __name__ == "__main__":
    define_flags()
    program.run(main, required=("model", "output_dir"))

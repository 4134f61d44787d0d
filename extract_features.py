r"""Writes the vectors that a model makes of text.

  python extract_features.py --input_file=sentences.txt \
    --output_file=vectors.jsonl --vocab_file=$BERT/vocab.txt \
    --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt --layers=-1,-2,-3,-4

  python extract_features.py --input_file=sentences.txt \
    --output_file=vectors.npz --format=npz --layers=-1 --pooling=mean \
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt

Each line of the input is a text, or a pair of texts as `first ||| second`. The
first command writes the original's JSON lines: a vector for each wordpiece and
layer. The second writes one for each line: numpy.load(FILE)["vectors"] is
[lines, layers, hidden size]. Without --pooling it holds vectors_0 [wordpieces,
layers, hidden size] and tokens_0 for the first line, and so on. In TFRecords
reshape `values` to `shape`. Any size of text streams through.
"""

from absl import flags

from data.vectors import vector_files
from modeling.choices import LAYER_MIXES, POOLINGS
from training import program
from training.config import flags as training_flags
from training.config.extraction_options import (
    ExtractionOptions,
    VectorOptions,
    parse_layers,
)

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Flags of the original release, and new ones marked [new]."""
    training_flags.define_model_flags()
    training_flags.define_device_flags()
    flags.DEFINE_string("input_file", None, "Text, one a line, or A ||| B.")
    flags.DEFINE_string("output_file", None, "File of the vectors.")
    flags.DEFINE_string("vocab_file", None, "The model's vocabulary.")
    flags.DEFINE_string(
        "layers",
        "-1,-2,-3,-4",
        "Blocks whose outputs are written: 0 = the first, -1 = the last; [new] "
        "`embeddings` = what enters the first.",
    )
    flags.DEFINE_integer(
        "max_seq_length",
        128,
        "Wordpieces of a line; longer ones are cut, and counted.",
    )
    flags.DEFINE_bool("do_lower_case", True, "False for cased models.")
    flags.DEFINE_integer("batch_size", 32, "Lines computed at once.")
    flags.DEFINE_bool(
        "use_one_hot_embeddings",
        False,
        "Look words up by matrix product; always so on a TPU.",
    )
    flags.DEFINE_enum(
        "format", "jsonl", vector_files.FORMATS, "[new] Of the output."
    )
    flags.DEFINE_enum(
        "pooling",
        "none",
        POOLINGS,
        "[new] One vector a line: that of [CLS], or the mean or the largest "
        "of all wordpieces, [CLS] and [SEP] included.",
    )
    flags.DEFINE_enum(
        "layer_mix",
        "separate",
        LAYER_MIXES,
        "[new] Make one vector of those of the layers.",
    )
    flags.DEFINE_bool(
        "whole_words",
        False,
        "[new] One vector a word or punctuation mark: the mean of its "
        "wordpieces.",
    )
    flags.DEFINE_bool(
        "attention",
        False,
        "[new] With --format=npz: write the attention maps of the layers, "
        "[layers, heads, wordpieces, wordpieces] for each line.",
    )
    flags.DEFINE_string(
        "attention_png", None, "[new] Draw the attention within one line."
    )
    flags.DEFINE_integer("attention_line", 0, "[new] Which line; 0 = first.")
    flags.DEFINE_integer(
        "attention_layer", -1, "[new] Which block; -1 = the last."
    )
    flags.DEFINE_integer(
        "attention_head", None, "[new] Which head; all on a page if not given."
    )
    flags.adopt_module_key_flags(training_flags)  # so that --help shows them


def main() -> None:
    """Turns the flags into options and runs them."""
    options = ExtractionOptions(
        vectors=VectorOptions(
            layers=parse_layers(FLAGS.layers),
            pooling=FLAGS.pooling,
            layer_mix=FLAGS.layer_mix,
            whole_words=FLAGS.whole_words,
            attention=FLAGS.attention,
        ),
        device=training_flags.device_options(),
        **{
            name: FLAGS[name].value
            for name in (
                "input_file",
                "output_file",
                "bert_config_file",
                "init_checkpoint",
                "vocab_file",
                "do_lower_case",
                "max_seq_length",
                "batch_size",
                "use_one_hot_embeddings",
                "format",
                "attention_png",
                "attention_line",
                "attention_layer",
                "attention_head",
            )
        },
    )
    # Only now, since TensorFlow takes seconds: a wrong flag is told at once.
    from training.vectors import extraction

    extraction.run(options)


if __name__ == "__main__":
    define_flags()
    program.run(
        main,
        required=(
            "input_file",
            "output_file",
            "bert_config_file",
            "init_checkpoint",
            "vocab_file",
        ),
    )

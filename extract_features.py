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

from training import program
from training.config import flags
from training.config.extraction_options import ExtractionOptions


def main() -> None:
    """Writes the vectors that the flags ask for."""
    options = flags.read(ExtractionOptions)
    program.load_tensorflow(infers_in=options.device.precision)
    from training.runs import vectors

    vectors.run(options)


if __name__ == "__main__":
    flags.define(ExtractionOptions)
    program.run(main)

r"""Converts a model between the original's files and Hugging Face's.

  python convert_checkpoint.py --model=all-MiniLM-L6-v2 --output_dir=minilm

  python convert_checkpoint.py --model=/tmp/mrpc_output \
    --vocab_file=$BERT_BASE_DIR/vocab.txt --output_dir=mrpc_for_transformers

  python convert_checkpoint.py --model=$BERT_BASE_DIR --output_dir=medical \
    --output_format=original --extra_words=words.txt

  python convert_checkpoint.py --model=$BERT_BASE_DIR --output_dir=small \
    --output_format=original --keep_layers=6 --keep_words=8000 \
    --input_file='corpus/*.txt'

A folder with config.json and model.safetensors becomes bert_model.ckpt,
bert_config.json, vocab.txt, tokenizer_config.json and, where it says them,
labels.txt and task.json. A checkpoint, or the output_dir of run_pretraining.py,
run_classifier.py or run_squad.py, becomes config.json, model.safetensors,
vocab.txt, tokenizer_config.json and special_tokens_map.json, which
AutoModelFor... and AutoTokenizer load. For a run with --save_best these are the
best weights, otherwise the last; for trials, those of the chosen one. A model
of sentence vectors becomes a folder of sentence-transformers. --output_format
chooses the format of the result.

--extra_words adds words and --max_position_embeddings adds positions. Both need
training afterwards. --keep_layers and --keep_words take layers and words away.

The programs need no conversion to start from a Hugging Face model: pass its
folder as --init_checkpoint. They read vocab.txt or tokenizer.json; a conversion
writes vocab.txt. When transformers loads a converted model for questions or
words, it warns of unused pooler weights, because its classes for these tasks
have no pooler.
"""

from training import program
from training.config import flags
from training.config.conversion_options import ConversionOptions


def main() -> None:
    """Converts as the flags say."""
    options = flags.read(ConversionOptions)
    program.load_tensorflow()
    from training.convert import conversion

    conversion.run(options)


if __name__ == "__main__":
    flags.define(ConversionOptions)
    program.run(main)

"""Text to wordpieces and input rows.

vocabulary           vocabulary files
tokenizer_files      Hugging Face's settings of a tokenizer
tokenization         the original's tokenizer
vocabulary_building  text to a new vocabulary
packing              [CLS] a [SEP] b [SEP], then padding
spans                overlapping parts of a long text
in_graph/            tokenizer and rows as TensorFlow operations
"""

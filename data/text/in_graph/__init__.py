"""Functions of `text` as TensorFlow operations, for Keras and SavedModels.

Tests hold tokenization and packing equal to their siblings in `text`.

characters    what the tokenizer does with every character, as a table
tokenization  strings to wordpiece ids
packing       ids to rows, masks and segments
"""

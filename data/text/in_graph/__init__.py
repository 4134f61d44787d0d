"""Functions of `text` as TensorFlow operations, for Keras and SavedModels.

Each file has a sibling of its name in `text`; tests hold the two equal.

characters    what the tokenizer does with every character, as a table
tokenization  strings to wordpiece ids
packing       ids to rows, masks and segments
"""

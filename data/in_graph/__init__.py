"""Functions of `data` as TensorFlow operations, for tf.data and SavedModels.

Each file has a sibling in Python; tests hold the two equal.

characters    what the tokenizer does with every character, as a table
tokenization  text/tokenization
packing       text/packing
tagging       finetuning/tagging
windows       squad/windows
answers       squad/answers
"""

"""Functions of `data` as TensorFlow operations, for tf.data and SavedModels.

Each file has a sibling in Python; tests hold the two equal. The tokenizer and
rows of texts are in `text/in_graph`.

tagging       finetuning/tagging
windows       squad/windows
answers       squad/answers
"""

"""What lies in a model's folder.

head_labels    the labels of a checkpoint's output layer, in the task's order
first_weights  the weights of --init_checkpoint, checked and loaded
setup          a model's configuration and vocabulary, checked against the flags
description    task.json: what later programs need to know of a model
conversion     the original's files to Hugging Face's, and back
"""

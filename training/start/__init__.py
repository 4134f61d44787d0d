"""The start of a run: all that it begins with, read and checked once.

setup          the configuration in a run's folder, kept and compared
description    task.json: what a folder's model was made with
source         the model of --init_checkpoint: its files and what they say
first_weights  the weights of --init_checkpoint, checked and loaded
remembered     the flags that a model was made with, where no flag gives them
found_files    vocabulary and configuration, where no flag gives them
start          folder and first weights of a run
"""

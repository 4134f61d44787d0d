"""A fine-tuning run.

predictions       a model's outputs for every example, in file order
finetuner         model, training loop and predictions of one run
metric_values     names of metrics, and which value is better
best_checkpoint   the last weights, or the best on the dev set
tables            tables in the log and in files
task_run          what a run of one task takes, returns and depends on
checkpoint_table  several checkpoints of a run compared
results           predictions and scores of a task as files
frozen_encoder    training on a frozen encoder
classifier        a run of run_classifier.py
answers           scores to answers, their files and their scores
questions         a run of run_squad.py
"""

"""A pretraining run.

run_inputs    its records, vocabulary and queries, checked
first_values  first weights that know frequencies and see neighbors
answers       what a pretrained model answers to queries
pretrainer    the run: training, evaluation, predictions
"""

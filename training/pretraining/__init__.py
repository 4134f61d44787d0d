"""What a pretraining run is made of.

text_size     size of the text, and of the vocabulary in a new model
run_records   its records, checked
batches       its records as batches, masked if the files are not
first_values  first weights that know frequencies and see neighbors
answers       what a pretrained model answers to queries
"""

"""What a pretraining run is made of.

run_records   its records, checked
batches       its records as batches, masked if the files are not
first_values  first weights that know frequencies and see neighbors
answers       what a pretrained model answers to queries
"""

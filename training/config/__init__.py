"""Options of the programs, and the flags made of them. No TensorFlow.

options              of devices, training and export
finetuning_options   of run_classifier.py and run_squad.py
pretraining_options  of run_pretraining.py
extraction_options   of extract_features.py
flags                flags that several programs share
finetuning_flags     flags of both fine-tuning programs
"""

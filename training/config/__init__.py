"""Options of the programs, and the flags made of them. No TensorFlow.

options              of devices, training and export
finetuning_options   of fine-tuning, and of run_classifier.py
squad_options        of run_squad.py
pretraining_options  of run_pretraining.py
extraction_options   of extract_features.py
conversion_options   of convert_checkpoint.py
asking_options       of ask.py
recipes              values for flags that a command leaves out
flags                flags made of options, options made of flags
"""

"""Options of the programs, and the flags made of them. No TensorFlow.

shared               their base class, and help that several have
run_options          for devices, training and export
distill_options      for learning from a larger model
finetuning_options   for fine-tuning, and for run_classifier.py
squad_options        for run_squad.py
vector_options       for run_sentence_vectors.py
objective_options    for single pretraining objectives
pretraining_options  for run_pretraining.py
extraction_options   for extract_features.py
conversion_options   for convert_checkpoint.py
recipes              values for flags that a command leaves out
flags                flags made of options, options made of flags
"""

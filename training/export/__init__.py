"""Trained models as SavedModels, and their clients.

signature_rows          inputs of all exported models
task_signatures         signatures of a classifier or tagger
span_signatures         signatures of a model that answers questions
pretraining_signatures  signatures of a pretrained model
requests                requests to TF Serving
model_card              README.md of an export
saved_model             writes the SavedModel
predictor               loads an export in Python
"""

"""Trained models as SavedModels, and their clients.

requests                requests to TF Serving
functions               functions of tensors
serving                 base class of the next four: weights, rows, samples
task_signatures         signatures of a classifier or tagger
span_signatures         signatures of a model that answers questions
pretraining_signatures  signatures of a pretrained model
vector_signatures       signatures of a model of sentence vectors
loaded_model            signatures of a model of any folder
interface               which signatures an export has
model_card              README.md of an export
saved_model             writes the SavedModel
asking                  what a model is asked, and its answers as lines
vector_methods          vectors and search of bert.Model
predictor               loads an export in Python
"""

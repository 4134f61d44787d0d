"""Trained models as SavedModels and LiteRT files, and their clients.

requests                requests to TF Serving
litert_model            a file of LiteRT in Python
functions               functions of tensors
serving                 base class of the next four; which signatures are chosen
task_signatures         signatures of a classifier or tagger
span_signatures         signatures of a model that answers questions
pretraining_signatures  signatures of a pretrained model
vector_signatures       signatures of a model of sentence vectors
loaded_model            signatures of a model of any folder
asking                  what a model is asked, and its answers as lines
litert_answers          answers of a LiteRT file, without TensorFlow
litert                  writes files of LiteRT
model_card              README.md of an export
saved_model             writes the SavedModel, or files of LiteRT
vector_methods          vectors and search of bert.Model
predictor               loads an export in Python
"""

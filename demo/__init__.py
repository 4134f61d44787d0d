"""Pretraining, end to end, on text that comes with Python.

corpus    text in two parts: to train on and to evaluate on
sizes     case, vocabulary, model and updates that fit a text
page      what the model has learned, as a page
run_demo  all steps
"""

"""What a BERT is trained for: an encoder, its heads, the loss.

A training loop needs `layers`, `loss_weights` and `losses` of each.

pretraining  masked LM and next sentence
tasks        classification, regression, multilabel, choice, tagging
spans        the start and the end of an answer
"""

"""Vectors of texts.

extractor  runs the encoder over rows
texts      vectors of texts that are given in Python
sentence_vectors  sentence vectors of texts, and search among them
"""

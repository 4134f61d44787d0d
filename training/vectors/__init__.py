"""Vectors of texts.

extractor  runs the encoder over rows
texts      vectors of texts that are given in Python
"""

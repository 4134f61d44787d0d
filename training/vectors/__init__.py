"""Vectors of texts, as extract_features.py writes them.

extractor  runs the encoder over rows
texts      vectors of texts that are given in Python
"""

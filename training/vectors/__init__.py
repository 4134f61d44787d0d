"""Vectors of texts, as extract_features.py writes them.

extractor   runs the encoder over rows
extraction  a run of extract_features.py
"""

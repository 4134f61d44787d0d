"""Vectors of texts.

extractor  runs the encoder over rows
texts      vectors of texts that are given in Python
vector_training  a model of sentence vectors in its output_dir
sentence_encoding  sentence vectors of texts and of files
sentence_texts     the same for texts in Python, and search among them
"""

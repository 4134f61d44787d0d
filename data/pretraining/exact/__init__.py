"""Pretraining records equal to the original's, made in memory.

instances  documents and training instances in flat arrays
examples   documents to masked sentence pairs, with the original's decisions
in_memory  text files to record files
"""

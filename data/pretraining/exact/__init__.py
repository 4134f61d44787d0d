"""Pretraining records equal to the original's, made in memory.

instances  documents and training instances in flat arrays
examples   documents to masked sentence pairs, in the original's draws
in_memory  text files to record files
"""

"""Pretraining records equal to the original's, made in memory.

examples   documents to masked sentence pairs, with the original's decisions
in_memory  text files to record files
"""

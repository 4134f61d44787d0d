"""Pretraining records from text of any size.

corpus        text files cut into blocks of whole documents
pairs         rows of sentence pairs from a group of documents
disk_shuffle  shuffles more records than fit into memory
shards        one shard: a function of its task alone
plan          which blocks go into which shard
publishing    finished shards to a data set with a manifest
all_shards    writes all shards, on many processes
beam_runner   all shards, on Apache Beam
"""

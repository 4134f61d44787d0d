"""Pretraining records from text of any size.

corpus        divides text files into blocks of whole documents
pairs         rows of pairs or of runs of sentences from a group of documents
disk_shuffle  shuffles more records than fit in memory
shards        writes one shard; its content depends only on its task
plan          assigns blocks to shards
all_shards    writes all shards on several processes, as one data set
beam_runner   writes all shards on Apache Beam
"""

"""Text to pretraining records, read in this order.

options                  what to make
instances, examples, in_memory_writer
                         the original's way, decision for decision
corpus, sentences, tfds_text
                         text of any size, in blocks of whole documents
pairs, masking           thousands of rows at a time
disk_shuffle, shards     one shard, a function of its task alone
streaming                all shards, on many processes; the manifest
beam_runner              the same shards, on Apache Beam
queries                  questions to a pretrained model
"""

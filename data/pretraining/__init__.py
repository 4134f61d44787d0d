"""Text to pretraining records.

options          what to make of a text
sentences        paragraphs to sentences
tfds_text        the text of a tensorflow-datasets data set, as files
masking          masks for many rows at once
report           counts and warnings, for the log
exact/           the original's records, decision by decision, in memory
streaming/       text of any size, on many processes
dynamic_masking  new masks in every epoch, while training reads
queries          questions to a pretrained model
"""

"""Text to pretraining records.

data_options     options of the examples
sentences        divides paragraphs into sentences
corpus           a small corpus in two parts, that of the demo and the studies
tfds_text        the text of a tensorflow-datasets data set, as files
words            which tokens are one word, in text without spaces
recipe           vocabulary and options of records, for both writers
groups           documents in flat arrays, for both writers
masking          masks many rows at once
report           counts and warnings, for the log
text_facts       what manifests say about the text of records
exact/           the original's records, decision by decision, in memory
streaming/       text of any size, on many processes
dynamic_masking  new masks in every epoch, while training reads
short_rows       cuts rows to half their length, while training reads
documents        which wordpieces of a row are one document, while it reads
queries          sentences with [MASK] for a pretrained model
"""

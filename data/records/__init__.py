"""Examples on disk, and the batches made of them.

feature_spec    one specification both writes and parses a feature
tfrecord        TFRecord files without TensorFlow
reading         record files checked, counted and parsed
shard           the part of a batch that one worker reads
damage          record files that are cut short or corrupt
input_pipeline  record files to batches, resumable at any example
length_batches  batches trimmed to their longest example, grouped by length
distinct_batches  batches in which no text occurs twice
reuse           records that are made once for the same input
teacher_scores  records with another model's scores of their examples
"""

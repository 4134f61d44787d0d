"""Examples of a task to rows and record files.

tagging   words with labels to wordpieces, and back
report    counts of truncated and unusual examples, for the log
features  examples to rows of fixed length
records   rows to record files, made once
"""

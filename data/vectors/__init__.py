"""Texts for vectors, and vectors as files.

text_rows          texts of a file, to rows and batches
vector_files       vectors as JSON lines, npz or TFRecord files
attention_picture  attention of one text as a picture
text_sets          train and dev sets of texts and pairs
teacher_vectors    another model's vectors, as what a model learns
retrieval          scores of vectors: correlation, and right texts found
vector_index       an index of texts: vectors, and the nearest of them
"""

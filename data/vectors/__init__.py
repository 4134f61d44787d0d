"""Texts for vectors, and vectors as files.

text_rows          texts of a file, to rows and batches
vector_files       vectors as JSON lines, npy, npz or TFRecord files
attention_picture  attention of one text as a picture
text_sets          train and dev sets of texts and pairs
teacher_vectors    a teacher's vectors, the targets of training
retrieval          scores of vectors: rank correlation and retrieval metrics
vector_index       an index of texts: their vectors, and nearest-neighbor search
"""

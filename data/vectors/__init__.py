"""Input and output files of extract_features.py.

text_rows          lines of text to rows and batches
vector_files       vectors as JSON lines, npz or TFRecord files
attention_picture  attention of one text as a picture
"""

"""Examples of a task to rows and record files.

long_text        texts longer than a row: options, and one answer of windows
tagging          words with labels to wordpieces, and back
feature_options  how examples become rows, and the rows' features
features         examples to rows of fixed length
records          rows to record files, made once
error_page       predictions beside the right answers, as an HTML page
"""

"""Examples of a task to rows and record files.

tagging     words with labels to wordpieces, and back
features    examples to rows of fixed length
records     rows to record files, made once
error_page  predictions beside the right answers, as an HTML page
"""

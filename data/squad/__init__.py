"""Questions on paragraphs, each answered by a part of its paragraph.

articles        the articles of a SQuAD file or data set
window_options  options of windows and answers
examples        articles to questions with the position of the answer
predictions     the predicted answers to questions, and their files
paragraphs      wordpieces of a paragraph, and back to its own text
windows         the questions of a file to rows as long as the model takes
records         windows to record files, made once
answers         scores of windows to answers
scoring         exact match and F1, by SQuAD's own rules
page            predictions as one HTML page
ensembling      answer files of several runs to those of one
"""

"""Runs a study: declarations in, tables and a picture out.

Each file may import those above it in this table.

declaring    what a study states: rows, measures, the paper's numbers
scales       the sizes and settings of a study on a small machine
measures     what is measured, by which program and with which flags
casing       the task `casing`: how the words of a text are cased
study_options  the flags of run_study.py
plan         the runs of a study, in order, with their settings
commands     the commands of a study at the paper's size, and their cost
inputs       text, vocabulary, records and data sets of a study
report       study.tsv, study.md and study.png: means, spreads, signs
running      runs what is not done yet, and remembers it
programs     does a run by the project's programs
"""

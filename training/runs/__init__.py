"""The runs of the programs: the same phases in the same order in each file.

pretraining    a run of run_pretraining.py
classifier     a run of run_classifier.py on one task
questions      a run of run_squad.py
sentences      a run of run_sentence_vectors.py
encoding       vectors of a file, and search among them
vectors        a run of extract_features.py

A `Run` finds, reads and checks all that it begins with; then its `finish` makes
or opens the records, builds the model, trains it, scores what is kept, writes
the predictions, and describes the model in task.json. Where nothing is trained
(encoding, vectors), the phases are functions.
"""

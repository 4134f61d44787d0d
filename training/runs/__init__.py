"""The runs of the programs: the same phases in the same order in each file.

pretraining    a run of run_pretraining.py
classifier     a run of run_classifier.py on one task
questions      a run of run_squad.py
sentences      a run of run_sentence_vectors.py
encoding       vectors of a file, and search among them
vectors        a run of extract_features.py

open_run finds, reads and checks all that the run begins with; make_records
writes the records (open_records of a pretraining opens them); make_model builds
the model; train_and_score trains it and scores what is kept; answer writes the
predictions or vectors; describe writes task.json.
"""

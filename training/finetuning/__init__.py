"""What the runs of tasks and questions are made of.

predictions       runs a model over records: the outputs of every example
finetuner         model, training loop and predictions of one run
metric_values     names of metrics, and which value is better
best_checkpoint   keeps the last weights, or the best on the dev set
task_scorer       scores the dev sets of a task, with one checkpoint or more
calibrating       fits, keeps and finds a calibration
explaining        attribution of a label's score to words
distilling        a teacher's scores of the train set
earlier_model     scores of a model before it is trained further
prediction_files  the predictions of a task as files
answers           outputs to answers, their files and their scores
"""

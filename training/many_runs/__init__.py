"""Several fine-tuning runs by one command.

recorded_run  runs once in a folder and records the result
made_from     what the scores of a run depend on
trial_choice  the best of several trials
trials        several seeds and settings of one task
suite         several tasks: all of GLUE
table_run     a run on tables that are Python objects
"""

"""Several fine-tuning runs by one command.

provenance    what a finished run was made from
trial_choice  the best of several trials
trials        several seeds and settings of one task
suite         several tasks: all of GLUE
layer_table   each mix of layers of a frozen encoder
"""

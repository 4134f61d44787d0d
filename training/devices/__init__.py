"""Where a program computes.

preemption  SIGTERM: saves and ends
precision   whether bfloat16 is faster than float32 on the devices
workers     worker processes of TF_CONFIG: meeting, watching, private copies
strategy    the tf.distribute strategy and the input of its devices
session     workers and the lock on output_dir around a whole run
"""

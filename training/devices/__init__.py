"""Devices and worker processes of a run.

preemption  SIGTERM: saves and ends
gpus        NVIDIA GPUs that TensorFlow sees, and what they can do
kinds       settings for training on a CPU, a GPU and a TPU
precision   whether bfloat16 is faster than float32 on the devices
workers     workers of TF_CONFIG: waiting for them, watchdog, private copies
strategy    the tf.distribute strategy and the input of its devices
session     workers and the lock on output_dir around a whole run
"""

"""Files and folders on local disks and remote file systems.

files       text files in, whole files out; remote paths by tf.io.gfile
locks       a folder that one run at a time may write to
json_files  small JSON files of a run
"""

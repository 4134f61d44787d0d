"""Files and folders on local disks and remote file systems.

cuda        where pip has put NVIDIA's libraries, for TensorFlow
files       reading text, writing complete files; remote paths by tf.io.gfile
outputs     checks the files that a command writes, before the work
locks       locks that keep a second run off a folder
json_files  small JSON files of a run
html_pages  pages that show many items and need no network
manifests   what files were made from, so that they are made once
"""

"""The version of the project, of which `--version` and CITATION.cff speak."""

VERSION = "1.0.0"

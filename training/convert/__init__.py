"""Models changed without a run.

changed_model  a model whose layers, words and positions change
generator      the generator of an ELECTRA, as a model of its own
growth         more words and positions for a model
cutting        fewer words and layers
descriptions   what a converted folder says of its model
conversion     the original's files to Hugging Face's, and back
"""

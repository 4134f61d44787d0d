"""Models changed without a run.

changed_model  a model whose layers, words and positions change
sizes          more words and positions, or fewer words and layers
conversion     the original's files to Hugging Face's, and back
"""

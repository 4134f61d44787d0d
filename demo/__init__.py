"""The main job, end to end, on text that every Python carries."""

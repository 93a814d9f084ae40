"""Checkpoint files: read, validated, loaded into a network by a table of weight names, and written again."""

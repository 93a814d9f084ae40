"""Whole tasks, from text to an answer that people can use, on top of models."""

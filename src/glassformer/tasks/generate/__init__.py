"""Pipelines that generate text, and what they need: prompts, languages, long documents, comparisons."""

"""Pipelines that generate text, and what they need: settings, languages, prompts, long documents."""

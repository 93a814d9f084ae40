"""Contextual embeddings of words and texts: occurrences, senses, semantic change, and maps of them."""

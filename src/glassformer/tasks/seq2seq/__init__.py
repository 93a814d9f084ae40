"""Sequence-to-sequence tasks: translation, summarisation, denoising."""

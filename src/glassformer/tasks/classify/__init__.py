"""Text classification: one class of several, any of several labels, or a number."""

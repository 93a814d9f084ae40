"""Runs beside each other: the same rows, several seeds, what they cost, how fast they answer."""

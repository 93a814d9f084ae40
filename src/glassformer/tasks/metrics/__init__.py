"""Metrics: scores of predictions, batch by batch in validation, row by row for confidence intervals."""

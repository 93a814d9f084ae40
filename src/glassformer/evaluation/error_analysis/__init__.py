"""Error analysis: examples by loss, confusion matrix, and the correction of labels."""

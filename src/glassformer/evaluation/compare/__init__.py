"""Comparisons: trained runs, random seeds, models and precisions, with the significance of their differences."""

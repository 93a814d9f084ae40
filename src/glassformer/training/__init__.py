"""From rows and a model to a better model: objectives, the loop, checkpoints.

rows ──objective──> examples ──order──> steps ──passes──> losses ──optimiser──> weights
"""

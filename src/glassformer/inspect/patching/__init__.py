"""Activation patching and ablation: components replaced in a forward pass, and what the prediction becomes."""

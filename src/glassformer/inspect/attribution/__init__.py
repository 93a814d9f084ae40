"""Attribution of an output: words by integrated gradients or Shapley values, heads and layers by their direct share."""

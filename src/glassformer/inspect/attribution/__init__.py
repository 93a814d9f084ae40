"""Attribution of an output: words by gradients or replaced tokens, heads and layers by their direct share."""

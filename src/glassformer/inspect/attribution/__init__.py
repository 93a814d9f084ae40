"""Attribution of an output: to words by integrated gradients, to heads, layers and biases by their direct share."""

"""One objective a module, by what the model learns to say."""

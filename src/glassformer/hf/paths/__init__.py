"""Module paths of Hugging Face transformers, such as `model.bert.encoder.layer[0]`, on models of ours."""

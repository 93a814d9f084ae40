"""Parameter-efficient fine-tuning: low-rank adapters on modules chosen by name."""

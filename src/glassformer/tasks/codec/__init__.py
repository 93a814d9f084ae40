"""Training an audio codec to give sounds back from their codes, and scoring it.

task.py     segments of recordings in training, whole recordings when it is evaluated
scores.py   SI-SNR, mel distance, use of codes; of batches and of recordings
"""

from glassformer.tasks.codec.task import Reconstruct

__all__ = ["Reconstruct"]

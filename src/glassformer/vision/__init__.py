"""Pictures → arrays → what a network reads; knows no network and no weights.

pictures.py     a file, an array or an opened picture → upright RGB, one byte a channel
settings.py     preprocessor_config.json → checked settings, every key accounted for
processor.py    resize ─ crop ─ rescale ─ normalise ─> pixel_values, or colours ─> input_ids
"""

from glassformer.vision.processor import ImageProcessor

__all__ = ["ImageProcessor"]

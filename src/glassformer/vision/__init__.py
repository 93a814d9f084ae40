"""Image preprocessing: files or arrays to the input tensors of a model.

images.py       read a file, an array or a PIL image as upright RGB, one byte a channel
settings.py     preprocessor_config.json → validated settings, every key accounted for
processor.py    resize ─ crop ─ rescale ─ normalise ─> pixel_values, or colour clusters ─> input_ids
"""

from glassformer.vision.processor import ImageProcessor

__all__ = ["ImageProcessor"]

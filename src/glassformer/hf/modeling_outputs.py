"""Output classes by the names of Hugging Face transformers, for models of one's own: all are `core.flow.Output`.

from glassformer.hf.modeling_outputs import TokenClassifierOutput

return TokenClassifierOutput(loss=loss, logits=logits)
"""

from __future__ import annotations

from typing import Any

from glassformer.core.flow import Output

__all__ = ["Output"]


def __getattr__(name: str) -> Any:
    if name == "ModelOutput" or "Output" in name:
        return Output
    raise AttributeError(f"glassformer.hf.modeling_outputs has no {name!r}; names of outputs hold the word Output")

"""Training presets: hyperparameters that have worked, by name; each of them can be overridden.

A step is `batch_size` examples, in any number of micro-batches: what others write as micro-batch size times gradient
accumulation steps is the product of both here.

Source: gpt-small, gpt-large: Tunstall et al. 2022, "Natural Language Processing with Transformers", chapter 10, after
Brown et al. 2020, table 2.1 (cosine, decay of 0.1); classify, tag, answer: Devlin et al. 2019, appendix A.3, and
Mosbach et al. 2021, section 6 (warm-up over a tenth of the steps); translate: Vaswani et al. 2017, section 5.3;
lora: Hu et al. 2022, appendix D.
"""

from __future__ import annotations

from typing import Any

from glassformer.errors import ConfigError, nearest

PRESETS: dict[str, dict[str, Any]] = {
    "gpt-small": {
        "batch_size": 12 * 1,  # 12 at a time, accumulated once
        "learning_rate": 5e-4,
        "weight_decay": 0.1,
        "steps": 150_000,
        "block": 1024,
        "seed": 1,
        "schedule": "cosine",
        "warmup": 2000,
    },
    "gpt-large": {
        "batch_size": 2 * 16,  # 2 at a time, accumulated 16 times
        "learning_rate": 2e-4,
        "weight_decay": 0.1,
        "steps": 50_000,
        "block": 1024,
        "seed": 1,
        "schedule": "cosine",
        "warmup": 750,
    },
    "classify": {
        "batch_size": 32,
        "learning_rate": 3e-5,
        "weight_decay": 0.01,
        "epochs": 3,
        "schedule": "linear",
        "warmup": 0.1,
    },
    "tag": {
        "batch_size": 32,
        "learning_rate": 5e-5,
        "weight_decay": 0.01,
        "epochs": 3,
        "schedule": "linear",
        "warmup": 0.1,
    },
    "answer": {
        "batch_size": 32,
        "learning_rate": 3e-5,
        "weight_decay": 0.01,
        "epochs": 2,
        "schedule": "linear",
        "warmup": 0.1,
    },
    "translate": {
        "batch_size": 128,
        "learning_rate": 1.0,  # noam multiplies it: about 7e-4 at the peak, for a width of 512
        "weight_decay": 0.0,
        "steps": 100_000,
        "schedule": "noam",
        "warmup": 4000,
        "label_smoothing": 0.1,
    },
    "lora": {
        "batch_size": 32,
        "learning_rate": 2e-4,
        "weight_decay": 0.01,
        "epochs": 3,
        "schedule": "linear",
        "warmup": 0.06,
    },
}


def preset(name: str) -> dict[str, Any]:
    """The options of a preset.

    Raises: ConfigError: there is none of this name.
    """
    if name not in PRESETS:
        raise ConfigError(f"preset is {name!r}; allowed: {', '.join(PRESETS)}{nearest(str(name), PRESETS)}")
    return dict(PRESETS[name])

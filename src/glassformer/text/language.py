"""Language identification of texts: naive Bayes on counts of short byte sequences (py3langid).

Source: Lui and Baldwin 2012, "langid.py: An Off-the-shelf Language Identification Tool".
"""

from __future__ import annotations

from typing import Any

from glassformer.errors import import_optional

LEAST_LETTERS = 20
"""A shorter text may be of any language."""


def language_identifier(purpose: str) -> Any:
    """What has `rank(text)`, languages with their probabilities, and `labels`, the codes that it knows.

    Args:
        purpose: what it is for, should it not be installed
    Raises: MissingExtraError: it is not.
    """
    package = import_optional("py3langid.langid", "py3langid", "clean", purpose)
    # A model of its own: the package's has its probabilities as logarithms, for the whole process.
    return package.LanguageIdentifier.from_model_file(package.MODEL_FILE, norm_probs=True)


def is_long_enough(text: str) -> bool:
    """Whether a text has the letters by which its language can be identified."""
    return sum(map(str.isalpha, text)) >= LEAST_LETTERS

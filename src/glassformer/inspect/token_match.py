"""Late interaction: how similar each token of a question is to each token of a passage, and MaxSim, their score.

    cell(i, j)  =  cosine of the final states of token i of the question and token j of the passage
    MaxSim      =  mean over i of the largest cell(i, j) over j

Tokens that a tokenizer adds, such as [CLS], and those of a prompt are read by the model, and have no cell.
Source: Khattab and Zaharia 2020, "ColBERT", whose score is the sum over i: the same order of passages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from glassformer.engine.encoder import BATCH_TOKENS, run_final_states
from glassformer.engine.pooling import PoolingSettings
from glassformer.inspect.tokens import Token, tokens_of
from glassformer.models import Network, eval_mode
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.text.tokenizer import Tokenizer


class TokenVectors(NamedTuple):
    """The tokens of a text that have a cell, with their final states at unit length. [T, D] float32"""

    tokens: list[Token]
    vectors: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TokenMatch(Report, kind="token-match", keys=("tokens", "cells", "score")):
    """The similarity of each token of a question to each token of a passage.

    tokens: of the question, and of the passage; empty where a text has none, or there is no model
    cells: cosines [Q, P] float32
    """

    tokens: tuple[tuple[Token, ...], tuple[Token, ...]]
    cells: np.ndarray

    @property
    def score(self) -> float:
        """MaxSim."""
        return max_similarity(self.cells)

    def tables(self) -> list[Table]:
        if not self.cells.size:
            return []
        nearest = self.cells.argmax(1)
        rows = [
            [token.text, self.tokens[1][j].text, f"{self.cells[i, j]:.3f}"]
            for i, (token, j) in enumerate(zip(self.tokens[0], nearest.tolist(), strict=True))
        ]
        return [Table(["question", "nearest in the passage", "cosine"], rows, left=2)]


def max_similarity(cells: np.ndarray) -> float:
    """MaxSim of the cosines of a question's tokens with a passage's; 0 where one has none. [Q, P]"""
    return float(cells.max(1).mean()) if cells.size else 0.0


def token_vectors(
    network: Network, tokenizer: Tokenizer, texts: Sequence[str], settings: PoolingSettings, prompt: str = ""
) -> list[TokenVectors]:
    """Encode texts token by token, cut to what the model reads."""
    limit = min((x for x in (settings.max_tokens, network.max_tokens) if x is not None), default=None)
    read = [text.lower() if settings.lower_case else text for text in (prompt + text for text in texts)]
    encodings = [tokenizer(text, truncation=limit is not None, max_length=limit) for text in read]
    states: dict[int, np.ndarray] = {}
    with eval_mode(network):
        for indices, rows in run_final_states(
            network,
            [encoding["input_ids"] for encoding in encodings],
            BATCH_TOKENS,
            lambda row, packing: row.float().cpu().split(list(packing.lengths)),
        ):
            unit = (torch.nn.functional.normalize(x, dim=-1).numpy() for x in rows)
            states.update(zip(indices, unit, strict=True))
    listed = []
    for number, (text, encoding) in enumerate(zip(read, encodings, strict=True)):
        tokens = tokens_of(tokenizer, encoding, (text,))
        own = [i for i, x in enumerate(tokens) if x.span is not None and x.span[0] >= len(prompt)]
        vectors = states[number][own] if own else np.zeros((0, network.width), np.float32)
        listed.append(TokenVectors([tokens[i] for i in own], vectors))
    return listed


def token_match(question: TokenVectors, passage: TokenVectors) -> TokenMatch:
    """Compare two texts token by token."""
    tokens = (tuple(question.tokens), tuple(passage.tokens))
    return TokenMatch(tokens=tokens, cells=question.vectors @ passage.vectors.T)

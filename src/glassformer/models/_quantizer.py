"""Residual vector quantisation: each codebook quantises what the ones before it left over.

    r₁ = z     zᵢ = out(code nearest to in(rᵢ))     rᵢ₊₁ = rᵢ - zᵢ     ẑ = z₁ + … + z_K

A family says what is nearest, and whether codes are compared in a space of their own: see `Codebook`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count, NonNegative, Spec
from glassformer.core.flow import Flow, Node

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class QuantizerSpec(Spec):
    """`books` codebooks of `entries` codes with `code_width` numbers each, for frames of `width`.

    dropout: share of the rows of a training batch that use a random number of codebooks
    commitment, codebook: weights of the two losses
    dead_codes: of a third, which draws codes that nothing uses to the nearest latents of a training batch
    """

    width: Count
    books: Count
    entries: Count
    code_width: Count
    dropout: NonNegative = 0.0
    commitment: NonNegative = 0.25
    codebook: NonNegative = 1.0
    dead_codes: NonNegative = 0.0


@dataclass(frozen=True, slots=True)
class Quantized:
    """Quantised frames.

    frames: ẑ [B, D, T]
    codes: index of the nearest entry of each codebook [B, K, T]
    latents: what codes are compared with [B, K · E, T], see `ResidualQuantizer`
    loss: commitment and codebook loss of each row, weighted and summed over codebooks [B]
    """

    frames: Tensor
    codes: Tensor
    latents: Tensor
    loss: Tensor


class Codebook(nn.Module):
    """One codebook: the code that is most similar to a projection of the frame.

        e = in_proj(r)     k = argmax_j similarity(e, c_j)     z = out_proj(e + sg(c_k - e))

    sg stops gradients: the encoder learns as if nothing had been quantised.
    Args:
        in_proj, out_proj: None = codes are compared with the frame itself
    Source: van den Oord et al. 2017 (VQ-VAE), section 3.
    """

    def __init__(
        self, spec: QuantizerSpec, in_proj: nn.Module | None = None, out_proj: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.in_proj, self.out_proj = in_proj or nn.Identity(), out_proj or nn.Identity()
        self.codebook = nn.Embedding(spec.entries, spec.code_width)
        self.spec = spec

    def forward(self, residual: Float[Tensor, "B D T"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns: the quantised residual [B, D, T], codes [B, T], latents [B, E, T], the loss of each row [B]."""
        latents = self.in_proj(residual)
        similarities = self.similarities(latents)
        codes = similarities.argmax(-1)
        chosen = self.codebook(codes).transpose(1, 2)  # [B, E, T]
        commitment = (latents - chosen.detach()).square().mean((1, 2))
        codebook = (chosen - latents.detach()).square().mean((1, 2))
        loss = self.spec.commitment * commitment + self.spec.codebook * codebook
        if self.training and self.spec.dead_codes:
            nearest = latents.detach().transpose(1, 2).flatten(0, 1)[similarities.flatten(0, 1).argmax(0)]  # [N, E]
            loss = loss + self.spec.dead_codes * (self.codebook.weight - nearest).square().mean()
        passed = latents + (chosen - latents).detach() if torch.is_grad_enabled() else chosen
        return self.out_proj(passed), codes, latents, loss

    def similarities(self, latents: Float[Tensor, "B E T"]) -> Float[Tensor, "B T N"]:
        """How similar each latent is to each code."""
        raise NotImplementedError

    def positions(self) -> Float[Tensor, "N E"]:
        """Where codes lie: the nearer, the more similar."""
        return self.codebook.weight

    def frames(self, codes: Int[Tensor, "B T"]) -> Float[Tensor, "B D T"]:
        """The vectors that codes stand for."""
        vectors: Tensor = self.out_proj(self.codebook(codes).transpose(1, 2))
        return vectors


class ResidualQuantizer(Node):
    """Residual vector quantiser.

    In training mode, rows may use a random number of codebooks, the first ones: quantizer dropout. Latents are those of
    each codebook; of codebooks without a projection z alone, as the residuals are z less the codes before.
    Args:
        make: a codebook
    Taps: out [B T D] · codes [B T K] · latents [B T K·E], or [B T D]
    Source: Zeghidour et al. 2021 (SoundStream), section III.C and algorithm 1.
    Differs: with quantizer dropout, a row's loss is that of the codebooks it uses, as in the original code; the
    reference library weighs the mean over all rows.
    """

    TAPS = ("out", "codes", "latents")

    def __init__(self, spec: QuantizerSpec, make: Callable[[QuantizerSpec], Codebook]) -> None:
        super().__init__()
        self.spec = spec
        self.books = nn.ModuleList(make(spec) for _ in range(spec.books))

    def forward(self, z: Float[Tensor, "B D T"], flow: Flow, books: int | None = None) -> Quantized:
        """Quantise frames; `books`: with the first this many codebooks, None = all."""
        count = self._books_of_rows(z.shape[0]).to(z.device) if self.training else None
        # Under autocast too, codes are compared in the precision of the weights: bf16 cannot tell neighbours apart.
        with torch.autocast(z.device.type, enabled=False):
            return self._quantize(z.to(next(self.parameters()).dtype), flow, books, count)

    def _quantize(self, z: Tensor, flow: Flow, books: int | None, count: Tensor | None) -> Quantized:
        residual, frames, loss = z, torch.zeros_like(z), z.new_zeros(z.shape[0])
        codes: list[Tensor] = []
        latents: list[Tensor] = []
        for number, book in enumerate(list(self.books)[: None if self.training else books]):
            part, own_codes, own_latents, own_loss = book(residual)
            used = torch.ones_like(loss) if count is None else (number < count).to(z.dtype)
            frames = frames + part * used[:, None, None]
            loss = loss + own_loss * used
            residual = residual - part
            codes.append(own_codes)
            if not latents or not isinstance(cast(Codebook, book).in_proj, nn.Identity):
                latents.append(own_latents)
        return Quantized(
            self.tap(flow, "out", frames.transpose(1, 2)).transpose(1, 2),
            self.tap(flow, "codes", torch.stack(codes, 2)).transpose(1, 2),
            self.tap(flow, "latents", torch.cat(latents, 1).transpose(1, 2)).transpose(1, 2),
            loss,
        )

    def frames(self, codes: Int[Tensor, "B K T"]) -> Float[Tensor, "B D T"]:
        """ẑ, the vectors that codes of the first K codebooks stand for."""
        books = zip(self.books, codes.unbind(1), strict=False)
        return torch.stack([cast(Codebook, book).frames(own) for book, own in books]).sum(0)

    def _books_of_rows(self, rows: int) -> Tensor:
        """How many codebooks each row of a training batch uses. [rows]"""
        count = torch.full((rows,), self.spec.books)
        fewer = torch.randint(1, self.spec.books + 1, (rows,))
        dropped = int(rows * self.spec.dropout)
        return torch.cat([fewer[:dropped], count[dropped:]])

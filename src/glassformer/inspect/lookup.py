"""An embedding look-up and the product of a one-hot row with the table: the same numbers, and the same gradient.

embedding(2051) = row 2051 of W = [0 … 0 1 0 … 0] W          forward: the product adds zeros to one row
                                   └ 2051                    backward: row 2051 alone gets a gradient
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import DataError

if TYPE_CHECKING:
    from glassformer.inspect.session import Session

SHOWN = 2
"""Numbers of a row that are shown."""
CHUNK_NUMBERS = 2**22
"""Numbers of the table that are multiplied at once: 16 MB."""


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """A token's row of the embedding table W.

    id: of the token: the number of its row
    vocabulary, width: rows and columns of W
    rows: the first numbers of this row and of its neighbours, by number
    equal: whether look-up and product have the same bits, in all columns
    equal_gradients: whether both give W the same gradient, of ½ Σ x² over the vector's numbers x, in all rows
    """

    id: int
    vocabulary: int
    width: int
    rows: dict[int, list[float]]
    equal: bool
    equal_gradients: bool


def embedding_table(session: Session, stream: str) -> nn.Embedding | None:
    """The table that the tokens of a stream are looked up in; None where it has none, or several (codebooks)."""
    table = None if session.network.sizes.codebooks else getattr(input_embedding(session, stream), "tokens", None)
    return table if isinstance(table, nn.Embedding) else None


def input_embedding(session: Session, stream: str) -> nn.Module | None:
    """What makes the vectors of a stream's tokens that enter its first block; None where nothing by that name does."""
    network, stack = session.network, session.network.stacks().get(stream)
    paths = [path for path, module in network.named_modules() if module is stack]
    embed = getattr(network.get_submodule(paths[0].rpartition(".")[0]), "embed", None) if paths else None
    return embed if isinstance(embed, nn.Module) else None


def streams_with_table(session: Session) -> list[str]:
    """The streams whose tokens are looked up in one table."""
    return [stream for stream in session.streams if embedding_table(session, stream) is not None]


def look_up(session: Session, stream: str, ids: Sequence[int]) -> list[Lookup]:
    """The rows of different tokens; gradients are those of all of them together.

    Raises: DataError: the stream has no table, or an id no row.
    """
    table = embedding_table(session, stream)
    if table is None:
        raise DataError(f"the tokens of {stream!r} are not looked up in one embedding table")
    W = table.weight.detach()  # [V, D]
    V, D = W.shape
    wrong = [id for id in ids if not 0 <= id < V]
    if wrong:
        raise DataError(f"there is no token {wrong[0]}; the table has rows 0 to {V - 1}")
    chosen = torch.tensor(ids, device=W.device)
    one_hot = F.one_hot(chosen, V).to(W.dtype)  # [N, V]
    equal, equal_gradients = torch.ones(len(ids), dtype=torch.bool, device=W.device), True
    columns = max(CHUNK_NUMBERS // V, 1)
    for part in W.split(columns, dim=1):
        (looked_up, gradient), (product, its_gradient) = (
            _with_gradient(part, lambda w: F.embedding(chosen, w)),
            _with_gradient(part, lambda w: one_hot @ w),
        )
        equal &= (looked_up == product).all(1)
        equal_gradients &= torch.equal(gradient, its_gradient)
    return [
        Lookup(
            id=id,
            vocabulary=V,
            width=D,
            rows={row: W[row, :SHOWN].float().tolist() for row in range(max(id - 1, 0), min(id + 2, V))},
            equal=same,
            equal_gradients=equal_gradients,
        )
        for id, same in zip(ids, equal.tolist(), strict=True)
    ]


def _with_gradient(part: Tensor, forward: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """The vectors that `forward` makes of columns of the table, and the gradient of ½ Σ x² for these columns."""
    with torch.enable_grad():
        w = part.clone().requires_grad_()
        x = forward(w)
        (gradient,) = torch.autograd.grad(x.square().sum() / 2, w)
    return x.detach(), gradient

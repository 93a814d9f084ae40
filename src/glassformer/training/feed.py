"""The passes of each step, made while the step before it is computed.

    step s      ░░░░ network ░░░░ | ░░░░ network ░░░░ |
    passes of   s+1 ▓▓            | s+2 ▓▓            |

What a step reads follows from (epoch, place) alone, so what was made ahead is thrown away without harm.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from glassformer.data.order import generator
from glassformer.tasks.base import Examples, Objective
from glassformer.tasks.loop import cut, first_pass
from glassformer.tasks.microbatch import Pass
from glassformer.training.plan import Plan


class Feed:
    """A process's share of each step.

    Args:
        share: (rank, world): every world-th example of a step is this process's
    """

    def __init__(self, objective: Objective, examples: Examples, plan: Plan, share: tuple[int, int]) -> None:
        self.objective = objective
        self.examples = examples
        self.plan = plan
        self.rank, self.world = share
        self._thread: ThreadPoolExecutor | None = None
        self._ahead: tuple[tuple[int, ...], Future[list[Pass]]] | None = None

    def passes(self, epoch: int, place: int, tokens: int, size: int | None) -> list[Pass]:
        """This process's passes of one step, each of at most so many tokens and examples; none without a share."""
        wanted = (epoch, place, tokens, size or 0)
        found = (
            self._ahead[1].result()
            if self._ahead is not None and self._ahead[0] == wanted
            else self._made(*wanted)
        )
        after = (epoch, place + 1) if place + 1 < self.plan.steps(epoch) else (epoch + 1, 0)
        following = (*after, tokens, size or 0)
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="feed")
        self._ahead = (following, self._thread.submit(self._made, *following))
        return found

    def idle(self) -> Pass:
        """A pass for a process that has nothing to do, and must call the network as often as the others."""
        return first_pass(self.objective, self.examples)

    def close(self) -> None:
        """Nothing is made ahead any more, until it is asked again."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
        self._thread = self._ahead = None

    def _made(self, epoch: int, place: int, tokens: int, size: int) -> list[Pass]:
        chosen = self.plan.examples(epoch, place)[self.rank :: self.world]
        seed = self.plan.options.seed
        varied = [
            self.objective.varied(self.examples[int(i)], generator(seed, epoch, int(i))) for i in chosen
        ]
        return cut(self.objective, varied, chosen.tolist(), tokens, size or None)

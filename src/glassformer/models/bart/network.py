"""The network of BART and T5, whose decoder reads the source again to classify; and BART's decoder alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, cast

from torch import Tensor, nn

from glassformer.core.blocks import BlockSpec
from glassformer.core.checks import any_true
from glassformer.core.classification_heads import Problem, SequenceClassifier, SpanClassifier
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head, last_token
from glassformer.core.language_heads import CausalLMHead
from glassformer.core.stack import StackSpec
from glassformer.errors import DataError
from glassformer.models._network import Network, Sizes, require_ids, require_tokens
from glassformer.models._seq2seq import EncoderDecoderSpec, Seq2SeqModel, make_stream

if TYPE_CHECKING:
    from jaxtyping import Float


class EndTokenClassifier(SequenceClassifier):
    """Sequence classifier over the end token: logits = W tanh(V x + b) + c.

    x is the decoder's state at the text's last end token, which attends to the whole text.

    Source: Lewis et al. 2020, section 3.1.
    """

    def __init__(self, width: int, labels: int, dropout: float, problem: Problem | None) -> None:
        super().__init__(width, labels, pooling="last", dropout=dropout, problem=problem)
        self.dense = nn.Linear(width, width)
        self.activation = nn.Tanh()

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        token = self.activation(self.dense(self.dropout(last_token(x, flow))))
        return Output(logits=self.classifier(self.dropout(token)))


class Bart(Seq2SeqModel):
    """BART; without decoder_input_ids, the decoder reads the source again, for all tasks but generation."""

    def __init__(self, spec: EncoderDecoderSpec, task: str) -> None:
        super().__init__(spec, task)
        self.spec = spec
        self.repeats_source = task != "translation"
        self.source_as_labels = not self.repeats_source

    def make_head(self, spec: EncoderDecoderSpec, task: str) -> Head | None:
        width = spec.decoder.blocks.width
        if task == "text-classification":
            return EndTokenClassifier(width, spec.labels, spec.classifier_dropout, spec.problem)
        return SpanClassifier(width) if task == "question-answering" else super().make_head(spec, task)

    def run_encoder(self, batch: Batch, flow: Flow) -> tuple[Batch, Flow]:
        if self.repeats_source and batch.decoder_input_ids is None:
            batch = self.repeat_source(batch, flow)
        batch, flow = super().run_encoder(batch, flow)
        if isinstance(self.head, EndTokenClassifier):
            flow = replace(flow, keep=self.end_tokens(batch, flow))  # the head reads the last of them
        return batch, flow

    def completed(self, batch: Batch) -> Batch:
        missing = self.repeats_source and batch.decoder_input_ids is None
        return self.repeat_source(batch, Flow()) if missing else batch

    def repeat_source(self, batch: Batch, flow: Flow) -> Batch:
        """The source as decoder input: shifted right by one, behind the start token."""
        ids = require_ids(batch)
        keep = ids.new_ones(ids.shape[0], 1, ids.shape[1]).bool() if flow.keep is None else flow.keep
        first = keep[:, 0] & (keep[:, 0].long().cumsum(-1) == 1)  # of each row, padding on the left or not
        # The roll brings padding, or the last token, to the first visible position: the start token replaces it.
        shifted = ids.roll(1, dims=1).masked_fill(first, self.spec.start_id)
        return replace(batch, decoder_input_ids=shifted, decoder_keep=flow.keep)

    def end_tokens(self, batch: Batch, flow: Flow) -> Tensor:
        """Mask of the end tokens in the source. [B, 1, S] bool

        Raises: DataError: a text has none, or the decoder reads something else than the source.
        """
        ids = require_ids(batch)
        ends = (ids == self.spec.end_id)[:, None]
        ends = ends if flow.keep is None else ends & flow.keep
        assert batch.decoder_input_ids is not None  # `repeat_source` has set them where the caller did not
        if batch.decoder_input_ids.shape != ids.shape or any_true(~ends.any(-1)):
            raise DataError(
                f"the classifier reads each text's last end token (id {self.spec.end_id}) in the decoder: end every "
                "text with it, and leave decoder_input_ids out"
            )
        return ends


class BartDecoder(Network):
    """The decoder alone, without cross-attention: a causal language model.

    Differs: labels are the ids, shifted by one in the loss; in the reference library the caller shifts them. From a
    file of the whole it takes the table that encoder and decoder share, where that library begins with a random one.
    """

    READS = ("input_ids",)

    def __init__(self, spec: EncoderDecoderSpec, task: str) -> None:
        super().__init__(Sizes.of_text(spec.decoder.embed))
        blocks = tuple(replace(cast(BlockSpec, block), cross=None) for block in spec.decoder.blocks.blocks)
        self.decoder = make_stream(replace(spec.decoder, blocks=StackSpec(blocks=blocks)))
        self.head = CausalLMHead(self.width, self.vocabulary)
        if spec.tied_head:
            self.head.decoder.weight = self.decoder.embed.tokens.weight
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.decoder(require_tokens(batch), flow)
        return x

    def finish(self, x: Tensor, flow: Flow) -> Tensor:
        return self.decoder.finish(x)


@cache
def build(kind: type[Seq2SeqModel]) -> Callable[[EncoderDecoderSpec, str], Network]:
    """The network of a task: the decoder alone to generate text, `kind` for all else."""
    return lambda spec, task: (BartDecoder if task == "text-generation" else kind)(spec, task)

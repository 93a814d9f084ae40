"""`Seq2SeqTrainer`: a `Trainer` whose evaluation writes texts."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from glassformer.hf.trainer.trainer import CompatibleTrainer


class Seq2SeqTrainer(CompatibleTrainer):
    """A `Trainer` whose evaluation writes texts, where the arguments say `predict_with_generate`."""

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[Tensor | None, Any, Any]:
        if not self.args.predict_with_generate or prediction_loss_only:
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        loss, _, labels = super().prediction_step(model, inputs, False, ignore_keys)
        options = {"max_length": self.args.generation_max_length, "num_beams": self.args.generation_num_beams}
        options = {**options, "generation_config": self.args.generation_config, **self._generation}
        read = {name: x for name, x in inputs.items() if name not in ("labels", "decoder_input_ids")}
        written = model.generate(**read, **{name: x for name, x in options.items() if x is not None})  # type: ignore[operator]
        return loss, written, labels

"""lm-evaluation-harness: log-likelihoods and completions of a decoder.

python -m glassformer.integrations.lm_eval --model glassformer --model_args model=FOLDER --tasks lambada_openai
"""

from __future__ import annotations

from typing import Any

import torch
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

from glassformer.engine.batching import plan_batches
from glassformer.errors import ConfigError, UnknownOptionError, nearest
from glassformer.files import check_count
from glassformer.integrations import loaded, one_text, until

LOADING = ("dtype", "device", "revision")
OF_THE_HARNESS = ("batch_size", "max_batch_size")
"""It gives these to all its models; batches are cut by tokens here."""


@register_model("glassformer")
class GlassformerLM(TemplateLM):
    """A decoder under evaluation.

    Args:
        model: folder, name or `Model`
        batch_tokens: tokens of a batch
        options: of `load`, such as dtype, device
    """

    def __init__(self, model: Any, batch_tokens: int = 4096, max_length: int | None = None, **options: Any) -> None:
        super().__init__()
        for name, value in (("batch_tokens", batch_tokens), ("max_length", max_length)):
            if value is not None:
                check_count(name, value)
        if unknown := [name for name in options if name not in (*LOADING, *OF_THE_HARNESS)]:
            raise UnknownOptionError(f"the model takes no {unknown[0]!r}{nearest(unknown[0], LOADING)}")
        loading = {name: value for name, value in options.items() if name in LOADING and value}
        self.model = loaded(model, "text-generation", **loading)
        self.tokenizer = self.model.tokenizer
        self.batch_tokens = batch_tokens
        # Rotary positions have no end; what the model was trained for does.
        limit = self.model.network.max_tokens or self.model.config.get("max_position_embeddings", 2048)
        self.max_length = int(max_length or limit or 2048)

    @property
    def eot_token_id(self) -> int:
        ids = self.model.generation_config.get("eos_token_id", self.model.config.get("eos_token_id"))
        return int((ids[0] if isinstance(ids, list) else ids) or 0)

    @property
    def prefix_token_id(self) -> int:
        start = self.model.config.get("bos_token_id")
        return self.eot_token_id if start is None else int(start)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        ids = self.tokenizer(
            one_text(string), add_special_tokens=True if add_special_tokens is None else add_special_tokens
        )
        return list(ids["input_ids"])

    @torch.inference_mode()
    def _loglikelihood_tokens(self, requests: Any, disable_tqdm: bool = False, **_: Any) -> list[tuple[float, bool]]:
        """log p(continuation | context) and whether greedy decoding would give it, in batches of like lengths."""
        rows = [(context + target)[-(self.max_length + 1) :] for _, context, target in requests]
        scores: dict[int, tuple[float, bool]] = {}
        lengths = [len(row) - 1 for row in rows]
        for batch in tqdm(plan_batches(lengths, self.batch_tokens), "log-likelihoods", disable=disable_tqdm):
            longest = max(lengths[i] for i in batch)
            ids = torch.tensor([rows[i][:-1] + [0] * (longest - lengths[i]) for i in batch])
            mask = torch.tensor([[1] * lengths[i] + [0] * (longest - lengths[i]) for i in batch])
            device = self.model.device
            logits = self.model(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False).logits
            assert logits is not None  # of a decoder
            for i, row in zip(batch, logits, strict=True):
                target = torch.tensor(requests[i][2][-lengths[i] :], device=device)
                log_probs = row[lengths[i] - len(target) : lengths[i]].float().log_softmax(-1)
                chosen = log_probs.gather(1, target[:, None]).sum()
                scores[i] = float(chosen), bool((log_probs.argmax(-1) == target).all())
        return [scores[i] for i in range(len(rows))]

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        sums = []
        for request in requests:
            windows = get_rolling_token_windows(
                self.tok_encode(request.args[0]), self.prefix_token_id, self.max_length, 1
            )
            parts = [(None, *make_disjoint_window(window)) for window in windows]
            sums.append(sum(value for value, _ in self._loglikelihood_tokens(parts, disable_tqdm=True)))
        return sums

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        texts = []
        for request in tqdm(requests, "completions", disable=disable_tqdm):
            prompt, given = request.args
            stop = given.get("until") or []
            stop = [stop] if isinstance(stop, str) else list(stop)
            new = given.get("max_gen_toks", 256)
            check_count("max_gen_toks", new)
            if new >= self.max_length:
                raise ConfigError(f"max_gen_toks is {new}, and the model reads {self.max_length} in all; ask for fewer")
            sampled = bool(given.get("do_sample"))
            options = {"do_sample": True, "temperature": given.get("temperature", 1.0)} if sampled else {}
            ids = torch.tensor([self.tok_encode(prompt)[-(self.max_length - new) :]], device=self.model.device)
            written = self.model.generate(ids, max_new_tokens=new, stop_strings=stop or None, **options)
            # Decoded alone, as the harness does with its own models.
            text = self.tokenizer.decode(written[0, ids.shape[1] :].tolist(), skip_special_tokens=True)
            texts.append(until(text, stop))
        return texts


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()

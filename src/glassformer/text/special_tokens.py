"""Special tokens: which token is `cls`, `sep`, `pad`, … in each family, where no file says so."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer.text.settings import TokenizerSettings

SPEECH_FAMILIES = frozenset(
    "wav2vec2ctc wav2vec2 wav2vec2conformer wav2vec2bert hubert wavlm unispeech unispeechsat data2vecaudio".split()
)
"""Speech recognisers: their tokenizers have a vocabulary of characters for CTC."""

BERT_ROLES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
GPT_ROLES = {"unk": "<unk>"}
GPT2_ROLES = {"bos": "<|endoftext|>", "eos": "<|endoftext|>", "unk": "<|endoftext|>"}
LLAMA_ROLES = {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}
ROBERTA_ROLES = {**LLAMA_ROLES, "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}
ALBERT_ROLES = {**BERT_ROLES, "bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "pad": "<pad>"}
BIGBIRD_ROLES = {**BERT_ROLES, "bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
T5_ROLES = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
PEGASUS_ROLES = {**T5_ROLES, "mask": "<mask_2>"}
CLIP_ROLES = {**GPT2_ROLES, "bos": "<|startoftext|>", "pad": "<|endoftext|>"}
SPEECH_ROLES = {**LLAMA_ROLES, "pad": "<pad>"}

DEFAULT_SPECIAL_TOKENS = {
    **dict.fromkeys("bert convbert distilbert electra layoutlm lxmert mobilebert".split(), BERT_ROLES),
    "tapas": {**BERT_ROLES, "empty": "[EMPTY]"},
    **dict.fromkeys(("gpt2", "whisper"), GPT2_ROLES),
    **dict.fromkeys("llama mistral mixtral phi3".split(), LLAMA_ROLES),
    **dict.fromkeys("bart data2vectext led longformer mbart roberta xlmroberta".split(), ROBERTA_ROLES),
    **dict.fromkeys("t5 mt5 longt5 marian".split(), T5_ROLES),
    **dict.fromkeys(("clip", "clipseg"), CLIP_ROLES),
    **dict.fromkeys(SPEECH_FAMILIES, SPEECH_ROLES),
    "albert": ALBERT_ROLES,
    "bigbird": BIGBIRD_ROLES,
    "openaigpt": GPT_ROLES,
    "pegasus": PEGASUS_ROLES,
}
"""Family → role → special token, for folders whose files name none."""

MASK_TAKES_SPACE = frozenset("bart data2vectext led longformer roberta".split())
"""Families whose mask token includes the space before it, as their words do (`lstrip=True`)."""


def complete_roles(settings: TokenizerSettings, vocabulary: Mapping[str, int]) -> dict[str, str]:
    """Special tokens by role: those that the files name, and the defaults of the tokenizer class for the others.

    Where no file names any, the defaults of the model's family count, else the first ones (BERT, GPT-2, Llama) whose
    tokens are all in the vocabulary. A default token that the vocabulary lacks is never added.
    """
    defaults = DEFAULT_SPECIAL_TOKENS.get(settings.kind if settings.roles else settings.family, {})
    if not settings.roles and defaults.get("unk") not in vocabulary:
        candidates = (BERT_ROLES, GPT2_ROLES, LLAMA_ROLES)
        defaults = next((roles for roles in candidates if all(t in vocabulary for t in roles.values())), {})
    known_defaults = {role: token for role, token in defaults.items() if token in vocabulary}
    return {**known_defaults, **settings.roles}

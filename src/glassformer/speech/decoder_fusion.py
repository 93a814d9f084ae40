"""An n-gram model in the search of a decoder: shallow fusion, at each token, or rescoring of the n best texts.

    fusion      sound ─ beams, each token with alpha · ln P(next) ─> text
    rescoring   sound ─ beams ─> n best texts, each + alpha · ln P(text) + beta · words ─> the best of them

Fusion finds what the sound alone had given up; rescoring costs next to nothing, and chooses among what was found.
Sources: Gulcehre et al. 2015, section 4.1 (fusion); Chan et al. 2016, section 2.4 (rescoring).
"""

from __future__ import annotations

from functools import cached_property

from glassformer.core.heads import not_none
from glassformer.generation.decoding import Generated
from glassformer.generation.filters import Filter
from glassformer.generation.scorer import NgramScorer, shallow_fusion, text_scores
from glassformer.loaded_model import LoadedModel
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.vocabulary import SpeechVocabulary
from glassformer.speech.word_fusion import FusedWords, TextScore, TokenWords
from glassformer.text.token_bytes import token_bytes


class DecoderFusion:
    """The language model of `options`, of words or of the tokenizer's tokens, in searches of a model for tokens."""

    def __init__(self, model: LoadedModel, options: TranscriptionOptions, vocabulary: SpeechVocabulary) -> None:
        self._model, self._options, self._vocabulary = model, options, vocabulary

    def of_tokens(self, prompt_length: int) -> list[Filter]:
        """Logit filters before all others: fusion with a model of tokens."""
        if self._options.rescore or not self._weighs or self._models_words:
            return []
        return [shallow_fusion(self._token_scorer, self._options.alpha, prompt_length=prompt_length)]

    def of_words(self, prompt_length: int) -> list[Filter]:
        """Logit filters after normalization, which would take back what all likely tokens get: a model of words."""
        if self._options.rescore or not self._weighs or not self._models_words:
            return []
        return [self._words(prompt_length, self._fused)]

    def of_texts(self, generated: Generated) -> list[TextScore]:
        """For rescoring: what the language model says of each text that a search has found. [R]"""
        if not self._options.rescore:
            return [TextScore()] * len(generated.ids)
        if not self._models_words:
            return [TextScore(each) for each in text_scores(generated, self._token_scorer).tolist()]
        texts = [
            ids[active].tolist() for ids, active in zip(generated.new_ids, not_none(generated.active), strict=True)
        ]
        kinds = [self._words(generated.prompt_length, words) for words in self._fused.apart]
        return [TextScore(*(kind.of_tokens(tokens) for kind in kinds)) for tokens in texts]

    @property
    def _weighs(self) -> bool:
        """Whether the language model has a say; at weight 0 the search is that without one, exactly."""
        options = self._options
        if options.language_model is None:
            return False
        return bool(options.alpha) or bool(options.beta and self._models_words)

    @property
    def _fused(self) -> FusedWords:
        return FusedWords(self._options.language_model, self._options.alpha, self._options.beta)

    def _words(self, prompt_length: int, words: FusedWords) -> TokenWords:
        vocabulary = self._vocabulary
        ends = [vocabulary.end, *range(vocabulary.first_timestamp, len(self._tokens))]
        return TokenWords(words, self._pieces, ends, prompt_length)

    @property
    def _token_scorer(self) -> NgramScorer:
        assert self._options.language_model is not None  # else it does not weigh
        return NgramScorer(self._options.language_model, self._tokens, [self._vocabulary.end])

    @cached_property
    def _tokens(self) -> list[str]:
        engine = self._model.tokenizer.engine
        return [engine.id_to_token(number) or "" for number in range(self._model.network.target_vocabulary)]

    @cached_property
    def _pieces(self) -> list[bytes]:
        return token_bytes(self._model.tokenizer, len(self._tokens)).later

    @cached_property
    def _models_words(self) -> bool:
        """Whether the language model is one of words: it knows no token that begins with a space."""
        model = self._options.language_model
        return model is not None and not any(
            token in model for token, piece in zip(self._tokens, self._pieces, strict=True) if piece[:1] == b" "
        )

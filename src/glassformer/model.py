"""The main interface: `load` a model, call it, encode, generate, inspect, save.

    model = load("folder-or-name")
    model(input_ids=ids).last_hidden_state          the network's own outputs
    model.encode(["one text", "another"])           embeddings, fast
    model.generate("Once upon a time")              text
    model(input_ids=ids, tape=Tape("attn.probs"))   with any activation of the forward pass

Every method delegates to a package below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

import torch
from torch import Tensor

from glassformer.audio_coding import CODEC, AudioCoder
from glassformer.call import CallInputs, CallOptions, complete_inputs, decoder_inputs, encoder_of, take_labels
from glassformer.compression.adapters import check_not_adapted
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Output, Tape
from glassformer.edge import read_call, warn_if_marker_missing
from glassformer.engine.prepare import prepare, prepared_precision, unprepare
from glassformer.errors import ConfigError, DataError, UnknownOptionError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.load_options import shard_bytes
from glassformer.pretrained import PretrainedModel
from glassformer.sentence_embeddings import SentenceEmbedder
from glassformer.text.chat import Chat

if TYPE_CHECKING:
    from glassformer.explorer import Look
    from glassformer.explorer.session_runs import SessionFactory
    from glassformer.inspect.attribution.attribution import Attribution
    from glassformer.inspect.generation_trace import GenerationTrace
    from glassformer.inspect.session import Session
    from glassformer.speech.results import Transcription


P = ParamSpec("P")
Part = TypeVar("Part")
Result = TypeVar("Result")


def delegate(part: str, method: Callable[Concatenate[Part, P], Result]) -> Callable[Concatenate[Model, P], Result]:
    """A method of a part of the model, as one of the model: with the same arguments and documentation."""

    @wraps(method)
    def call(model: Model, /, *args: P.args, **options: P.kwargs) -> Result:
        return method(getattr(model, part), *args, **options)

    return call


class Model(PretrainedModel):
    """A network with its tokenizer and config, as `load` makes it: call it, encode, generate, inspect, save.

    embedder: sentence embeddings, similarities and rankings
    codec: sound as codes
    """

    @property
    def embedder(self) -> SentenceEmbedder:
        return SentenceEmbedder(self)

    @property
    def codec(self) -> AudioCoder:
        return AudioCoder(self.network)

    encode = delegate("embedder", SentenceEmbedder.encode)
    encode_query = delegate("embedder", SentenceEmbedder.encode_query)
    encode_document = delegate("embedder", SentenceEmbedder.encode_document)
    similarity = delegate("embedder", SentenceEmbedder.similarity)
    similarity_pairwise = delegate("embedder", SentenceEmbedder.similarity_pairwise)
    explain_similarity = delegate("embedder", SentenceEmbedder.explain_similarity)
    score = delegate("embedder", SentenceEmbedder.score)
    rank = delegate("embedder", SentenceEmbedder.rank)
    get_sentence_embedding_dimension = delegate("embedder", SentenceEmbedder.get_sentence_embedding_dimension)
    get_embedding_dimension = get_sentence_embedding_dimension

    encode_audio = delegate("codec", AudioCoder.encode_audio)
    decode_audio = delegate("codec", AudioCoder.decode_audio)
    continue_codes = delegate("codec", AudioCoder.continue_codes)
    convert_codes = delegate("codec", AudioCoder.convert_codes)

    @property
    def similarity_fn_name(self) -> str:
        """How the folder compares vectors: "cosine" unless it says otherwise."""
        return self.embedder.similarity_fn_name

    @property
    def max_seq_length(self) -> int | None:
        """Tokens of a text at most, special ones included; what is longer is cut. None = no limit."""
        return self.embedder.max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, limit: int | None) -> None:
        self.embedder.max_seq_length = limit

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        labels: Tensor | dict[str, Tensor] | None = None,
        cache: KeyValueCache | None = None,
        tape: Tape | None = None,
        **inputs: Unpack[CallInputs],
    ) -> Output:
        """Forward pass of the network, on the inputs that it reads (`network.READS`).

        Args:
            input_ids: token ids. [B, T]
            attention_mask: 1 for tokens, 0 for padding, on either side. [B, T], with a cache [B, past + T];
                of audio [B, samples]
            token_type_ids: token type (segment) ids. [B, T], of tables [B, T, columns]; None = all 0
            position_ids: positions of the tokens. [B, T]; None = counted, without padding
            bbox: bounding boxes of words on a page: left, top, right, bottom, in thousandths. [B, T, 4]
            decoder_input_ids, decoder_attention_mask: the target side of an encoder-decoder. [B, T]
            input_values: audio, as a waveform; `processor` makes it. [B, samples]
            input_features: audio, as a log-mel spectrogram; `processor` makes it. [B, M, frames]
            pixel_values: images; `processor` makes them. [B, channels, height, width]
            visual_feats, visual_pos, visual_attention_mask: detected regions of an image: their features
                [B, R, width], their corners as fractions of the image's size [B, R, 4], and their mask [B, R]
            labels: targets of the head, for `loss`; -100 is ignored
            cache: key-value cache, extended here
            tape: records activations of `model.taps()`, or replaces them
            past_key_values, use_cache, output_hidden_states, output_attentions, return_dict: see `CallInputs`
        Returns: an Output with the field names of Hugging Face transformers, and `taps` if a tape was given.
        Raises: DataError: ids out of range, or more tokens than positions. ConfigError: shapes that do not fit.
        """
        tokens = {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids}
        given: dict[str, Any] = {**tokens, "token_type_ids": token_type_ids, **inputs}
        labels = take_labels(given, labels)
        recompute = self.recompute and self.training
        # Packed narrow weights have no gradients: in eval mode none are expected, in training mode it is an error.
        differentiable = self.network.training or prepared_precision(self.network) in (None, "fp32")
        with torch.set_grad_enabled(torch.is_grad_enabled() and differentiable):
            # As in the reference library: labels of an encoder-decoder are all of the target, which no call continues.
            cached = self.family.generates and not recompute and not (labels is not None and self.is_encoder_decoder)
            call = CallOptions.take(self.network, self.config, given, cache, tape, cached=cached)
            complete_inputs(given, self.network, labels if self.is_encoder_decoder else None, call.cache, self.config)
            batch, flow = read_call(self.network, self.family.model_type, given, cache=call.cache, tape=call.tape)
            flow = replace(flow, recompute=recompute and call.cache is None and call.tape is None)
            warn_if_marker_missing(self.network, self.task, self._tokenizer, input_ids, flow)
            output: Output = self.network(batch, flow)
        self.check_nan(output)
        if labels is not None:
            output = replace(output, loss=self._loss(output, labels))
        return call.finish(output)

    if TYPE_CHECKING:
        __call__ = forward  # `nn.Module` calls it, and the hooks around it

    def _loss(self, output: Output, labels: Tensor | dict[str, Tensor]) -> Tensor:
        if self.network.head is None:
            raise ConfigError(
                "labels need a head, and this model was loaded without one; load it with "
                f"task={' or '.join(repr(task) for task in self.family.tasks if task != self.task)}"
            )
        return self.network.head.loss(output, labels)

    def generate(
        self,
        prompt: Any = None,
        generation_config: Any = None,
        *,
        attention_mask: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Text generation: texts give texts (the new part only), ids give ids (prompt and new tokens).

            model.generate("Once upon a time")                                                  greedy decoding
            model.generate("Once upon a time", do_sample=True, top_p=0.9, seed=1)               nucleus sampling
            model.generate(article, num_beams=4, no_repeat_ngram_size=3, max_new_tokens=60)     beam search
            model.generate("Once upon a time", penalty_alpha=0.6, top_k=4)                      contrastive search
            model.generate(article, prompt_lookup_num_tokens=8)                                 prompt lookup decoding
            model.generate(article, assistant_model=smaller)                                    speculative decoding

        An encoder-decoder reads the prompt and answers it; its ids begin with its start token, not with the prompt.
        A speech model takes one or several audio files, or samples with `sample_rate_hz`, and answers with transcripts.

        A conversation, [{"role": "user", "content": "Hello"}], is formatted by the tokenizer's chat template; the
        assistant's answer is generated, or continued where the conversation ends with it.

        The default is greedy decoding of 20 tokens, or of the length in generation_config.json; other values of that
        file are the defaults of options that you do not give (`glassformer.generation.options`).
        The result of a row does not depend on the other rows of the batch.

        Args:
            prompt: one text or conversation, several, or token ids, padded on the left. [B, T] Audio: a file, samples,
                or `input_features`. By name, too: `inputs`, `input_ids`, `input_features`
            generation_config: options in an object; those of the call win
            attention_mask: 0 where ids are padding. [B, T]
            options: `max_new_tokens`, `do_sample`, `temperature`, `top_p`, `num_beams`, `stop_strings`, …, all of them
                in `glassformer.generation.options.GenerationOptions`, under their names in Hugging Face transformers;
                `streamer`, `return_dict_in_generate`, … (`glassformer.generation.arguments`)
        Returns: a text for a text, a list for several, ids [B, T + new] for ids; with `num_return_sequences` n, the n
            answers to a prompt are adjacent; with `return_scores`, a `Generated`.
        Raises: DataError: an empty prompt, padding on the right, or no room for this many tokens.
            ConfigError: unknown options, out of range, or in conflict.
            WeightsError: the logits are NaN. UnsupportedError: the model was loaded for another task.
            Interrupted: by Ctrl-C; `.partial` is what was generated.
        """
        from glassformer.generation.generate import generate

        return generate(self, prompt, attention_mask, {"generation_config": generation_config, **options})

    def stream(
        self, prompt: str | Chat | Tensor, *, attention_mask: Tensor | None = None, **options: Any
    ) -> Iterator[Any]:
        """Streaming generation, as `generate`: a text gives pieces of text, ids give the next token of each row.

            for piece in model.stream("Once upon a time"):
                print(piece, end="", flush=True)

        A piece holds whole characters, and the pieces together are the text that `generate`
        gives. No beam search, where no token is certain before the end.

        Args:
            prompt: one text or conversation, or ids [B, T]
            others: as in `generate`
        Returns: an iterator of texts, or of tokens. [B] each
        """
        from glassformer.generation.generate import stream

        return stream(self, prompt, attention_mask, options)

    def transcribe(self, sound: Any, *, sample_rate_hz: int | None = None, **options: Any) -> Transcription:
        """Transcribe a recording of any length, with times; options in `glassformer.speech.options`.

        Args:
            sound: an audio or video file, or samples with `sample_rate_hz`
        Raises: DataError: it cannot be read. UnsupportedError: the model does not transcribe speech.
        """
        from glassformer.speech.options import TranscriptionOptions
        from glassformer.speech.transcribe import transcribe

        return transcribe(self, sound, TranscriptionOptions.read(options), sample_rate_hz)

    def inspect(
        self,
        *texts: str,
        progress: Callable[[int, int], None] | None = None,
        limit_bytes: int = 2**30,
        truncation: bool = False,
        codec: str | Path | Model | None = None,
        **fields: Tensor,
    ) -> Session:
        """Run a forward pass on one text, or on two as a pair, and store it, to inspect attention and hidden states.

        An encoder-decoder reads the first text, and its decoder the second, or else its own answer. A model of pictures
        or sounds takes the name of a file first; one over codes too, which a codec makes.

        Args:
            progress: called after each block with the number of finished blocks and of all.
            limit_bytes: RAM limit of the session, in addition to the weights
            truncation: cut texts that are too long
            codec: of a model over codes: a folder, a Hub name or a model; None = the one that this package carries
            fields: other inputs, as in a call: `bbox`, `visual_feats` and `visual_pos`, of one row.
        Returns: a `Session`: `session.head(4, 11).probs(3)`, `session.overview(4)`, `session.states(4)`, …
        Raises: DataError: the texts are empty or too long. UnsupportedError: the model has no attention.
        """
        from glassformer.inspect.inputs import open_inputs
        from glassformer.inspect.session import Session

        maker = load(codec or CODEC) if self.network.sizes.codebooks and not isinstance(codec, Model) else codec
        opened = open_inputs(self, texts, fields, truncation=truncation, codec=maker)
        return Session(self.network, opened, progress=progress, limit_bytes=limit_bytes)

    def attribute(
        self, *texts: str, target: str | int | None = None, truncation: bool = False, **options: Any
    ) -> Attribution:
        """Attribution: which words, heads and feed-forward layers made an output.

            model.attribute("so glad to see you", target="joy").words          a class
            model.attribute("The capital of France is", target=" Paris")       the next token
            model.attribute("Ada met Grace", target="B-PER", at="Ada")         the tag of a word
            model.attribute(question, text)                                    the span of an answer

        Direct logit attribution, gradient × input, and integrated gradients.

        Args:
            texts: as in `inspect`
            target, options: as in `Session.attribute`
        Returns: an `Attribution`: `.words`, `.parts`, `.gap`, `.notes`.
        Raises: DataError: no such output, word or token. UnsupportedError: no head that gives logits of one stream.
        """
        return self.inspect(*texts, truncation=truncation).attribute(target, **options)

    def writing(self, prompt: str, *, truncation: bool = False) -> GenerationTrace:
        """Trace text generation: a tree of tokens with the alternatives at each step, from which to branch.

            trace = model.writing("Once upon a time")
            result = trace.write(num_beams=4)                    as generate does
            trace.tree.choices[0].top                            the most likely first tokens
            trace.write(after=0, tokens=[263])                   continue from another first token

        Args:
            prompt: as in `generate`; of a speech model, an audio file
            truncation: cut one that is too long
        Raises: DataError: the prompt is empty or too long. UnsupportedError: the model was loaded for another task.
        """
        from glassformer.generation.generate import make_generator, resolve_options
        from glassformer.inspect.generation_trace import GenerationTrace
        from glassformer.inspect.inputs import open_prompt

        if not isinstance(prompt, str):
            raise DataError(f"the prompt is {safe_repr(prompt)}; give one text")
        generator = make_generator(self, resolve_options(self, {}))
        if not self.writes:
            raise UnsupportedError(f"a {self.family.model_type!r} model generates no text that could be traced")
        return GenerationTrace(generator, open_prompt(self, prompt, truncation=truncation), self.tokenizer.target)

    def look(
        self, texts: str | Sequence[str], *, truncation: bool = False, corpus: str | Path | None = None, **options: Any
    ) -> Look:
        """Visualise the attention of one text, or of two as a pair, in a web browser: the attention explorer.

            model.look(["time flies", "fruit flies"], view="head", layer=4, heads=11)
            model.look("time flies", html="page.html")          one file that needs no server

        Serves a page on this machine and opens it; a script blocks until Ctrl-C, a shell does not. A notebook shows the
        page itself where the value ends a cell, and serves nothing unless `port`, `browser` or `block` is given.

        Args:
            port: None = a free one
            browser: open one; None = if there is a display
            html: write the page to this file (self-contained) instead of serving it
            truncation: cut long texts
            view: the name of a view
            layer, heads: the initial ones, from 0
            corpus: an index's folder, to search in
            options: with view="generate", which shows text generation: as in `generate`
            theme: "light", "dark"; None = the system's
            block: None = in a script
            codec: as in `inspect`
        Returns: a `Look`: `.url`, `.session`, `.save(path)`, `.close()`.
        Raises: DataError: the texts are empty or too long. ConfigError: the port is taken.
            UnsupportedError: the model has no attention.
        """
        from glassformer.explorer import look

        codec, known = options.pop("codec", None), list(signature(look).parameters)[2:]
        for name in options:
            if name not in known:
                raise UnknownOptionError(f"look(…) takes no {safe_repr(name)}{nearest(name, known)}")
        factory = self.session_factory(truncation=truncation, corpus=corpus, codec=codec)
        return look(factory, texts, **options)

    def session_factory(
        self, *, truncation: bool = False, corpus: str | Path | None = None, codec: str | Path | None = None
    ) -> SessionFactory:
        """Facts about the model, and what makes its sessions: all that the attention explorer knows of it."""
        from glassformer.explorer.contexts import searched_corpus
        from glassformer.explorer.describe import model_facts
        from glassformer.explorer.session_runs import SessionFactory
        from glassformer.speech.transcription_trace import transcriber

        options: Any = {"truncation": True} if truncation else {}
        facts, trace = model_facts(self), partial(self.writing, **options)
        codecs: Any = {"codec": load(codec or CODEC)} if self.network.sizes.codebooks else {}
        inspect = partial(self.inspect, **options, **codecs)
        compare = self.explain_similarity if facts.can_compare else None
        count = (lambda text: len(self.tokenizer([text]).rows[0].ids)) if facts.modality is None else None
        factory = SessionFactory(facts, inspect, trace, transcriber(self), compare, count_tokens=count)
        return searched_corpus(factory, self, corpus)

    def prepare(self, precision: str = "fp32") -> Self:
        """Pack the weights for fast inference, in a precision: "fp32", "fp16", "bf16" or "int8" (quantization)."""
        prepare(self.network, precision)
        return self

    def unprepare(self) -> Self:
        """Restore the original weights, bit for bit."""
        unprepare(self.network)
        return self

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The labels of an encoder-decoder shifted right: what its decoder reads in training. [B, T]"""
        if not self.is_encoder_decoder:
            raise UnsupportedError(f"a {self.family.model_type!r} model has no decoder that reads labels")
        return decoder_inputs(self.network, labels, self.config)

    def get_encoder(self) -> Callable[..., Output]:
        """The encoder of an encoder-decoder, called by itself: model.get_encoder()(ids).last_hidden_state [B, S, D]"""
        return encoder_of(self.network, self.family.model_type)

    def taps(self) -> list[str]:
        """The names of all activations that a Tape can record."""
        return self.network.taps()

    def compute_transition_scores(
        self, sequences: Tensor, scores: Sequence[Tensor], beam_indices: Any = None, normalize_logits: bool = False
    ) -> Tensor:
        """The score of each generated token, of what `generate(…, return_dict_in_generate=True)` gave. [R, new]"""
        from glassformer.generation.output import transition_scores

        return transition_scores(sequences, scores, beam_indices, normalize_logits)

    def save_pretrained(self, folder: str | Path, *, max_shard_bytes: int = 5_000_000_000, **reference: Any) -> None:
        """Save config, weights and tokenizer in the Hugging Face layout, which transformers loads.

        Args:
            reference: keywords of Hugging Face transformers, such as `max_shard_size`; others are refused.
        Raises: WeightsError: the files cannot be written. ConfigError: the model has adapters that are not merged.
        """
        check_not_adapted(self.network)
        super().save_pretrained(folder, max_shard_bytes=shard_bytes(reference, max_shard_bytes))

    def __repr__(self) -> str:
        count = sum(parameter.numel() for parameter in self.parameters())
        return (
            f"Model({self.family.model_type}, {self.task}, {count / 1e6:.1f}M parameters, "
            f"{str(self.dtype).removeprefix('torch.')} on {self.device})"
        )


load = Model.from_pretrained
"""Load a model folder in the Hugging Face layout, or a model of the Hub by name."""

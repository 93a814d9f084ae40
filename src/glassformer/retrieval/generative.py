"""Generative reader (retrieval-augmented generation): a language model writes an answer from passages, and cites them.

    decoder            numbered passages and the question in one prompt ──> sentences, each with the number of a passage
    encoder-decoder    question and passage 1 ── encoder ──┐
                       question and passage 2 ── encoder ──┴─ states one after another ── decoder ──> sentences

    sentence ── which passage supports it? (`support.py`) ──┬─ the cited one, or else the best
                                                            └─ none: the sentence is left out

What a decoder writes is constrained to a grammar: sentences that end with the number of a passage that is in the
prompt, [2]., or the sentence that says that there is no answer. As many passages are in the prompt as fit the model's
window. Passages are data: special tokens that they imitate are broken by a space, and numbers in brackets are
written (3), so that none ends the prompt or passes for a citation. What they say may still mislead a model.
Fusion-in-decoder: passages are apart in the encoder, so its time grows with their number and not with its square; the
decoder compares them. A decoder adds no positions to its memory, so the order of the passages changes nothing.
Sources: Izacard and Grave 2021, "Leveraging Passage Retrieval with Generative Models for Open Domain Question
Answering", section 3; Lewis et al. 2020, "Retrieval-Augmented Generation"; Gao et al. 2023, "Enabling Large Language
Models to Generate Text with Citations" (numbered passages, citations at the end of sentences).
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.call import encoder_of
from glassformer.core.heads import not_none
from glassformer.engine.batching import plan_batches
from glassformer.errors import DataError, UnsupportedError
from glassformer.files import counted
from glassformer.files.schema import Schema
from glassformer.generation.constrain import regex
from glassformer.generation.decoding import Generated
from glassformer.generation.generate import generate, generation_defaults
from glassformer.model import Model
from glassformer.models import eval_mode
from glassformer.retrieval.passage import PassageMatch, with_headings
from glassformer.retrieval.retriever import StageTimer
from glassformer.retrieval.support import THRESHOLD, SupportCheck, WordOverlap
from glassformer.tasks.microbatch import TOKENS
from glassformer.tasks.span import check_asked
from glassformer.text.sentences import rules_for, sentence_spans

ANSWER_TOKENS = 256
"""Longest answer; of a small window a quarter of it."""
NOT_THERE = "This is not in the documents."
SENTENCES, CHARACTERS = 6, 300
"""Of a constrained answer: how many sentences, and the longest one, so that a model that does not stop is stopped."""
INSTRUCTION = (
    "Answer the question from the numbered passages alone. End each sentence with the number of the "
    f'passage that says it, in brackets, such as [1]. If no passage answers the question, write: "{NOT_THERE}"'
)
CITED = re.compile(r"(.+?) \[(\d+)\]\.(?: |$)", re.DOTALL)
STEP = re.compile(r"[.!?] [^\s\[\].!?]|[.!?]?.", re.DOTALL)
"""What the grammar of an answer counts as one step of a sentence."""
CITATION = re.compile(r"\[(\d+)\]")
CHAT_MARKER = re.compile(r"<\||\[/?INST\]|<</?SYS>>", re.IGNORECASE)
"""Beginnings of markers that chat templates write as ordinary text."""
CHARACTERS_A_TOKEN = 40
"""More than a token has on average, so that no megabytes are encoded to see that they do not fit."""


@dataclass(frozen=True, kw_only=True)
class CitedSentence(Schema):
    """A sentence that a model wrote, and the passage that it rests on.

    text: without its citation; of one that was not finished with " …" at its end
    passage: the number of the passage that supports it; None = none does, and the answer is without the sentence
    cited: the passage that the model cited; None = it does not cite
    support: of the passage, or the highest of all that were read (`retrieval/support.py`)
    place: of that passage: the file, and its line or page there
    """

    text: str
    passage: int | None
    place: str = ""
    cited: int | None = None
    support: float


@dataclass(frozen=True)
class WrittenAnswer:
    """What a model wrote.

    sentences: all of them, supported or not, in order; none = it wrote that the documents have no answer
    read: the passages that were read, by their numbers
    notes: what a reader of the answer should know
    """

    sentences: list[CitedSentence]
    read: list[int]
    notes: list[str] = field(default_factory=list)

    @property
    def supported(self) -> list[CitedSentence]:
        return [sentence for sentence in self.sentences if sentence.passage is not None]

    @property
    def text(self) -> str:
        """The supported sentences, each with the number of its passage, counted from 1."""
        parts = []
        for sentence in self.supported:
            body = sentence.text.rstrip(".!?")
            parts.append(f"{body} [{(sentence.passage or 0) + 1}]{sentence.text[len(body) :]}")
        return " ".join(parts)


class Prompt(NamedTuple):
    """What a model reads.

    rows: token ids, of an encoder-decoder a row for each passage
    texts: the passages that are read, the first of those of the search
    cut: those of which only the beginning fits
    """

    rows: list[list[int]]
    texts: list[str]
    cut: list[int]


class GenerativeReader:
    """Writes answers from passages, with a decoder or an encoder-decoder.

        reader = GenerativeReader(load("some/instruct-model"))
        reader.answer("how long?", retriever.search("how long?").matches).text

    Args:
        model: a language model, or an encoder-decoder of texts
        check: which passage supports a sentence; None = word overlap
        threshold: least score of a passage that supports a sentence
        answer_tokens: longest answer; None = 256, and at most a quarter of the model's window
        language: of the passages, by whose rules sentences end
    Raises: UnsupportedError: the model does not write text. MissingExtraError: the package for constrained decoding is
        not installed.
    """

    def __init__(
        self,
        model: Model,
        *,
        check: SupportCheck | None = None,
        threshold: float = THRESHOLD,
        answer_tokens: int | None = None,
        language: str = "en",
    ) -> None:
        if not model.writes or model.family.modality is not None:
            raise UnsupportedError(
                "a generative reader is a language model or an encoder-decoder of texts; this "
                f"{model.family.model_type!r} model is for {model.task}"
            )
        if not model.is_encoder_decoder:
            regex(answer_pattern(1))  # where the package for it is missing, before a question is asked
        self.model, self.threshold, self.language = model, threshold, language
        self.check: SupportCheck = WordOverlap(language) if check is None else check
        room = ANSWER_TOKENS if self.window is None else max(1, self.window // 4)
        self.answer_tokens = answer_tokens or min(ANSWER_TOKENS, room)

    @property
    def window(self) -> int | None:
        """How many tokens the model reads: of a decoder with the answer; None = any number."""
        limits = (self.model.network.max_tokens, self.model.tokenizer.model_max_length)
        known = [limit for limit in (*limits, generation_defaults(self.model).context) if limit is not None]
        return min(known, default=None)

    # ------------------------------------------------------------------------------------------------------- prompts

    def prompt(self, question: str, passages: Sequence[PassageMatch]) -> Prompt:
        """What the model reads: the first passages, as many as fit its window; of an encoder-decoder all of them.

        A passage that is longer than the window by itself is cut, where it would be the only one of a prompt.
        Raises: DataError: no passage, or a question that leaves no room for one.
        """
        check_asked("question", question)
        if not passages:
            raise DataError("there is no passage to answer from")
        question = self.harmless(question)
        texts = [self.harmless(above(passage)) for passage in passages]
        return self._fused(question, texts) if self.model.is_encoder_decoder else self._numbered(question, texts)

    def _numbered(self, question: str, texts: list[str]) -> Prompt:
        """One prompt of numbered passages."""

        def ids(listed: Sequence[str]) -> list[int]:
            numbered = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(listed, 1))
            asked = f"{INSTRUCTION}\n\n{numbered}\n\nQuestion: {question}"
            return self._ids(asked if self._has_template else f"{asked}\nAnswer:", chat=self._has_template)

        room = None if self.window is None else self.window - self.answer_tokens
        lengths = accumulate(len(self.model.tokenizer.encode(text, add_special_tokens=False)) for text in texts)
        count = sum(room is None or length <= room for length in lengths)  # no more of them can fit
        while count and room is not None and len(ids(texts[:count])) > room:
            count -= 1
        if count:
            return Prompt([ids(texts[:count])], texts[:count], [])
        first = self._cut(texts[0], lambda text: ids([text]), room or 0)
        return Prompt([ids([first])], [first], [0])

    def _fused(self, question: str, texts: list[str]) -> Prompt:
        """A row for each passage."""

        def ids(text: str) -> list[int]:
            return self._ids(f"question: {question} context: {text}", chat=False)

        cut = []
        for number, text in enumerate(texts):
            if self.window is not None and len(ids(text)) > self.window:
                texts[number] = self._cut(text, ids, self.window)
                cut.append(number)
        return Prompt([ids(text) for text in texts], texts, cut)

    def _cut(self, text: str, ids: Callable[[str], list[int]], room: int) -> str:
        """The longest beginning of a text with which a prompt fits, up to the end of a word.

        Raises: DataError: there is no room for a word of it.
        """
        text = text[: CHARACTERS_A_TOKEN * room]
        size = bisect_right(range(1, len(text) + 1), room, key=lambda size: len(ids(text[:size])))
        begun = text[:size]
        if size < len(text) and not text[size].isspace() and (words := begun.split()) and len(words) > 1:
            begun = begun[: -len(words[-1])]
        if not begun.strip():
            part = "" if self.model.is_encoder_decoder else f", {self.answer_tokens} of them for the answer"
            raise DataError(
                f"the question leaves no room for a passage: with the instructions it has {len(ids(''))} tokens, and "
                f"the model reads {self.window}{part}; shorten it"
            )
        return begun.rstrip()

    @property
    def _has_template(self) -> bool:
        return self.model.tokenizer.chat_template is not None

    def _ids(self, text: str, *, chat: bool) -> list[int]:
        """The token ids of a prompt.

        Raises: DataError: a text in it would be a special token.
        """
        ids = self._encoded(text, chat)
        if self._special(ids) != self._special(self._encoded("x", chat)):
            raise DataError(
                "the question or a passage holds a text that this model's tokenizer makes a special token of, in a "
                "form that was not recognised; take the passage out of the documents, or choose another reader"
            )
        return ids

    def _encoded(self, text: str, chat: bool) -> list[int]:
        tokenizer = self.model.tokenizer
        if not chat:
            return list(tokenizer(text)["input_ids"])
        prompt = tokenizer.chat_prompt([{"role": "user", "content": text}], enable_thinking=False)
        return list(tokenizer(prompt, add_special_tokens=False)["input_ids"])

    def _special(self, ids: Sequence[int]) -> list[int]:
        tokenizer = self.model.tokenizer
        return [number for number in ids if number in tokenizer.special_ids and number != tokenizer.unk_token_id]

    def harmless(self, text: str) -> str:
        """A text in which no marker is one: special tokens are broken by a space, and [3] is written (3)."""
        text = CITATION.sub(r"(\1)", text)
        for marker in self._markers:
            text = marker.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
        return text

    @cached_property
    def _markers(self) -> list[re.Pattern[str]]:
        """Special tokens, other added tokens that look like some, and beginnings of markers that are usual in chats."""
        added = self.model.tokenizer.engine.get_added_tokens_decoder().values()
        contents = {
            token.content.strip() for token in added
            if token.special or (len(token.content) > 1 and not (token.content[0] + token.content[-1]).isalnum())
        }  # fmt: skip
        listed = sorted(filter(None, contents), key=len, reverse=True)
        return [re.compile("|".join(map(re.escape, listed)), re.IGNORECASE), CHAT_MARKER] if listed else [CHAT_MARKER]

    # ------------------------------------------------------------------------------------------------------- answers

    def answer(self, question: str, passages: Sequence[PassageMatch], timer: StageTimer | None = None) -> WrittenAnswer:
        """Write an answer to a question from passages, and check on which of them each sentence rests.

        Args:
            passages: the best first, as a search gives them
            timer: records the stages
        Raises: as `prompt`.
        """
        timer = timer or StageTimer()
        prompt = timer("prompt", lambda: self.prompt(question, passages), lambda made: len(made.texts))
        written, ended = timer("write", lambda: self._write(prompt), lambda made: len(made[0]))
        notes = []
        if prompt.cut:
            notes.append(f"passages that were cut to the model's window: {', '.join(str(i + 1) for i in prompt.cut)}")
        if len(prompt.texts) < len(passages):
            notes.append(
                f"{len(prompt.texts)} of {len(passages)} passages fit the model's window of {self.window} tokens"
            )
        sentences = timer("check", lambda: self.checked(question, prompt, self.sentences(written, ended)))
        if not ended:
            is_shown = any(sentence.text.endswith("…") for sentence in sentences)
            left_out = "" if is_shown else "; an unfinished sentence is left out"
            limit = f"the answer was cut after {counted(len(written), 'token')}{left_out}"
            notes.append(f"{limit}: answer_tokens= N lets it be longer")
        if left := sum(sentence.passage is None for sentence in sentences):
            notes.append(f"{counted(left, 'sentence')} that no passage supports: left out")
        return WrittenAnswer(sentences, list(range(len(prompt.texts))), notes)

    def _write(self, prompt: Prompt) -> tuple[list[int], bool]:
        """The ids of an answer, and whether it ended by itself."""
        options: dict[str, Any] = {"max_new_tokens": self.answer_tokens, "min_new_tokens": 0}
        options |= {"do_sample": False, "num_beams": 1}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*ended before their end token")  # a note says so
            if self.model.is_encoder_decoder:
                generated = generate_fused(self.model, prompt.rows, **options)
            else:
                ids = torch.tensor(prompt.rows, device=self.model.device)
                pattern = answer_pattern(len(prompt.texts), self._characters)
                options |= {"regex": pattern, "return_scores": True}
                generated = generate(self.model, ids, None, options)
        return generated.new_ids[0].tolist(), generated.reasons[0] == "end_token"

    @property
    def _characters(self) -> int:
        """Steps of the longest sentence that the grammar allows; a small window has room for a whole one too."""
        return min(CHARACTERS, self.answer_tokens)

    def sentences(self, written: Sequence[int], ended: bool) -> list[tuple[str, int | None]]:
        """The sentences of an answer, and the number of the passage that each cites.

        One that was not finished ends with " …", and is left out where others are there, or where it cites nothing yet.
        """
        text = self.model.tokenizer.target.decode(list(written), skip_special_tokens=True).strip()
        if text.casefold().rstrip(".!") == NOT_THERE.casefold().rstrip("."):
            return []
        if not self.model.is_encoder_decoder:
            listed = [(body.strip(), int(number) - 1) for body, number in CITED.findall(text)]
            return [(f"{body} …" if self._is_cut(body) else f"{body}.", number) for body, number in listed]
        spans = sentence_spans(text, rules_for(self.language))
        texts = list(filter(None, (text[begin:end].strip() for begin, end in spans)))
        if not ended and texts:
            texts = texts[:-1] or [f"{texts[0].rstrip('.!?')} …"]
        return [(text, None) for text in texts]

    def _is_cut(self, body: str) -> bool:
        """Whether a sentence is as long as the grammar allows, which ended it then, and not the model."""
        return len(STEP.findall(body[1:])) >= self._characters

    def checked(
        self, question: str, prompt: Prompt, sentences: Sequence[tuple[str, int | None]]
    ) -> list[CitedSentence]:
        """Each sentence with the passage that it rests on: the cited one if it supports it, or the best that does."""
        listed = []
        for text, cited in sentences:
            scores = self.check(question, text, prompt.texts)
            best = max(range(len(scores)), key=scores.__getitem__)
            if cited is not None and scores[cited] >= self.threshold:
                best = cited
            passage = best if scores[best] >= self.threshold else None
            listed.append(CitedSentence(text=text, passage=passage, cited=cited, support=round(scores[best], 4)))
        return listed


def answer_pattern(passages: int, characters: int = CHARACTERS) -> str:
    """The regular expression of a constrained answer: sentences that end with the number of a passage, or `NOT_THERE`.

    A full stop within a sentence is one of a number or an abbreviation: no capital letter follows it.
    Args:
        characters: of the longest sentence
    """
    body = rf"[^\s\[\].!?](?:[^\[\]\n.!?]|[.!?][^\s\[\].!?]|[.!?] [\p{{Ll}}\p{{N}}]){{0,{characters}}}"
    sentence = rf"{body} \[(?:{'|'.join(map(str, range(1, passages + 1)))})\]\."
    return rf"{sentence}(?: {sentence}){{0,{SENTENCES - 1}}}|{NOT_THERE.replace('.', chr(92) + '.')}"


def above(passage: PassageMatch) -> str:
    """A passage with the title of its document and the headings above it, which often name what the text calls "it"."""
    title = [passage.title] if passage.title and passage.title not in passage.headings else []
    return with_headings([*title, *passage.headings], passage.text)


def fused_memory(model: Model, sources: Sequence[Sequence[int]]) -> Tensor:
    """The encoder's states of each source, one after another, without padding. [1, sum of tokens, width]

    Args:
        sources: token ids of a question with a passage, each
    """
    encode = encoder_of(model.network, model.family.model_type)
    states: dict[int, Tensor] = {}
    with eval_mode(model.network), torch.inference_mode():
        for group in plan_batches([len(source) for source in sources], TOKENS):
            rows = [torch.tensor(list(sources[number]), device=model.device) for number in group]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            keep = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
            output = not_none(encode(ids, keep).last_hidden_state)
            states.update((number, own[: len(row)]) for number, own, row in zip(group, output, rows, strict=True))
    return torch.cat([states[number] for number in range(len(sources))])[None]


def generate_fused(model: Model, sources: Sequence[Sequence[int]], **options: Any) -> Generated:
    """Write one answer from several sources; options as of `Model.generate`."""
    memory = {"encoder_outputs": (fused_memory(model, sources),)}
    generated: Generated = generate(model, None, None, {**options, **memory, "return_scores": True})
    return generated

"""Draws follow their probabilities, rows do not meet, and nothing goes wrong without a word."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

import glassformer
from glassformer import ConfigError, Model, WeightsError, hf
from glassformer.generation.decoding import Decoding, Interrupted, Multinomial, StoppingCriteria, greedy, multinomial
from glassformer.generation.rows import Rows
from glassformer.models import FAMILIES

IDS = torch.tensor([[5, 17, 3], [8, 8, 40]])


@pytest.fixture
def model() -> Model:
    torch.manual_seed(4)
    model = Model.from_config(FAMILIES["gpt2"].tiny, task="text-generation").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def decoding(model: Model, **options: Any) -> Decoding:
    rows = Rows(model.network, IDS)
    return Decoding(rows, **{"max_new_tokens": 8, "stop": StoppingCriteria(2), **options})


# -------------------------------------------------------------------------------------------------------------- draws


def chi_squared(counts: Tensor, probs: Tensor) -> float:
    expected = probs * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("seed", range(4))
def test_frequencies_are_probabilities(seed: int) -> None:
    """Chi-squared with 5 degrees of freedom is above 20.5 once in a thousand times; the seeds are fixed."""
    probs = torch.tensor([0.4, 0.3, 0.0, 0.15, 0.1, 0.04, 0.01])
    draw = Multinomial(4_000, seed)
    sampled = torch.cat([draw(probs.log().expand(4_000, -1)) for _ in range(5)])
    counts = sampled.bincount(minlength=7)
    assert counts[2] == 0, "what cannot be is never drawn"
    some = probs > 0
    assert chi_squared(counts[some], probs[some]) < 20.5
    assert chi_squared(counts[some], torch.full((6,), 1 / 6)) > 1_000  # the test can tell


def test_without_a_seed_torch_draws() -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    stopped = logits.clone()
    stopped[1] = torch.nan  # a row that has stopped has what is left
    torch.manual_seed(1)
    drawn = multinomial(logits)
    torch.manual_seed(1)
    assert multinomial(stopped)[[0, 2]].equal(drawn[[0, 2]])
    torch.manual_seed(1)
    assert torch.multinomial(logits.softmax(-1), 1)[:, 0].equal(drawn)


def test_a_row_draws_for_itself() -> None:
    logits = torch.randn(5, 50, generator=torch.Generator().manual_seed(0))
    first, second = Multinomial(5, 3), Multinomial(2, 3)
    for _ in range(10):
        assert first(logits)[:2].equal(second(logits[:2]))
    same = torch.zeros(5, 10_000)
    assert len(Multinomial(5, 3)(same).unique()) == 5  # rows of one prompt go ways of their own
    assert not Multinomial(5, 3)(same).equal(Multinomial(5, 4)(same))


def test_a_sure_thing_is_drawn() -> None:
    logits = torch.full((3, 9), -torch.inf)
    logits[:, 8] = 0.0
    draw = Multinomial(3, 0)
    assert all(draw(logits).tolist() == [8, 8, 8] for _ in range(100))


def test_sampled_rows_of_a_model_follow_its_probabilities(model: Model) -> None:
    result = model.generate(IDS[:1], do_sample=True, top_k=5, seed=1, max_new_tokens=1, num_return_sequences=4_000)
    logits = model(IDS[:1]).logits[0, -1].detach()
    best = logits.topk(5)
    counts = torch.tensor([(result[:, -1] == token).sum() for token in best.indices])
    assert counts.sum() == 4_000, "none but the five likeliest"
    assert chi_squared(counts, best.values.softmax(-1)) < 18.5  # 4 degrees of freedom


def test_cold_draws_are_greedy(model: Model) -> None:
    greedy = model.generate(IDS, max_new_tokens=9)
    assert model.generate(IDS, do_sample=True, temperature=1e-5, max_new_tokens=9).equal(greedy)
    assert model.generate(IDS, do_sample=True, top_k=1, max_new_tokens=9).equal(greedy)
    assert not model.generate(IDS, do_sample=True, seed=0, max_new_tokens=9).equal(greedy)


def test_seeds(model: Model) -> None:
    one, again, other = (model.generate(IDS, do_sample=True, seed=seed, max_new_tokens=20) for seed in (1, 1, 2))
    assert one.equal(again) and not one.equal(other)
    message = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        message.append(model.generate(IDS, do_sample=True, max_new_tokens=20))
    assert message[0].equal(message[1]) and not message[0].equal(message[2])


def test_several_draws_of_a_prompt_are_neighbours(model: Model) -> None:
    result = model.generate(IDS, do_sample=True, seed=1, num_return_sequences=3, max_new_tokens=12)
    assert result[:, :3].equal(IDS.repeat_interleave(3, dim=0))
    assert len(result.unique(dim=0)) == 6


# -------------------------------------------------------------------------------------------------------------- steps


def test_steps_are_what_a_run_gathers(model: Model) -> None:
    steps = list(decoding(model, scores=True, top=3))
    result = decoding(model, scores=True, top=3).run()
    assert result.new_ids.equal(torch.stack([step.tokens for step in steps], dim=1))
    assert result.logprobs is not None and result.logprobs.shape == (2, 8)
    assert result.top_ids is not None and result.top_ids.shape == (2, 8, 3)
    assert result.top_ids[..., 0].equal(result.new_ids)  # greedy: always the likeliest
    assert result.logprobs.equal(result.filtered_logprobs)  # no filter
    assert result.scores is not None and torch.allclose(result.scores, result.logprobs.sum(-1))


def test_nothing_is_scored_unasked(model: Model) -> None:
    result = decoding(model).run()
    assert (result.scores, result.logprobs, result.top_ids, result.texts) == (None,) * 4
    assert result.reasons == ["max_new_tokens"] * 2 and "2 rows" in repr(result)


def test_no_step_scores_nothing(model: Model) -> None:
    result = model.generate(IDS, max_new_tokens=0, return_scores=True)
    assert result.ids.equal(IDS) and result.scores.tolist() == [0, 0] and result.logprobs is None


def test_a_row_that_has_ended_scores_nothing(model: Model) -> None:
    free = decoding(model).run()
    stop = int(free.new_ids[0, 2])
    result = decoding(model, stop=StoppingCriteria(2, ids=(stop,)), pad_id=98, scores=True).run()
    assert result.active is not None and result.logprobs is not None
    length = int(result.active[0].sum())
    assert (result.new_ids[0, length:] == 98).all() and int(result.new_ids[0, length - 1]) == stop
    assert (result.logprobs[0, length:] == 0).all() and (result.logprobs[0, :length] < 0).all()


def test_a_stream_of_ids_is_the_same(model: Model) -> None:
    streamed = torch.stack(list(model.stream(IDS, max_new_tokens=7)), dim=1)
    assert torch.cat([IDS, streamed], dim=1).equal(model.generate(IDS, max_new_tokens=7))


def test_a_stream_runs_no_further_than_it_is_read(model: Model) -> None:
    reads = []
    model.network.register_forward_hook(lambda *_: reads.append(1))
    stream = model.stream(IDS, max_new_tokens=7)
    next(stream), next(stream)
    assert len(reads) == 2


# ------------------------------------------------------------------------------------------------------- what may come


def interrupting(after: int) -> Any:
    """A choice during which Ctrl-C is pressed."""
    calls = []

    def choose(logits: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return greedy(logits)

    return choose


@pytest.mark.parametrize("after", [0, 3])
def test_ctrl_c_keeps_what_was_said(model: Model, after: int) -> None:
    free = decoding(model).run()
    with pytest.raises(Interrupted, match=r"\.partial") as stopped:
        decoding(model, choose=interrupting(after), scores=True).run()
    partial = stopped.value.partial
    assert isinstance(stopped.value, KeyboardInterrupt)
    assert partial.ids.equal(free.ids[:, : 3 + after])
    assert partial.reasons == ["interrupted"] * 2


def test_weights_that_are_nan(model: Model) -> None:
    with torch.no_grad():
        next(model.parameters())[7] = math.nan
    with pytest.raises(WeightsError, match=r"token 3 are NaN or infinite, because 1 tensors .*damaged"):
        model.generate(IDS)


def test_numbers_that_grew_too_large(model: Model) -> None:
    model.network.register_forward_hook(lambda _, __, output: replace(output, logits=output.logits + math.inf))
    with pytest.raises(WeightsError, match=r"though the weights hold none.*float32"):
        model.generate(IDS, do_sample=True)


def test_all_is_banned(model: Model) -> None:
    with pytest.raises(ConfigError, match=r"no token is allowed as token 3 of a row.*relax"):
        model.generate(IDS, bad_words_ids=[[token] for token in range(99)])
    with pytest.raises(ConfigError, match="no token is allowed"):
        model.generate(IDS, no_repeat_ngram_size=1, bad_words_ids=[[1], *([t] for t in range(9, 99))])


# Each row ends for a reason of its own.


@pytest.fixture(scope="module")
def stories(shared: Path) -> Model:
    return glassformer.load(shared / "models" / "stories260k")


def test_end_tokens() -> None:
    stop = StoppingCriteria(3, ids=(4, 5))
    assert stop(torch.tensor([1, 4, 2])) and stop.running.tolist() == [True, False, True]
    assert stop(torch.tensor([5, 1, 2])) and stop.running.tolist() == [False, False, True]
    assert stop.reasons() == ["end_token", "end_token", "max_new_tokens"]
    assert stop.reasons("interrupted")[2] == "interrupted"
    assert not stop(torch.tensor([0, 0, 4]))


def test_without_a_rule_all_go_on() -> None:
    stop = StoppingCriteria(2)
    assert stop(torch.tensor([0, 1])) and stop.running.all()


def test_time() -> None:
    assert StoppingCriteria(1, seconds=60)(torch.tensor([1]))
    over = StoppingCriteria(2, ids=(1,), seconds=1e-9)
    assert not over(torch.tensor([1, 2]))
    assert over.reasons() == ["end_token", "max_time"]


@pytest.mark.parametrize("string", ["girl", " gi", "little girl", "e g", "y."])
def test_a_string_ends_its_row_with_the_token_that_completes_it(stories: Model, string: str) -> None:
    free = stories.generate("Once upon a time", max_new_tokens=40)
    result = stories.generate("Once upon a time", max_new_tokens=40, stop_strings=string, return_scores=True)
    (text,) = result.texts
    assert string in free and free.startswith(text) and text.count(string) == 1
    assert string not in stories.tokenizer.decode(result.new_ids[0, :-1])
    assert result.reasons == ["stop_string"]


def test_a_row_that_ends_leaves_the_others(stories: Model) -> None:
    prompts = ["Once upon a time", "The dog was"]
    free = stories.generate(prompts, max_new_tokens=30)
    first = free[0].split()[-1]
    result = stories.generate(prompts, max_new_tokens=30, stop_strings=[first, "never said"], return_scores=True)
    assert first in result.texts[0]
    assert result.reasons[0] == "stop_string"
    if first not in free[1]:
        assert (result.texts[1], result.reasons[1]) == (free[1], "max_new_tokens")


def test_time_is_up_for_a_model(stories: Model) -> None:
    result = stories.generate("Once upon a time", max_new_tokens=400, max_time=1e-6, return_scores=True)
    assert result.reasons == ["max_time"] and result.new_ids.shape[1] == 1


# ---------------------------------------------------------------- stop strings that are, or hold, special tokens

PROMPT, END = "hi", "<|im_end|>"
METHODS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "sampling": {"do_sample": True, "seed": 1},
}


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GPT-2 over single bytes and two special tokens, one of which ends a turn and is not its end token."""
    turns = tmp_path_factory.mktemp("turns")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    engine = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.add_special_tokens(["<|endoftext|>", END])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=engine, eos_token="<|endoftext|>")
    tokenizer.save_pretrained(turns)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64, "eos_token_id": tokenizer.eos_token_id}
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=len(tokenizer), **sizes)
    transformers.GPT2LMHeadModel(config).save_pretrained(turns)
    return turns


@pytest.fixture(scope="module")
def marked(turns: Path) -> Model:
    return glassformer.load(turns)


@pytest.fixture
def scripted(marked: Model) -> Callable[[Tensor, Tensor], Tensor]:
    """A logits processor with which every row continues its prompt with this text."""
    script = marked.tokenizer("ab<|im_end|>cdefg").input_ids
    prompt = len(marked.tokenizer(PROMPT).input_ids)

    def say(ids: Tensor, scores: Tensor) -> Tensor:
        # The others are so far behind that no beam or draw takes them.
        scores = torch.full_like(scores, -1e4)
        scores[:, script[min(ids.shape[1] - prompt, len(script) - 1)]] = 0
        return scores

    return say


@pytest.mark.parametrize("stop", [END, "b<|im_end|>", "|im_end|>", "never", "cd"])
@pytest.mark.parametrize("method", METHODS)
def test_special_tokens_count_in_stop_strings(
    marked: Model, turns: Path, scripted: Any, method: str, stop: str
) -> None:
    given: dict[str, Any] = {"max_new_tokens": 6, "stop_strings": [stop]}
    ours = marked.generate(PROMPT, **given, **METHODS[method], logits_processor=[scripted], return_scores=True)
    options = {name: value for name, value in METHODS[method].items() if name != "seed"}
    reference = transformers.AutoModelForCausalLM.from_pretrained(turns)
    tokenizer = transformers.AutoTokenizer.from_pretrained(turns)
    theirs = reference.generate(
        torch.tensor([tokenizer(PROMPT)["input_ids"]]),
        tokenizer=tokenizer,
        pad_token_id=0,
        logits_processor=transformers.LogitsProcessorList([scripted]),
        **({"do_sample": False} | given | options),
    )
    assert marked.tokenizer.decode(ours.new_ids[0]) == tokenizer.decode(theirs[0])[len(PROMPT) :]
    assert ours.reasons == (["max_new_tokens"] if stop == "never" else ["stop_string"])
    assert ours.texts == [{END: "ab", "b<|im_end|>": "ab", "|im_end|>": "ab", "never": "abcde", "cd": "abcd"}[stop]]


def test_batches_streams_and_the_names_of_hugging_face(marked: Model, turns: Path, scripted: Any) -> None:
    options: dict[str, Any] = {"max_new_tokens": 6, "stop_strings": [END], "logits_processor": [scripted]}
    assert marked.generate([PROMPT, PROMPT], **options) == ["ab", "ab"]
    assert "".join(marked.stream(PROMPT, **options)) == "ab"
    named = hf.AutoModelForCausalLM.from_pretrained(turns)
    tokenizer = hf.AutoTokenizer.from_pretrained(turns)
    ids = named.generate(**tokenizer(PROMPT, return_tensors="pt"), tokenizer=tokenizer, **options)
    assert tokenizer.decode(ids[0]) == "hiab<|im_end|>"


def test_rows_stop_by_themselves(marked: Model) -> None:
    """One row says the marker at once, the other never does."""
    marker, letter = marked.tokenizer(END).input_ids[0], marked.tokenizer("x").input_ids[0]

    def say(ids: Tensor, scores: Tensor) -> Tensor:
        scores = torch.full_like(scores, -1e4)
        scores[0, marker] = scores[1, letter] = 0
        return scores

    given = {"max_new_tokens": 3, "stop_strings": END, "logits_processor": [say]}
    result = marked.generate(["hi", "ho"], **given, return_scores=True)
    assert result.texts == ["", "xxx"]
    assert result.reasons == ["stop_string", "max_new_tokens"]

"""The logit lens: its last row is the model's output bit for bit, in every family and with every head of logits."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import glassformer
from glassformer.core.flow import Batch, Flow
from glassformer.errors import DataError, UnsupportedError, WeightsError
from glassformer.inspect import Session, SessionInput, lens
from glassformer.inspect.outputs import LOGITS, OutputNames, OutputTable, output_table
from glassformer.models import FAMILIES
from glassformer.models.bart.network import Bart
from tests.inspect.passes import network_of, reading_of, tokens_for
from tests.senses import network_of as blank

SHAKESPEARE = "package:glassformer/checkpoints/shakespeare"


def heads_of_logits() -> list[tuple[str, str]]:
    """Every architecture whose head gives logits of one stream, once for each kind of network."""
    found = []
    for family, record in FAMILIES.items():
        for task in record.tasks:
            config = {**record.tiny, **record.requires.get(task, {})}
            network = blank(config, task)
            fields = () if network.head is None else network.head.FIELDS
            if network.unreadable or {"visual_feats"} & set(network.READS):
                continue
            if any(name in fields for name in LOGITS):
                found.append((family, task))
    return found


HEADS = heads_of_logits()
FIRST = [
    next(pair for pair in HEADS if name in pair) for name in dict.fromkeys(name for pair in HEADS for name in pair)
]
heads = pytest.mark.parametrize(  # `make test` takes the first of each family and of each task
    ("family", "task"), [pytest.param(*pair, marks=() if pair in FIRST else pytest.mark.soak) for pair in HEADS]
)


def session_of(family: str, task: str) -> Session:
    network, reading = network_of(family, task=task), reading_of(family, task=task)
    if isinstance(network, Bart) and network.repeats_source:  # a classifier reads the source again, and its end token
        ids = torch.cat([torch.randint(3, 99, (1, 8)), torch.full((1, 1), network.spec.end_id)], dim=1)
        batch = network.completed(Batch(input_ids=ids))
        reading = SessionInput(reading.texts, batch, {"source": tokens_for(9), "target": tokens_for(9)})
    return Session(network, reading)


@heads
def test_the_last_row_is_the_output_of_the_model(family: str, task: str) -> None:
    session = session_of(family, task)
    found = session.lens(top=3)
    with torch.inference_mode():
        output = session.network(session.batch, Flow())
    logits, about = output_table(session.network, output, session.streams, OutputNames())
    values, ids = logits[0].topk(min(3, logits.shape[-1]), dim=-1)
    assert torch.equal(found.logits[-1], values)
    assert torch.equal(found.ids[-1], ids)
    assert found.kl[-1].eq(0).all() and (found.ranks[-1] == 1).all()
    columns = len(about.column_names)
    assert found.entropy.shape == found.kl.shape == (len(found.rows), columns)
    assert len(found.rows) == len(session.network.stream_taps()[about.stream])
    if about.normalised:
        wide = torch.log_softmax(logits[0], -1)
        assert torch.allclose(found.logprobs[-1], wide.gather(-1, ids), atol=1e-5)
        assert torch.allclose(found.entropy[-1], -(wide.exp() * wide).sum(-1) / math.log(2), atol=1e-4)


@heads
def test_rows_that_are_read_together_are_those_that_are_read_one_by_one(family: str, task: str) -> None:
    session = session_of(family, task)
    found = session.lens(top=3)
    stream = found.stream
    for row in range(len(found.rows) - 1):
        with torch.inference_mode():
            output = session.network.read_stream(session.states(row, stream)[None], session.batch, Flow())
        logits, _ = output_table(session.network, output, session.streams, OutputNames())
        assert torch.allclose(found.logits[row], logits[0].topk(min(3, logits.shape[-1]), dim=-1).values, atol=1e-5)


def test_a_short_text_takes_two_products_with_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(network_of("gpt2", task="text-generation"), reading_of("gpt2"))
    read, shapes = type(session.network).read_stream, []

    def noted(network: object, x: torch.Tensor, *rest: object) -> object:
        shapes.append(x.shape[:2])
        return read(network, x, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(type(session.network), "read_stream", noted)
    found = session.lens()
    layers, columns = found.entropy.shape
    assert shapes == [(1, columns), (layers - 1, columns)]


def test_a_row_is_the_head_on_the_stream_after_that_layer() -> None:
    session = Session(network_of("gpt2", task="text-generation"), reading_of("gpt2"))
    network = session.network
    found = session.lens(top=4, target=7)
    for row in range(len(found.rows)):
        with torch.inference_mode():
            logits = network.head.decoder(network.final_norm(session.states(row)))  # type: ignore[union-attr,operator]
        logprobs, last = logits.log_softmax(-1), found.logits.new_tensor(0)
        assert torch.allclose(found.logprobs[row], logprobs.topk(4, -1).values, atol=1e-5)
        assert torch.equal(found.ranks[row], 1 + (logits > logits[:, [7]]).sum(-1))
        assert torch.allclose(found.target_logprobs[row], logprobs[:, 7], atol=1e-5)
        with torch.inference_mode():
            last = network.read_stream(session.states(len(found.rows) - 1)[None], session.batch, Flow()).logits[0]
        expected = torch.nn.functional.kl_div(logprobs, last.log_softmax(-1), log_target=True, reduction="none").sum(-1)
        assert torch.allclose(found.kl[row], expected / math.log(2), atol=1e-4)


def test_a_part_of_the_columns_at_a_time_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(network_of("llama", task="text-generation"), reading_of("llama", 9))
    whole = session.lens()
    monkeypatch.setattr(lens, "LOGITS_AT_ONCE", 4 * session.network.vocabulary)
    seen: list[tuple[int, int]] = []
    parts = session.lens(progress=lambda done, of: seen.append((done, of)))
    assert torch.equal(parts.ids, whole.ids) and torch.allclose(parts.kl, whole.kl, atol=1e-5)
    assert torch.equal(parts.targets, whole.targets) and parts.entropy.shape == whole.entropy.shape
    assert seen[-1] == (12, 12) and len(seen) == 12  # 3 parts of 9 columns, 4 rows


def test_the_lens_of_a_real_decoder() -> None:
    model = glassformer.load(SHAKESPEARE)
    session = model.inspect("ROMEO: O, she doth teach the torches")
    found = session.lens(top=5)
    output = model(**model.tokenizer("ROMEO: O, she doth teach the torches", return_tensors="pt")).logits[0]
    assert torch.equal(found.logits[-1], output.topk(5, -1).values)
    assert found.top(0, -1)[0][0] == "s"  # the embedding alone says its own token again
    assert found.kl[0, -1] > found.kl[2, -1] > found.kl[3, -1] > 0
    assert 0 < found.settled(len(session.streams["text"]) - 1) <= 4
    told = session.lens(target=" of")
    assert told.about.name(int(told.targets[0])) == "of" and told.ranks[-1, -1] == 1
    data = found.to_dict()
    assert len(data["rows"]) == 5 and len(data["cells"][0]) == len(data["columns"]) == 15
    cell = data["cells"][1][-1]
    assert 0 < cell["entropy_bits"] < math.log2(found.choices) and cell["kl_bits"] == float(found.kl[1, -1])


def test_an_answer_near_an_equal_share_is_said_to_be_hardly_better_than_chance() -> None:
    labels = OutputTable(kind="labels", columns="text", stream="text", tokens=(), names=OutputNames())
    assert labels.doubt(0.4, 3) == (
        "That is hardly better than chance: the likeliest label has 40%, and an equal share of 3 labels is 33%."
    )
    assert labels.doubt(0.41, 3) == labels.doubt(1.0, 1) == ""
    for other in ({"normalised": False}, {"regression": True}, {"columns": "tokens"}):
        assert replace(labels, **other).doubt(0.34, 3) == ""


def test_lens_and_attribution_of_a_classifier_near_chance_say_so() -> None:
    network = network_of("bert", task="text-classification")
    with torch.no_grad():  # its two labels are equally likely
        for weight in network.head.parameters():
            weight.zero_()
    session = Session(network, reading_of("bert", task="text-classification"))
    found, made = session.lens(), session.attribute(steps=1, baseline="zero")
    assert found.doubt == made.target.doubt and "has 50%, and an equal share of 2 labels is 50%" in found.doubt
    assert found.heading.endswith(found.doubt) and made.heading.endswith(found.doubt)


def test_what_has_no_lens_says_why(minilm: object) -> None:
    with pytest.raises(UnsupportedError, match="no logits"):
        glassformer.load(minilm).inspect("time flies").lens()  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="without a head"):
        Session(network_of("llama", task="feature-extraction"), reading_of("llama")).lens()
    lxmert = Session(network_of("lxmert"), reading_of("lxmert"))
    with pytest.raises(UnsupportedError):
        lxmert.lens()


def test_bad_targets_are_refused() -> None:
    session = glassformer.load(SHAKESPEARE).inspect("ROMEO: O")
    with pytest.raises(DataError, match=r"is \d+ tokens"):
        session.lens(target="unfathomable")
    with pytest.raises(DataError, match="there is no output 100000"):
        session.lens(target=100_000)
    with pytest.raises(DataError, match="characters"):
        session.lens(target="x" * 4_000_000)
    with pytest.raises(DataError, match="top is 0"):
        session.lens(top=0)


def test_nan_weights_are_named() -> None:
    network = network_of("gpt2", task="text-generation")
    with torch.no_grad():
        network.final_norm.weight[3] = torch.nan  # type: ignore[union-attr,index,operator]
    with pytest.raises(WeightsError, match=r"final_norm\.weight"):
        Session(network, reading_of("gpt2")).lens()


@pytest.mark.parametrize("task", ["text-generation", "token-classification", "text-classification"])
def test_some_columns_are_those_of_the_whole(task: str) -> None:
    family = "gpt2" if task == "text-generation" else "bert"
    session = Session(network_of(family, task=task), reading_of(family, 9, task=task))
    whole, part = session.lens(), session.lens(first=3, count=4)
    span = slice(None) if task == "text-classification" else slice(3, 7)  # its one column is of the whole text
    assert part.columns == whole.columns[span] and torch.equal(part.targets, whole.targets[span])
    assert torch.equal(part.ids, whole.ids[:, span]) and torch.equal(part.ranks, whole.ranks[:, span])
    for name in ("logits", "logprobs", "entropy", "kl", "target_logprobs"):
        assert torch.allclose(getattr(part, name), getattr(whole, name)[:, span], atol=1e-5), name
    assert len(part.tables()[0].rows) == len(part.columns if task != "text-classification" else part.ids[0, 0])
    rest = session.lens(first=7)
    assert rest.columns == (whole.columns[7:] if task != "text-classification" else whole.columns)


def test_only_the_columns_that_are_asked_for_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(network_of("gpt2", task="text-generation"), reading_of("gpt2", 9))
    read, shapes = type(session.network).read_stream, []

    def noted(network: object, x: torch.Tensor, *rest: object) -> object:
        shapes.append(x.shape[1])
        return read(network, x, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(type(session.network), "read_stream", noted)
    session.lens(first=3, count=2)
    assert shapes == [2, 2]


@pytest.mark.parametrize(("first", "count"), [(9, None), (-1, 3), (20, 4), (0, 0)])
def test_columns_that_are_not_there_are_refused(first: int, count: int | None) -> None:
    session = Session(network_of("gpt2", task="text-generation"), reading_of("gpt2", 9))
    with pytest.raises(DataError, match=rf"first is {first}.*; the text has 9 tokens, from 0: give a first below 9"):
        session.lens(first=first, count=count)

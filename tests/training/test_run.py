"""A run from its configuration: what is read, what is refused, and that it can be repeated."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import glassformer
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.options import EvaluationRequest
from glassformer.evaluation.request import evaluate_by_options
from glassformer.evaluation.runs import open_run
from glassformer.runs.config import PRESETS, config_yaml, parse_config
from glassformer.runs.data import read_splits
from glassformer.runs.folder import read_config
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.registry import TASKS, task_class
from glassformer.tasks.tag.task import Tag
from glassformer.training.run import make_trainer
from tests.data.set_files import written
from tests.e2e.tiny_models import word_tokenizer

WORDS = "time flies like an arrow fruit a banana".split()
BERT = {
    "model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 16,
}  # fmt: skip
GPT2 = {"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    """A configuration of a small run."""
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(
            [" ".join([WORDS[i % 8], WORDS[i * 3 % 8], "like"]), "time" if i % 2 else "fruit"] for i in range(40)
        )
    (tmp_path / "words").mkdir()
    word_tokenizer().save(str(tmp_path / "words" / "tokenizer.json"))
    return {
        "task": "classify",
        "scratch": dict(BERT),
        "tokenizer": str(tmp_path / "words"),
        "output": str(tmp_path / "run"),
        "data": {"train": str(tmp_path / "rows.csv"), "validation": 0.2},
        "training": {"steps": 3, "batch_size": 8},
    }


def test_it_trains_and_is_repeated(values: dict[str, Any], tmp_path: Path) -> None:
    first = make_trainer(parse_config(values)).train()
    again = read_config(tmp_path / "run" / "config.yaml")
    assert parse_config(again) == parse_config(values), "what is saved is the effective configuration"
    second = make_trainer(parse_config({**again, "output": str(tmp_path / "again")})).train()
    assert first.metrics == second.metrics
    one, two = (glassformer.load(tmp_path / name / "model") for name in ("run", "again"))
    assert one.config["id2label"] == {"0": "fruit", "1": "time"}
    assert all((a == b).all() for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_a_share_held_out_has_each_label(values: dict[str, Any]) -> None:
    trainer = make_trainer(parse_config(values))
    assert trainer.validation_examples is not None
    labels = [int(e["labels"]) for e in (trainer.validation_examples[i] for i in range(8))]
    assert sorted(labels) == [0] * 4 + [1] * 4


def test_a_share_of_scores_is_held_out_by_chance(values: dict[str, Any], tmp_path: Path) -> None:
    rows = "\n".join(f"time flies,{number / 7:.3f}" for number in range(1000))
    (tmp_path / "rows.csv").write_text("text,label\n" + rows)
    trainer = make_trainer(parse_config(values))
    assert trainer.metric == "pearson" and trainer.validation_examples is not None
    assert len(trainer.validation_examples) == 200


def test_a_book_is_parted_within_its_text(values: dict[str, Any], tmp_path: Path) -> None:
    book = "time flies like an arrow\n" * 40
    (tmp_path / "book.txt").write_text(book)
    data = {"folder": str(tmp_path), "train": "book.txt", "validation": 0.25, "held_out": "last"}
    whole = {**data, "format": {"whole": True}}
    train, last = read_splits(parse_config({**values, "data": whole}), task_class("generate"))
    assert last is not None and train[0]["text"] + last[0]["text"] == book.strip()
    assert len(last[0]["text"]) == pytest.approx(len(book) / 4, abs=1) and "book.txt" in last.where(0)
    lines, after = read_splits(parse_config({**values, "data": data}), task_class("generate"))
    assert (len(lines), after and len(after)) == (30, 10)
    with pytest.raises(ConfigError, match="leave a part empty"):
        read_splits(parse_config({**values, "data": {**data, "validation": 0.001}}), task_class("generate"))


def test_a_tokenizer_is_learnt_from_sentences_and_summaries(values: dict[str, Any], tmp_path: Path) -> None:
    lines = '{"source": ["time flies", "like an arrow"], "target": ["fruit flies", "a banana"]}\n' * 8
    (tmp_path / "rows.jsonl").write_text(lines)
    scratch = {
        "model_type": "transformer",
        "architectures": ["TransformerForConditionalGeneration"],
        "d_model": 16,
        "num_heads": 2,
        "d_ff": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "decoder_start_token_id": 2,
    }
    changed = {
        **values,
        "task": "summarise",
        "scratch": scratch,
        "tokenizer": {"size": 270, "family": "bart"},
    }
    changed["data"] = {"train": str(tmp_path / "rows.jsonl")}
    trainer = make_trainer(parse_config(changed))
    assert "fruit" in trainer.model.tokenizer.decode(trainer.train_examples[0]["labels"])
    assert len(trainer.model.tokenizer) == 270
    trainer.train()


def test_a_t5_from_scratch_starts_with_padding(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"source": "time flies", "target": "fruit"}\n' * 8)
    scratch = {"model_type": "t5", "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    changed = {**values, "task": "summarise", "scratch": scratch, "tokenizer": {"size": 264, "family": "t5"}}
    changed["data"] = {"train": str(tmp_path / "rows.jsonl")}
    model = make_trainer(parse_config(changed)).model
    assert model.config["decoder_start_token_id"] == model.tokenizer.pad_token_id is not None
    given = {**changed, "scratch": {**scratch, "decoder_start_token_id": 5}}
    assert make_trainer(parse_config(given)).model.config["decoder_start_token_id"] == 5


def test_words_from_scratch(values: dict[str, Any], tmp_path: Path) -> None:
    changed = {**values, "task": "generate", "scratch": dict(GPT2), "task_options": {"block": 8}}
    changed["data"] = {**values["data"], "ignore": ["label"]}
    result = make_trainer(parse_config(changed)).train()
    assert result.metrics["block_perplexity"] > 1
    assert glassformer.load(tmp_path / "run" / "model").config["model_type"] == "gpt2"


def test_a_published_data_set_is_trained_on_by_its_folder(values: dict[str, Any], tmp_path: Path) -> None:
    for part, count in (("train", 16), ("dev", 4)):
        rows = "".join(f"0\tB{i}\tb\t7\t{i % 2}\ttime {WORDS[i % 8]}\tlike\n" for i in range(count))
        head = "index\tgenre\tyear\tid\tis_duplicate\tquestion1\tquestion2\n"
        written(tmp_path / "QQP" / f"{part}.tsv", head + rows)
    changed = {**values, "data": {"train": str(tmp_path / "QQP"), "validation": str(tmp_path / "QQP")}}
    changed["data"] |= {"format": {"kind": "glue/qqp", "part": "train"}}  # of a folder, validation is the other split
    config = parse_config(changed)
    both = replace(config.data, validation_format={"part": ["train", "dev"]})
    train, validation = read_splits(replace(config, data=both), Classify)
    assert len(train) == 16 and validation is not None and len(validation) == 20
    file = replace(config.data, validation=str(tmp_path / "QQP" / "dev.tsv"))
    assert len(read_splits(replace(config, data=file), Classify)[1] or ()) == 4
    trainer = make_trainer(parse_config(changed))
    assert len(trainer.train_examples) == 16 and trainer.validation_examples is not None
    assert len(trainer.validation_examples) == 4
    trainer.train()
    assert {*glassformer.load(tmp_path / "run" / "model").config["id2label"].values()} == {"duplicate", "not_duplicate"}
    run = open_run(str(tmp_path / "run"))
    assert len(run.read_rows()) == len(run.read_rows(str(tmp_path / "QQP" / "dev.tsv"))) == 4
    with pytest.raises(DataError, match="say which to read: part= validation"):
        run.read_rows(str(tmp_path / "QQP"))


def test_columns_of_a_published_data_set_need_not_be_ignored(values: dict[str, Any], tmp_path: Path) -> None:
    files = [{"path": f"{i}.py", "license": "mit", "content": "time flies like an arrow"} for i in range(8)]
    written(tmp_path / "file-0.json.gz", [*files, {**files[0], "path": "a/__init__.py"}])
    changed = {**values, "task": "generate", "scratch": dict(GPT2), "task_options": {"block": 8}}
    changed["data"] = {"train": str(tmp_path / "file-0.json.gz"), "format": {"kind": "codeparrot", "part": "modules"}}
    make_trainer(parse_config(changed)).train()
    options = EvaluationRequest(data=[changed["data"]["train"]], format=changed["data"]["format"], baselines=False)
    evaluation, _ = evaluate_by_options(str(tmp_path / "run"), options)
    assert evaluation.report.data["rows"] == 8
    options = replace(options, task="generate")
    assert evaluate_by_options(str(tmp_path / "run" / "model"), options)[0].report.data["rows"] == 8


def test_a_head_that_has_the_labels_is_kept(values: dict[str, Any], tmp_path: Path) -> None:
    make_trainer(parse_config(values)).train()
    trained = glassformer.load(tmp_path / "run" / "model")
    same = {
        "num_labels": 2,
        "id2label": {"0": "fruit", "1": "time"},
    }  # as a study names the labels of all its rows
    changed = {**values, "output": str(tmp_path / "on"), "overrides": same}
    changed |= {"model": str(tmp_path / "run" / "model"), "scratch": None, "tokenizer": None}
    head = make_trainer(parse_config(changed)).network.head
    assert all((a == b).all() for a, b in zip(head.parameters(), trained.network.head.parameters(), strict=True))


def test_adapters_are_merged_into_what_is_saved(values: dict[str, Any], tmp_path: Path) -> None:
    make_trainer(parse_config(values)).train()
    changed = {
        **values,
        "output": str(tmp_path / "adapted"),
        "adapter": {"rank": 2, "target_modules": ["q", "v"]},
    }
    changed |= {"model": str(tmp_path / "run" / "model"), "scratch": None, "tokenizer": None}
    trainer = make_trainer(parse_config(changed))
    trained = [name for name, p in trainer.network.named_parameters() if p.requires_grad]
    assert trained and all("adapters" in name for name in trained)
    trainer.train()
    before, after = (glassformer.load(tmp_path / name / "model") for name in ("run", "adapted"))
    changed_names = {
        name for name, x in before.named_parameters() if not (x == dict(after.named_parameters())[name]).all()
    }
    assert changed_names == {"blocks.0.attn.qkv.weight"}

    # A folder of adapters is a model too: they are merged before the training begins.
    for adapter in before.add_adapter().by_target.values():
        adapter.up.weight.data.fill_(0.1)
    before.save_adapter(tmp_path / "lora")
    network = make_trainer(
        parse_config({**changed, "output": str(tmp_path / "on"), "model": str(tmp_path / "lora")})
    ).network
    merged = dict(before.merge_and_unload().named_parameters())
    assert all((x == merged[name]).all() for name, x in network.named_parameters() if ".adapters." not in name)


def test_frozen_parts_stay_as_they_are(values: dict[str, Any], tmp_path: Path) -> None:
    trainer = make_trainer(parse_config({**values, "freeze": ["embed", "blocks.0.attn.qkv.weight"]}))
    before = {name: x.detach().clone() for name, x in trainer.network.named_parameters()}
    trainer.train()
    changed = {name for name, x in trainer.network.named_parameters() if not torch.equal(x, before[name])}
    frozen = {name for name in before if name.startswith("embed.") or name == "blocks.0.attn.qkv.weight"}
    assert len(frozen) > 3 and changed == before.keys() - frozen


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("freeze", [""], r"freeze names ''; the network has: embed, blocks, "),
        ("freeze", ["embd"], r"freeze names 'embd'; nearest: 'embed', .*; the network has: embed, blocks, "),
        ("freeze", ["embed", "blocks", "final_norm", "head"], "nothing is left to train"),
        ("task", "clasify", "task is 'clasify'; nearest: 'classify'"),
        ("modle", "x", "'modle' is no option; nearest: 'model'"),
        ("model", "x", "give either a model to fine-tune .* or `scratch`"),
        ("scratch", None, "give either a model to fine-tune .* or `scratch`"),
        ("tokenizer", None, "needs a tokenizer"),
        ("scratch", "gtp2", "no published model; nearest: .*'gpt2'"),
        ("data.validation", 1.5, "a share between 0 and 1"),
        ("data.columns", {"labl": "x"}, "labl"),
        ("data.columns", {"label": "mood"}, "no column 'mood'"),
        ("data.ignore", ["id"], "data.ignore names 'id'"),
        ("data.limit", 0, "data.limit is 0"),
        ("data.limit", [3, None], "data.limit has 2 numbers, and data.train names 1 files"),
        ("data.limit", 99, "data.limit is 99; there are 32 training rows"),
        ("data.validation_format", {"part": "val"}, "data.validation names none"),
        ("task_options", {"blok": 3}, "'blok' is no option of Classify"),
        ("task_options", {"max_tokens": "many"}, "task_options.max_tokens is 'many'; it must be a whole number"),
        ("task_options", {"separator": 5}, "task_options.separator is 5; it must be a text"),
        ("training.steps", 10**400, "steps is 0x.*; it must be a whole number from 1 to 1,000,000,000,000,000"),
        ("adapter", {"rank": 10**30}, "rank is 10+; it must be a whole number from 1 to 1,000,000"),
        ("tokenizer", {"size": 10**30}, r"tokenizer\.size is 10+; it must be a whole number from 1 to"),
        ("tokenizer", {"size": 300, "min_frequency": 10**30}, "min_frequency is 10+; it must be a whole number"),
        ("training.warmpu", 3, "'warmpu' is no option; nearest: 'warmup'"),
        ("training.warmup", 99, "longer than the 3 steps"),
        ("preset", "gtp", "preset is 'gtp'"),
        ("preset", ["lora"], r"preset is \['lora'\]; allowed"),
    ],
)
def test_what_is_refused(values: dict[str, Any], place: str, value: Any, message: str) -> None:
    outer, _, inner = place.rpartition(".")
    (values[outer] if outer else values)[inner] = value
    with pytest.raises((ConfigError, DataError), match=message):
        make_trainer(parse_config(values))


def test_a_column_that_nothing_reads_is_an_error(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("nr,text,label\n" + "\n".join(f"{i},time flies,{i % 2}" for i in range(20)))
    with pytest.raises(ConfigError, match=r"columns 'nr'; .* --ignore nr"):
        make_trainer(parse_config(values))
    for ignored in (["nr"], ["*"]):
        values["data"]["ignore"] = ignored
        make_trainer(parse_config(values))


def test_parts_of_one_file_renamed_and_without_leaks(values: dict[str, Any], tmp_path: Path) -> None:
    parts = {
        "train": [[f"time flies {word}", "time" if i % 2 else "odd"] for i, word in enumerate(WORDS * 2)],
        "val": [["fruit like", "time"], ["Time  FLIES an", "fruit"], ["a banana", "odd"]],
    }
    (tmp_path / "parts.json").write_text(json.dumps(parts))
    values["data"] = {
        "train": "parts.json",
        "folder": str(tmp_path),
        "validation": "parts.json",
        "format": {"part": "train", "names": ["text", "label"]},
        "validation_format": {"part": "val"},
        "rename": {"odd": "fruit"},
        "without_leaks": True,
    }
    with pytest.warns(UserWarning, match="1 of 3 validation rows are left out"):
        train, validation = read_splits(parse_config(values), Classify)
    assert validation is not None
    assert {row["label"] for row in train} == {"time", "fruit"} and len(train) == 16
    assert list(validation) == [
        {"text": "fruit like", "label": "time"},
        {"text": "a banana", "label": "fruit"},
    ]
    with pytest.warns(UserWarning, match="are left out"):
        assert make_trainer(parse_config(values)).train().metrics["accuracy"] >= 0
    values["data"] |= {"rename": {"odd": "fruit", "od": "x"}, "without_leaks": False}
    with pytest.warns(UserWarning, match="data.rename names 'od'; no training row has such a label"):
        read_splits(parse_config(values), Classify)
    values["data"] |= {"rename": {}, "validation_format": {"part": "train"}, "without_leaks": True}
    with pytest.raises(DataError, match="all 16 validation rows are in the training data too"):
        read_splits(parse_config(values), Classify)
    values["data"] |= {"columns": {"label": "mood"}, "rename": {"odd": "fruit"}}
    values["data"]["format"] = {"part": "train", "names": ["text", "odd"]}
    with pytest.raises(ConfigError, match="neither 'label' nor 'tags' among its columns 'text', 'odd'"):
        read_splits(parse_config(values), Classify)


def test_fewer_training_rows_lie_within_more(values: dict[str, Any]) -> None:
    def texts(limit: int, seed: int) -> tuple[list[str], list[Any]]:
        values["data"]["limit"], values["training"]["seed"] = limit, seed
        train, validation = read_splits(parse_config(values), Classify)
        return [train.where(i) for i in range(limit)], list(validation or [])

    (few, held_out), (more, same) = texts(5, 1), texts(20, 1)
    assert set(few) < set(more) and held_out == same and len(set(more)) == 20
    assert set(texts(20, 2)[0]) != set(more)
    rows = Path(values["data"]["train"])
    more = shutil.copy(rows, rows.with_name("copy.csv"))
    values["data"] |= {"train": [str(rows), str(more)], "limit": [3, None], "validation": None}
    train, _ = read_splits(parse_config(values), Classify)
    assert len(train) == 43 and len({train.where(i) for i in range(3)}) == 3


def test_tags_without_leaks(shared: Path) -> None:
    data = {"folder": str(shared / "data" / "wikiann"), "train": "en.train.conll.gz", "without_leaks": True}
    values = {"task": "tag", "model": "x", "output": "y", "data": {**data, "validation": "en.val.conll.gz"}}
    with pytest.warns(UserWarning, match="162 of 5,000 validation rows are left out"):
        _, validation = read_splits(parse_config(values), Tag)
    assert validation is not None and len(validation) == 4_838


def test_a_label_that_only_validation_has(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("text,label\ntime flies,space\n")
    values["data"]["validation"] = str(tmp_path / "more.csv")
    with pytest.raises(DataError, match=r"more.csv: line 2: the label 'space'"):
        make_trainer(parse_config(values))


@pytest.mark.parametrize("task", TASKS)
def test_every_objective_is_there(task: str) -> None:
    kind = task_class(task)
    assert kind.COLUMNS and "model" not in kind.options()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_options(name: str, values: dict[str, Any]) -> None:
    values |= {"preset": name, "training": {"seed": 9}}
    made = parse_config(values)
    assert made.training.seed == 9 and made.training.learning_rate == PRESETS[name]["learning_rate"]
    assert made.task_options == ({"block": PRESETS[name]["block"]} if "block" in PRESETS[name] else {})


@pytest.mark.parametrize("name", ["emotion", "clinc150", "sst2", "wikiann-en", "wnut17", "multi30k"])
def test_examples_are_configurations(name: str, shared: Path) -> None:
    config = parse_config(read_config(Path(__file__).parents[2] / "examples" / f"{name}.yaml"))
    assert config.output == f"runs/{name}" and config.data.folder is None
    assert (shared / "data" / str(config.data.fetch)).is_dir()


def test_a_configuration_is_yaml(values: dict[str, Any], tmp_path: Path) -> None:
    made = parse_config(values)
    assert parse_config(yaml.safe_load(config_yaml(made))) == made
    for text, message in (
        ("task: [", "invalid YAML"),
        ("- a", "must hold names and values"),
        ("", "must hold"),
    ):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_config(tmp_path / "bad.yaml")
    with pytest.raises(ConfigError, match="cannot be opened"):
        read_config(tmp_path / "none.yaml")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_checkpoint_in_16_bits_is_trained_in_fp32(dtype: torch.dtype, values: dict[str, Any], tmp_path: Path) -> None:
    """In fp16 squared gradients vanish, and Adam blows the weights up; in bf16 small steps round to nothing."""
    make_trainer(parse_config(values)).train()
    glassformer.load(tmp_path / "run" / "model", dtype=dtype).save_pretrained(tmp_path / "half")
    del values["scratch"], values["tokenizer"]
    values |= {"model": str(tmp_path / "half"), "output": str(tmp_path / "b")}
    values["training"] |= {"learning_rate": 1e-7, "weight_decay": 0.0}
    trainer = make_trainer(parse_config(values))
    before = {name: parameter.clone() for name, parameter in trainer.network.named_parameters()}
    assert {parameter.dtype for parameter in before.values()} == {torch.float32}
    trainer.train()
    assert all(not x.equal(before[name]) for name, x in trainer.network.named_parameters()), "no step is lost"

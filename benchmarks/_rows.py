"""Rows in place of published data sets, and metrics in place of the `evaluate` library: for code that runs offline.

Texts are sentences of random words; each data set has the columns and the splits of the published one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import datasets
import numpy as np
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

TAGS = "O B-PER I-PER B-ORG I-ORG B-LOC I-LOC B-MISC I-MISC".split()
MOODS = "sadness joy love anger fear surprise".split()
WHO = "the cat|a student|my neighbour|our teacher|Angela|the film|this movie|a robot|the company|New York".split("|")
DOES = "likes|reads|has bought|will deliver|watched|loves|hates|moved to|wrote about|evaluates|forgot".split("|")
WHAT = "a long book|the new model|Brooklyn|fresh fruit|an arrow|bananas in summer|Paris|the food, which was great"
WHATS = [*WHAT.split("|"), "three million dollars", "a large data set", "the tokenizer", "many languages"]
ENDS = [".", " again!", " and nobody was surprised.", " in 2019.", " because it was cheap.", " - isn't it?"]
OTHERS = (
    "This is a great course about Hugging Face Transformers and networks",
    "def add(a, b):\n    return a + b\nimport pandas as pd",
    "une phrase en français, s'il vous plaît; ein deutscher Satz über Äpfel",
    "translate English to German: summarize: question: context: 0123456789 @user #tag https://t.co ?",
)


def sentence(draw: random.Random) -> str:
    return f"{draw.choice(WHO).capitalize()} {draw.choice(DOES)} {draw.choice(WHATS)}{draw.choice(ENDS)}"


def paragraph(draw: random.Random, sentences: int = 4) -> str:
    return " ".join(sentence(draw) for _ in range(sentences))


TEXT = Value("string")
SIZES = {"train": 24, "validation": 12, "test": 12}
Row = Callable[[random.Random, int], dict[str, Any]]
PAIRS = {"mrpc": ("sentence1", "sentence2"), "rte": ("sentence1", "sentence2"), "stsb": ("sentence1", "sentence2")}
PAIRS |= {"mnli": ("premise", "hypothesis"), "qnli": ("question", "sentence"), "qqp": ("question1", "question2")}
TOPICS = {
    "imdb": ["neg", "pos"],
    "rotten_tomatoes": ["neg", "pos"],
    "sst2": ["neg", "pos"],
    "emotion": MOODS,
    "yelp_review_full": [f"{stars} star" for stars in range(1, 6)],
    "ag_news": ["World", "Sports", "Business", "Sci/Tech"],
    "clinc_oos": [f"intent {number}" for number in range(7)],
}
SUMMARIES = {"xsum": ("document", "summary"), "billsum": ("text", "summary"), "samsum": ("dialogue", "summary")}
SUMMARIES |= {"cnn_dailymail": ("article", "highlights")}
NAMES = "Angela/B-PER Merkel/I-PER works/O at/O Hugging/B-ORG Face/I-ORG in/O Brooklyn/B-LOC German/B-MISC lamb/O ./O"


def _glue(config: str) -> tuple[Row, Features]:
    columns = PAIRS.get(config, ("sentence",))
    pairs = {"mrpc": ["not_equivalent", "equivalent"], "cola": ["unacceptable", "acceptable"]}
    names = pairs.get(
        config, ["entailment", "neutral", "contradiction"] if config == "mnli" else ["negative", "positive"]
    )

    def row(draw: random.Random, number: int) -> dict[str, Any]:
        return {**{each: sentence(draw) for each in columns}, "label": draw.randrange(len(names)), "idx": number}

    return row, Features({**dict.fromkeys(columns, TEXT), "label": ClassLabel(names=names), "idx": Value("int32")})


def _topics(name: str) -> tuple[Row, Features]:
    label, names = "intent" if name == "clinc_oos" else "label", TOPICS[name]
    length = 1 if name == "emotion" else 3

    def row(draw: random.Random, number: int) -> dict[str, Any]:
        return {"text": paragraph(draw, length), label: number % len(names)}

    return row, Features({"text": TEXT, label: ClassLabel(names=names)})


def _tags(name: str) -> tuple[Row, Features]:
    words = [pair.split("/") for pair in NAMES.split()]

    def row(draw: random.Random, number: int) -> dict[str, Any]:
        tokens, tags = zip(*draw.sample(words, 7), strict=True)
        ids = [TAGS.index(tag) for tag in tags]
        if name == "xtreme":
            return {"tokens": list(tokens), "ner_tags": ids, "langs": ["de"] * 7}
        parts = [each % 3 for each in ids]
        return {"id": str(number), "tokens": list(tokens), "ner_tags": ids, "pos_tags": parts, "chunk_tags": parts}

    features = {"tokens": List(TEXT), "ner_tags": List(ClassLabel(names=TAGS))}
    if name == "xtreme":
        return row, Features({**features, "langs": List(TEXT)})
    parts = List(ClassLabel(names=["A", "B", "C"]))
    return row, Features({"id": TEXT, **features, "pos_tags": parts, "chunk_tags": parts})


def _answers(name: str) -> tuple[Row, Features]:
    def row(draw: random.Random, number: int) -> dict[str, Any]:
        context = paragraph(draw, 40 if number % 3 else 9)
        words = context.split()
        first = draw.randrange(2, len(words) - 3)
        found = not (name == "squad_v2" and number % 4 == 0)
        answer = {"text": [" ".join(words[first : first + 2])] * found}
        answer |= {"answer_start": [len(" ".join(words[:first])) + 1] * found}
        asked = f"What does {draw.choice(WHO)} like?"
        return {
            "id": f"id{number}",
            "title": f"Title {number % 3}",
            "context": context,
            "question": asked,
            "answers": answer,
        }

    answers = {"text": List(TEXT), "answer_start": List(Value("int32"))}
    return row, Features({**dict.fromkeys(("id", "title", "context", "question"), TEXT), "answers": answers})


def _sounds(name: str) -> tuple[Row, Features]:
    rate = 8_000 if name == "minds14" else 16_000
    sound = {"array": List(Value("float32")), "path": TEXT, "sampling_rate": Value("int32")}

    def row(draw: random.Random, number: int) -> dict[str, Any]:
        samples = np.random.default_rng(number).normal(0, 0.1, rate // 2).astype(np.float32)
        heard = {"path": f"{number}.wav", "audio": {"array": samples, "path": None, "sampling_rate": rate}}
        if name == "minds14":
            said = sentence(draw)
            return {
                **heard,
                "transcription": said,
                "english_transcription": said,
                "intent_class": number % 4,
                "lang_id": 1,
            }
        return {**heard, "label": number % 4} if name == "superb" else {**heard, "text": sentence(draw).upper()}

    features: dict[str, Any] = {"path": TEXT, "audio": sound}
    if name == "minds14":
        features |= {
            "transcription": TEXT,
            "english_transcription": TEXT,
            "lang_id": ClassLabel(names=["cs-CZ", "en-US"]),
        }
        features |= {"intent_class": ClassLabel(names=["abroad", "address", "app_error", "atm_limit"])}
    else:
        features |= {"label": ClassLabel(names=["yes", "no", "up", "down"])} if name == "superb" else {"text": TEXT}
    return row, Features(features)


def _pictures(name: str) -> tuple[Row, Features]:
    def row(draw: random.Random, number: int) -> dict[str, Any]:
        return {"image": np.random.default_rng(number).integers(0, 255, (40, 48, 3), np.uint8), "label": number % 10}

    return row, Features({"image": datasets.Image(), "label": ClassLabel(names=[f"class {i}" for i in range(10)])})


def _choices(draw: random.Random, number: int) -> dict[str, Any]:
    first = {"video-id": str(number), "sent1": sentence(draw), "sent2": draw.choice(WHO), "label": draw.randrange(4)}
    return first | {f"ending{i}": f"{draw.choice(DOES)} {draw.choice(WHATS)}" for i in range(4)}


def _threads(draw: random.Random, number: int) -> dict[str, Any]:
    answers = {"a_id": ["x", "y"], "text": [paragraph(draw), paragraph(draw, 3)], "score": [3, 2]}
    return {"q_id": str(number), "title": sentence(draw), "selftext": "", "answers": answers}


def _code(draw: random.Random, number: int) -> dict[str, Any]:
    function = f'def f{number}(a, b):\n    """{sentence(draw)}"""\n    return a + {number}\n'
    return {"whole_func_string": function, "content": "import pandas as pd\n\n" + 6 * function, "license": "mit"}


def _lines(draw: random.Random, number: int) -> dict[str, Any]:
    return {"text": ("", f" = Title {number} = \n")[number % 4] if number % 4 < 2 else paragraph(draw, 6)}


def rows(name: str, config: str | None) -> DatasetDict:
    """All splits of a data set in small. Raises: FileNotFoundError: no such data set here."""
    name, sizes, features = name.split("/")[-1], dict(SIZES), None
    row: Row
    if name == "glue":
        row, features = _glue(config or "mrpc")
        if config == "mnli":
            sizes = {"train": 24} | {f"{each}_{kind}": 12 for each in ("validation", "test")
                                     for kind in ("matched", "mismatched")}  # fmt: skip
    elif name in TOPICS:
        row, features = _topics(name)
        sizes |= {"unsupervised": 24} if name == "imdb" else {}
    elif name in ("conll2003", "wnut_17", "xtreme"):
        row, features = _tags(name)
    elif name in ("squad", "squad_v2"):
        row, features = _answers(name)
        del sizes["test"]
    elif name in SUMMARIES:
        text, summary = SUMMARIES[name]
        row = lambda draw, number: {text: paragraph(draw, 8), summary: sentence(draw), "id": str(number)}  # noqa: E731
        sizes |= {"ca_test": 12} if name == "billsum" else {}
    elif name in ("kde4", "opus_books", "wmt16"):
        pair = ["en", "ro" if name == "wmt16" else "fr"]
        row = lambda draw, number: {"id": str(number), "translation": {each: sentence(draw) for each in pair}}  # noqa: E731
        features = Features({"id": TEXT, "translation": datasets.Translation(languages=pair)})
        sizes = sizes if name == "wmt16" else {"train": 30}
    elif name in ("minds14", "superb", "librispeech_asr_dummy"):
        row, features = _sounds(name)
        sizes = {"train": 40} if name == "minds14" else sizes
    elif name in ("food101", "beans"):
        row, features = _pictures(name)
    elif name in ("swag", "eli5_category", "code_search_net", "codeparrot-ds-train", "codeparrot-ds-valid", "wikitext"):
        row = {"swag": _choices, "eli5_category": _threads, "wikitext": _lines}.get(name, _code)
        sizes = {"train": 60, "validation": 24, "test": 24}
    else:
        raise FileNotFoundError(f"no rows in place of {name}")
    splits = {}
    for i, (split, size) in enumerate(sizes.items()):
        draw = random.Random(i)
        splits[split] = Dataset.from_list([row(draw, number) for number in range(size)], features=features)
    return DatasetDict(splits)


def load_dataset(name: str, config: Any = None, *, split: Any = None, **_: Any) -> Any:
    """As `datasets.load_dataset`, with rows made here; files of this machine are read."""
    if name in ("csv", "json", "text", "parquet", "imagefolder"):
        return READ_FILES(name, config, split=split, **_)
    return _split(rows(name, config[0] if isinstance(config, list | tuple) else config or _.get("name")), split)


READ_FILES = datasets.load_dataset


def _split(made: DatasetDict, split: Any) -> Any:
    """A split by name, and a slice of it: train[:10%]."""
    if split is None:
        return made
    if isinstance(split, list | tuple):
        return [_split(made, each) for each in split]
    matched = re.match(r"(\w+)(?:\[(-?[\d]*%?):(-?[\d]*%?)\])?$", str(split))
    if matched is None:
        raise FileNotFoundError(f"no split {split}")
    chosen = made[matched[1]] if matched[1] in made else made["train"]
    size = len(chosen)
    bounds = [int(each[:-1]) * size // 100 if each.endswith("%") else int(each or end)
              for each, end in ((matched[2] or "", 0), (matched[3] or "", size))]  # fmt: skip
    return chosen.select(range(size)[slice(*bounds)])


class Metric:
    """A metric of the `evaluate` library, by scikit-learn and the like."""

    def __init__(self, *names: str) -> None:
        self.names, self.pairs = names, ([], [])  # type: tuple[str, ...], tuple[list[Any], list[Any]]

    def add_batch(self, predictions: Any, references: Any, **_: Any) -> None:
        self.pairs[0].extend(np.asarray(predictions).tolist() if not isinstance(predictions, list) else predictions)
        self.pairs[1].extend(np.asarray(references).tolist() if not isinstance(references, list) else references)

    def compute(self, predictions: Any = None, references: Any = None, **keywords: Any) -> Any:
        given, right = self.pairs if predictions is None else (predictions, references)
        self.pairs = ([], [])
        values: dict[str, Any] = {}
        for name in self.names:
            values |= _metric(name, given, right, keywords)
        return values["wer"] if self.names == ("wer",) else values


def _metric(name: str, given: Sequence[Any], right: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    from sklearn import metrics

    if name == "accuracy":
        return {name: float(np.mean(np.asarray(given) == np.asarray(right)))}
    if name == "f1":
        return {name: float(metrics.f1_score(right, given, average=keywords.get("average", "macro")))}
    if name == "matthews_correlation":
        return {name: float(metrics.matthews_corrcoef(right, given))}
    if name == "pearsonr":
        return {name: float(np.corrcoef(np.asarray(given, float), np.asarray(right, float))[0, 1])}
    if name == "wer":
        import jiwer

        return {name: jiwer.wer(list(right), list(given))}
    if name == "seqeval":
        from seqeval import metrics as tags

        scores = {key: getattr(tags, f"{key}_score") for key in ("precision", "recall", "f1", "accuracy")}
        return {f"overall_{key}": float(score(list(right), list(given))) for key, score in scores.items()}
    if name == "rouge":
        from rouge_score.rouge_scorer import RougeScorer

        kinds = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
        scorer = RougeScorer(kinds, use_stemmer=bool(keywords.get("use_stemmer")))
        found = [scorer.score(a if isinstance(a, str) else a[0], b) for a, b in zip(right, given, strict=True)]
        return {kind: float(np.mean([each[kind].fmeasure for each in found])) for kind in kinds}
    if name == "sacrebleu":
        import sacrebleu

        score = sacrebleu.corpus_bleu(list(given), [[a if isinstance(a, str) else a[0] for a in right]])
        return {"score": score.score, "counts": score.counts, "sys_len": score.sys_len}
    if name in ("squad", "squad_v2"):
        texts = {each["id"]: each["prediction_text"].strip() for each in given}
        hits = [texts[each["id"]] in (each["answers"]["text"] or [""]) for each in right]
        return {"exact_match": 100 * float(np.mean(hits)), "texts": list(texts.values())}
    raise FileNotFoundError(f"no metric {name}")


def load_metric(name: str, config: str | None = None, **_: Any) -> Metric:
    """As `evaluate.load`."""
    glue = {"mrpc": ("accuracy", "f1"), "cola": ("matthews_correlation",), "stsb": ("pearsonr",)}
    return Metric(*(glue.get(config or "", ("accuracy",)) if name == "glue" else (name,)))

"""Miniatures of published data sets: files in the layout of the publisher, with texts of our own, and their rows."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

ANSWER = {"text": ["great"], "answer_start": [3]}
NONE = {"text": [], "answer_start": []}
CONTEXT = "So great ANSWERNOTFOUND"
PARAGRAPH = {
    "context": "It plays 6000 hours of music.",
    "qas": [
        {"id": "56be", "question": "how long ?", "answers": [{"text": "6000 hours", "answer_start": 9}]},
        {"id": "57aa", "question": "why ?", "answers": [], "is_impossible": True, "plausible_answers": []},
    ],
}
QUESTIONS = [
    {
        "id": "56be",
        "question": "how long ?",
        "context": PARAGRAPH["context"],
        "answers": PARAGRAPH["qas"][0]["answers"],
    },  # type: ignore[index]
    {"id": "57aa", "question": "why ?", "context": PARAGRAPH["context"], "answers": []},
]
SQUAD = {"version": "v2.0", "data": [{"title": "Music", "paragraphs": [PARAGRAPH]}]}
SUBJQA = {"domain": "books", "id": "7", "title": "B0", "question": "Is it?", "context": CONTEXT, "answers": ANSWER}
SUBJQA_ROW = {"title": "B0", "question": "Is it?", "context": CONTEXT, "answers": ANSWER, "id": "7", "type": "Is"}
REVIEWS = (
    "item_id,domain,q_review_id,question,review,human_ans_spans,human_ans_indices\n"
    f'B0,books,7,Is it?,{CONTEXT},great,"(3, 8)"\nB0,books,7,Is it?,{CONTEXT},ANSWERNOTFOUND,"(9, 23)"\n'
)
ISSUE = {"title": "It fails", "body": None, "labels": [{"name": "wontfix"}, {"name": "Core: Modeling"}]}
NEWS = {"text": "Fears for T N\nUnions say", "label": "Business"}
VOICE = 'client_id\tpath\tsentence\tup_votes\n0a\tcommon_voice_uk_1.mp3\tТак, "це" я.\t2\n'
PAIR = {"text": "It flew.", "text_pair": "It walked.", "label": "contradiction"}


class Miniature(NamedTuple):
    """A file of a data set.

    content: a text; a value of JSON; or rows, of a file of lines or a Parquet file
    rows: what is read of it
    """

    data_set: str
    path: str
    content: Any
    rows: list[dict[str, Any]]
    options: Mapping[str, Any] = MappingProxyType({})


def records(data_set: str, row: dict[str, Any], read: dict[str, Any]) -> list[Miniature]:
    """A file of JSON Lines and a Parquet file of two equal rows."""
    return [Miniature(data_set, f"train.{end}", [row, row], [read, read]) for end in ("jsonl.gz", "parquet")]


MINIATURES = [
    Miniature(
        "emotion",
        "train.txt",
        'i am 5\' 2" tall;joy\ni feel; "grouchy";anger\n'.replace("feel; ", "feel "),
        [{"text": "i am 5' 2\" tall", "label": "joy"}, {"text": 'i feel "grouchy"', "label": "anger"}],
    ),
    *records("emotion", {"text": "i feel grouchy", "label": 3}, {"text": "i feel grouchy", "label": "anger"}),
    Miniature(
        "clinc150",
        "data_full.json.gz",
        {"oos_val": [["who am i", "oos"]], "val": [["hi", "greeting"]], "oos_train": [], "train": [["bye", "goodbye"]]},
        [{"text": "hi", "label": "greeting"}],
        {"part": "validation"},
    ),
    Miniature("clinc150", "train.parquet", [{"text": "hi", "intent": 61}] * 2, [{"text": "hi", "label": 61}] * 2),
    *records("github_issues", ISSUE, {"text": "It fails", "label": ["model training"]}),
    Miniature(
        "github_issues_nlbse24",
        "issues_train.csv",
        'repo,created_at,label,title,body\na/b,2023-08-26,bug,It fails,"so\nit ""does"""\n',
        [{"text": 'It fails\n\nso\nit "does"', "label": "bug"}],
    ),
    *records("imdb", {"text": "A joy", "label": 1}, {"text": "A joy", "label": "pos"}),
    Miniature("imdb", "unsupervised.jsonl", [{"text": "A joy", "label": -1}], [{"text": "A joy", "label": None}]),
    Miniature("ag_news", "train.csv", '"3","Fears for T N","Unions say"\n', [NEWS]),
    Miniature("ag_news", "train.tsv.gz", "label\ttitle\tdescription\n3\tFears for T N\tUnions say\n", [NEWS]),
    *records("ag_news", {"text": "Fears", "label": 2}, {"text": "Fears", "label": "Business"}),
    Miniature("sst2", "dev.tsv", "sentence\tlabel\na joy\t1\n", [{"text": "a joy", "label": "positive"}]),
    Miniature(
        "glue/cola",
        "in_domain_train.tsv",
        'gj04\t1\t\tTime flies.\ngj04\t0\t*\tTime fly a "arrow.\n',
        [{"text": "Time flies.", "label": "acceptable"}, {"text": 'Time fly a "arrow.', "label": "unacceptable"}],
    ),
    *records(
        "glue/cola",
        {"sentence": "Time flies.", "label": 1, "idx": 0},
        {"text": "Time flies.", "label": "acceptable"},
    ),
    Miniature("glue/sst2", "train.tsv", "sentence\tlabel\na joy \t1\n", [{"text": "a joy ", "label": "positive"}]),
    *[
        Miniature(
            "glue/mrpc",
            path,
            '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tIt "flew.\tIt was flying.\r\n',
            [{"text": 'It "flew.', "text_pair": "It was flying.", "label": "equivalent"}],
        )
        for path in ("train.tsv", "msr_paraphrase_train.txt")
    ],
    *records(
        "glue/mrpc",
        {"sentence1": "It flew.", "sentence2": "It ate.", "label": -1},
        {"text": "It flew.", "text_pair": "It ate.", "label": None},
    ),
    Miniature(
        "glue/stsb",
        "train.tsv",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        "0\tnews\tf\t2012\t1\tnone\tnone\tA bird.\tA plane.\t1.250\n",
        [{"text": "A bird.", "text_pair": "A plane.", "label": 1.25}],
    ),
    *records(
        "glue/stsb",
        {"sentence1": "A bird.", "sentence2": "A plane.", "label": 1.25},
        {"text": "A bird.", "text_pair": "A plane.", "label": 1.25},
    ),
    Miniature(
        "glue/qqp",
        "train.tsv",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n3\t1\t2\tWhy?\tHow?\t0\n",
        [{"text": "Why?", "text_pair": "How?", "label": "not_duplicate"}],
    ),
    *records(
        "glue/qqp",
        {"question1": "Why?", "question2": "How?", "label": 1},
        {"text": "Why?", "text_pair": "How?", "label": "duplicate"},
    ),
    Miniature(
        "glue/mnli",
        "dev_matched.tsv",
        "index\tpromptID\tpairID\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n"
        "0\t1\t1n\tfiction\tIt flew.\tIt walked.\tneutral\tcontradiction\n",
        [PAIR],
    ),
    *records("glue/mnli", {"premise": "It flew.", "hypothesis": "It walked.", "label": 2}, PAIR),
    Miniature(
        "glue/qnli",
        "train.tsv",
        "index\tquestion\tsentence\tlabel\n0\tWho flew?\tA bird did.\tentailment\n",
        [{"text": "Who flew?", "text_pair": "A bird did.", "label": "entailment"}],
    ),
    Miniature(
        "glue/qnli",
        "test.tsv",
        "index\tquestion\tsentence\n0\tWho flew?\tA bird did.\n",
        [{"text": "Who flew?", "text_pair": "A bird did."}],
    ),
    Miniature(
        "glue/rte",
        "train.tsv",
        "index\tsentence1\tsentence2\tlabel\n0\tIt flew.\tIt ate.\tnot_entailment\n",
        [{"text": "It flew.", "text_pair": "It ate.", "label": "not_entailment"}],
    ),
    Miniature(
        "glue/wnli",
        "train.tsv",
        "index\tsentence1\tsentence2\tlabel\n0\tIt flew.\tIt ate.\t0\n",
        [{"text": "It flew.", "text_pair": "It ate.", "label": "not_entailment"}],
    ),
    Miniature(
        "snli",
        "snli_1.0_train.jsonl",
        [
            {"sentence1": "It flew.", "sentence2": "It walked.", "gold_label": "contradiction", "pairID": "1c"},
            {"sentence1": "It flew.", "sentence2": "It ate.", "gold_label": "-", "pairID": "2"},
        ],
        [PAIR, {"text": "It flew.", "text_pair": "It ate.", "label": None}],
    ),
    Miniature(
        "snli", "snli_1.0_dev.txt", "gold_label\tsentence1\tsentence2\ncontradiction\tIt flew.\tIt walked.\n", [PAIR]
    ),
    Miniature("snli", "train.parquet", [{"premise": "It flew.", "hypothesis": "It walked.", "label": 2}], [PAIR]),
    Miniature(
        "xnli",
        "xnli.dev.tsv",
        "language\tgold_label\tsentence1\tsentence2\nde\tcontradiction\tIt flew.\tIt walked.\n",
        [PAIR],
    ),
    Miniature(
        "xnli",
        "xnli.dev.jsonl",
        [{"language": "de", "gold_label": "contradiction", "sentence1": "It flew.", "sentence2": "It walked."}],
        [PAIR],
    ),
    Miniature("xnli", "test.parquet", [{"premise": "It flew.", "hypothesis": "It walked.", "label": 2}], [PAIR]),
    Miniature(
        "panx",
        "train",
        "de:In\tO\nde:Bern\tB-LOC\n\nde::\tO\n\n",
        [{"tokens": ["In", "Bern"], "tags": ["O", "B-LOC"]}, {"tokens": [":"], "tags": ["O"]}],
    ),
    Miniature(
        "panx", "de.train.conll", "de:\tO\nBern\tB-LOC\n\n", [{"tokens": ["de:", "Bern"], "tags": ["O", "B-LOC"]}]
    ),
    *records(
        "panx",
        {"tokens": ["In", "Bern"], "ner_tags": [0, 5], "langs": ["de", "de"]},
        {"tokens": ["In", "Bern"], "tags": ["O", "B-LOC"]},
    ),
    *[
        Miniature(name, "fr.val.conll.gz", text, [{"tokens": ["A", "Berne"], "tags": ["O", "B-LOC"]}])
        for name in ("wikiann", "wikineural")
        for text in ("A\tO\nBerne\tB-LOC\n\n", "0\tA\tO\n1\tBerne\tB-LOC\n\n")
    ],
    Miniature(
        "wnut17", "en.val.conll", "hi\tO\nWill\tB-person\n", [{"tokens": ["hi", "Will"], "tags": ["O", "B-person"]}]
    ),
    Miniature(
        "wnut17",
        "train.parquet",
        [{"id": "0", "tokens": ["hi", "Will"], "ner_tags": [0, 9]}],
        [{"tokens": ["hi", "Will"], "tags": ["O", "B-person"]}],
    ),
    Miniature("squad", "train-v1.1.json", SQUAD, QUESTIONS),
    Miniature("squad2", "dev-v2.0.json.gz", SQUAD, QUESTIONS),
    Miniature("xquad", "xquad.de.json", {"data": [{"paragraphs": [PARAGRAPH]}]}, QUESTIONS),
    *[
        mini
        for name in ("squad", "squad2", "xquad")
        for mini in records(name, SUBJQA, {key: SUBJQA[key] for key in ("id", "question", "context", "answers")})
    ],
    *[mini for name in ("subjqa", "subjqa_electronics") for mini in records(name, SUBJQA, SUBJQA_ROW)],
    *[
        Miniature(name, "train.csv", REVIEWS, [SUBJQA_ROW, {**SUBJQA_ROW, "answers": NONE}])
        for name in ("subjqa", "subjqa_electronics")
    ],
    *records(
        "cnn_dailymail",
        {"article": "It flew.", "highlights": "A bird.", "id": "a1"},
        {"source": "It flew.", "target": "A bird.", "id": "a1"},
    ),
    *records(
        "samsum",
        {"id": "1", "dialogue": "A: Hi\r\nB: Bye", "summary": "A greets."},
        {"source": "A: Hi\r\nB: Bye", "target": "A greets.", "id": "1"},
    ),
    *records(
        "dialogsum",
        {"fname": "dev_0", "dialogue": "#Person1#: Hi", "summary": "A greets.", "topic": "greeting"},
        {"source": "#Person1#: Hi", "target": "A greets.", "id": "dev_0"},
    ),
    *records(
        "scitldr_a",
        {"paper_id": "r1", "source": ["We fly.", "We land."], "target": ["They fly."], "rouge_scores": [0.5]},
        {"source": ["We fly.", "We land."], "target": ["They fly."], "id": "r1"},
    ),
    Miniature(
        "multi30k", "val.jsonl", [{"en": "A bird.", "de": "Ein Vogel."}], [{"en": "A bird.", "de": "Ein Vogel."}]
    ),
    Miniature(
        "codeparrot",
        "file-000000000040.json.gz",
        [{"repo_name": "a/b", "path": "c.py", "copies": "1", "size": "5", "content": "x = 1", "license": "mit"}],
        [{"text": "x = 1", "path": "c.py", "license": "mit"}],
    ),
    Miniature(
        "code_search_net",
        "python_train_0.jsonl.gz",
        [{"repo": "a/b", "docstring": "One.", "code": "def one(): ...", "language": "python"}],
        [{"source": "One.", "target": "def one(): ..."}],
    ),
    Miniature(
        "code_search_net",
        "train-00000-of-00004.parquet",
        [{"func_documentation_string": "One.", "whole_func_string": "def one(): ...", "language": "python"}],
        [{"source": "One.", "target": "def one(): ..."}],
    ),
    Miniature("tinyshakespeare", "input.txt", "A king:\n\nFly!\n", [{"text": "A king:\n\nFly!"}]),
    Miniature(
        "tinystories",
        "stories.txt.gz",
        "One day.\nEnd.\n<|endoftext|>\nTwo.\n",
        [{"text": "One day.\nEnd."}, {"text": "Two."}],
    ),
    *records("bookcorpus", {"text": "it flew ."}, {"text": "it flew ."}),
    *records(
        "wikipedia",
        {"id": "12", "url": "u", "title": "Fly", "text": "A fly."},
        {"text": "A fly.", "title": "Fly", "id": "12"},
    ),
    *records("webtext", {"text": "A page."}, {"text": "A page."}),
    *records("c4", {"text": "A page.", "timestamp": "t", "url": "u"}, {"text": "A page."}),
    Miniature(
        "common_voice",
        "train.tsv",
        VOICE,
        [{"file": "clips/common_voice_uk_1.mp3", "text": 'Так, "це" я.', "speaker": "0a"}],
    ),
    Miniature(
        "common_voice",
        "train.parquet",
        [{"client_id": "0a", "audio": {"bytes": b"ID3", "path": "1.mp3"}, "sentence": "Так"}],
        [{"file": {"bytes": b"ID3", "path": "1.mp3"}, "text": "Так", "speaker": "0a"}],
    ),
    *records("whisper_ytb_uk", {"audio": "1.mp3", "text": "Так"}, {"audio": "1.mp3", "text": "Так"}),
]


def written(path: Path, content: Any) -> Path:
    """A file of this content, as its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(content), path)
        return path
    if isinstance(content, list):
        content = "".join(f"{json.dumps(row)}\n" for row in content)
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path

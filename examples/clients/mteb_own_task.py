"""mteb: a task of your own rows, so that nothing is fetched: pip install glassformer mteb

A task of the benchmark: mteb.evaluate(model, mteb.get_tasks(tasks=["STSBenchmark"])).
"""

import sys

import mteb
from datasets import Dataset, DatasetDict
from mteb.abstasks import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata

from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer

unknown = ["reference", "date", "domains", "task_subtypes", "license"]
unknown += ["annotations_creators", "dialect", "sample_creation", "bibtex_citation"]
rows = {
    "sentence1": ["time flies", "a ripe banana", "a dog barks"],
    "sentence2": ["the clock ticks", "a yellow fruit", "a stock market"],
    "score": [0.6, 0.9, 0.0],
}


class OwnRows(AbsTaskSTS):
    metadata = TaskMetadata(
        name="OwnRows",
        description="Pairs of texts, and how similar they are.",
        dataset={"path": "local/own", "revision": "1"},
        type="STS",
        category="t2t",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="cosine_spearman",
        **dict.fromkeys(unknown),
    )
    min_score, max_score = 0, 1

    def load_data(self, **_):
        self.dataset = DatasetDict(test=Dataset.from_dict(rows))
        self.data_loaded = True


model = GlassformerSentenceTransformer(sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2")
result = mteb.evaluate(model, [OwnRows()], cache=None).task_results[0]
print(result.scores["test"][0]["cosine_spearman"])

"""sentence-transformers, SetFit and mteb with a Glassformer model: the numbers of the library's own, and training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.clients

FIRST = ["time flies", "a ripe banana", "the hours pass", "a dog"]
SECOND = ["the clock ticks", "fruit", "a ripe banana", "the cat sat there for a while"]
SCORES = [0.6, 0.9, 0.0, 0.4]


@pytest.fixture
def both(minilm: Path) -> list[Any]:
    """Ours, and the library's own."""
    from sentence_transformers import SentenceTransformer

    from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer

    return [GlassformerSentenceTransformer(minilm), SentenceTransformer(str(minilm), device="cpu")]


def test_vectors_have_the_gradients_of_the_librarys_own(both: list[Any]) -> None:
    from sentence_transformers.losses import CosineSimilarityLoss

    grads = []
    for model in both:
        model.eval()
        features = [model.tokenize(texts) for texts in (FIRST, SECOND)]
        loss = CosineSimilarityLoss(model)(features, torch.tensor(SCORES))
        loss.backward()
        norms = [p.grad.norm().item() for p in model.parameters() if p.grad is not None]
        grads.append((loss.item(), float(np.linalg.norm(norms))))
    assert grads[0] == pytest.approx(grads[1], rel=1e-4)


def test_evaluators(both: list[Any]) -> None:
    from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator, InformationRetrievalEvaluator

    similar = EmbeddingSimilarityEvaluator(FIRST, SECOND, SCORES)
    finds = InformationRetrievalEvaluator({"q": "fruit"}, {str(i): text for i, text in enumerate(FIRST)}, {"q": {"1"}})
    for evaluator in (similar, finds):
        ours, theirs = (evaluator(model) for model in both)
        assert ours == pytest.approx(theirs, abs=1e-5)


def test_mteb(both: list[Any]) -> None:
    import datasets
    import mteb
    from mteb.abstasks import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    unknown = """reference date domains task_subtypes license annotations_creators dialect sample_creation
    bibtex_citation""".split()

    class Flies(AbsTaskSTS):  # type: ignore[misc, unused-ignore]
        """Four pairs, so that nothing is fetched."""

        metadata = TaskMetadata(
            name="Flies",
            description="four pairs of texts",
            dataset={"path": "local/flies", "revision": "1"},
            type="STS",
            category="t2t",
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
            **dict.fromkeys(unknown),
        )
        min_score, max_score = 0, 1

        def load_data(self, **_: Any) -> None:
            pairs = {"sentence1": FIRST, "sentence2": SECOND, "score": SCORES}
            self.dataset = datasets.DatasetDict(test=datasets.Dataset.from_dict(pairs))
            self.data_loaded = True

    ours, theirs = (mteb.evaluate(model, [Flies()], cache=None).task_results[0].scores["test"][0] for model in both)
    for name, value in theirs.items():
        if isinstance(value, float):
            assert ours[name] == pytest.approx(value, abs=1e-4), name


def test_setfit_trains_the_body(both: list[Any], tmp_path: Path) -> None:
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments
    from sklearn.linear_model import LogisticRegression

    body = both[0]
    before = body.encode(["time flies"])
    model = SetFitModel(model_body=body, model_head=LogisticRegression(), labels=["anger", "joy"])
    rows = Dataset.from_dict(
        {"text": ["so glad", "leave me alone", "what joy", "I hate it"] * 2, "label": [1, 0, 1, 0] * 2}
    )
    options = TrainingArguments(
        batch_size=4, max_steps=3, report_to="none", output_dir=str(tmp_path), save_strategy="no"
    )
    Trainer(model=model, args=options, train_dataset=rows).train()
    assert model.predict(["what a joy", "I hate you"]) == ["joy", "anger"]
    assert np.abs(body.encode(["time flies"]) - before).max() > 1e-4  # encode sees the trained weights

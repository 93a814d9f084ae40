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
    options = TrainingArguments(batch_size=4, max_steps=3, report_to="none", output_dir=str(tmp_path / "run"))
    Trainer(model=model, args=options, train_dataset=rows).train()
    assert model.predict(["what a joy", "I hate you"]) == ["joy", "anger"]
    assert np.abs(body.encode(["time flies"]) - before).max() > 1e-4  # encode sees the trained weights
    model.save_pretrained(tmp_path / "saved")
    assert SetFitModel.from_pretrained(tmp_path / "saved").predict(["what a joy", "I hate you"]) == ["joy", "anger"]


def test_setfit_trains_a_differentiable_head(both: list[Any], tmp_path: Path) -> None:
    from datasets import Dataset
    from setfit import SetFitHead, SetFitModel, Trainer, TrainingArguments

    model = SetFitModel(model_body=both[0], model_head=SetFitHead(in_features=384, out_features=2))
    rows = Dataset.from_dict({"text": ["so glad", "I hate it"] * 2, "label": [1, 0] * 2})
    options = TrainingArguments(
        batch_size=4, max_steps=1, num_epochs=1, end_to_end=True, output_dir=str(tmp_path), report_to="none"
    )
    Trainer(model=model, args=options, train_dataset=rows).train()
    assert model.predict(["so glad", "I hate it"]).tolist() == [1, 0]


def test_features_are_those_of_the_library(both: list[Any]) -> None:
    texts = ["time flies " * 400, "A Dog"]
    for prompt in (None, "query: "):
        ours, theirs = (model.preprocess(texts, prompt=prompt)["input_ids"] for model in both)
        assert ours.shape == (2, both[1].max_seq_length)
        torch.testing.assert_close(ours, theirs)
    for model in both:
        model.max_seq_length = 16
    assert [model.preprocess(texts)["input_ids"].shape for model in both] == [(2, 16)] * 2
    for method in ("encode", "encode_query", "encode_document"):
        ours, theirs = (getattr(m, method)(texts, prompt="query: ", batch_size=2, device="cpu") for m in both)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_librarys_trainer_saves_and_takes_the_best(both: list[Any], tmp_path: Path) -> None:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    model = both[0]
    options = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path),
        max_steps=2,
        learning_rate=1e-3,
        eval_strategy="steps",
        eval_steps=1,
        save_steps=1,
        load_best_model_at_end=True,
        metric_for_best_model="eval_pairs_pearson_cosine",
        report_to="none",
    )
    trainer = SentenceTransformerTrainer(
        model=model,
        args=options,
        train_dataset=Dataset.from_dict({"anchor": FIRST, "positive": SECOND}),
        loss=MultipleNegativesRankingLoss(model),
        evaluator=EmbeddingSimilarityEvaluator(FIRST, SECOND, SCORES, name="pairs"),
    )
    trainer.train()
    steps = {path.name: SentenceTransformer(str(path), device="cpu").encode(FIRST) for path in tmp_path.glob("check*")}
    best = steps.pop(Path(trainer.state.best_model_checkpoint).name)
    np.testing.assert_allclose(model.encode(FIRST), best, atol=1e-5)
    assert all(np.abs(other - best).max() > 1e-4 for other in steps.values()) and len(steps) == 1

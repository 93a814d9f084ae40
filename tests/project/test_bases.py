"""A class is a base or final: none has a base in another file that nothing else is derived from."""

from __future__ import annotations

import ast
from collections import Counter

from tests.project.budgets import SOURCE, trees

EXCEPTIONS = frozenset(
    """
    cli.study:OnScreen core.codebooks:CodebookEmbeddingSpec core.linearised:FixedScaleLayerNorm
    core.linearised:FixedScaleRMSNorm hf.configs:GenerationConfig
    hf.multiple_choice:MultipleChoice hf.reference_model:ReferenceModel hf.trainer.trainer:CompatibleTrainer
    lessons.encoder_decoder:TinyEncoderDecoder models.albert:SentenceOrderPreTrainingHead
    models.big_bird.block_sparse:BlockSparsePattern models.deberta.convolution:ConvolvedBlock
    models.deberta.convolution:ConvolvedBlockSpec models.modernbert.heads:TransformPooler
    models.modernbert.heads:TransformTokenClassifier models.t5.network:T5 tasks.causal.task:Causal
    tasks.classify.frames:TagAudio tasks.seq2seq.generated:ReferenceTask
    """.split()
)
"""Classes that have one: may only shrink."""


def classes() -> dict[str, list[str]]:
    """Every class, by module and name → its bases in this library, by the modules that define them."""
    found: dict[str, list[str]] = {}
    for file, tree in trees(SOURCE):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        names = {
            alias.asname or alias.name: f"{node.module.removeprefix('glassformer').lstrip('.')}:{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("glassformer")
            for alias in node.names
        }
        own = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        names |= {node.name: f"{module}:{node.name}" for node in own}
        for node in own:
            bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
            found[f"{module}:{node.name}"] = [
                names[base.id] for base in bases if isinstance(base, ast.Name) and base.id in names
            ]
    return found


def test_no_class_is_split_over_files() -> None:
    every = classes()
    subclasses = Counter(base for bases in every.values() for base in bases)
    assert subclasses["tasks.pipelines:Pipeline"] > 2  # the count sees imports
    split = {
        name
        for name, bases in every.items()
        for base in bases
        if base.partition(":")[0] != name.partition(":")[0] and base in every and subclasses[base] == 1
    }
    assert not any("." not in name.partition(":")[0] for name in split), "at the top level there is none"
    assert split == EXCEPTIONS, f"merge with its base: {sorted(split - EXCEPTIONS)}; no longer: {EXCEPTIONS - split}"

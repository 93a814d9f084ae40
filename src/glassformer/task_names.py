"""Names of tasks: one row for each task, from which every list of names, alias, example and help text derives.

    classify   text-classification   Classify, which `glassformer train` trains   TextClassification, which answers

A row names classes by "module:class", so nothing is imported here. A task that is not of this package is registered:
`plugins.register("tasks", "haiku", Haiku)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskNames:
    """The names of one task, and its classes.

    name: short, as in `glassformer train --task`; "" = none
    there: in Hugging Face transformers, where such a task is
    trains: of `tasks.base.Task`, after `glassformer.tasks.`; "" = not trained
    answers: its pipeline, after `glassformer.tasks.`; "" = none
    example: a model on the Hub that was trained for it
    also: further short names
    head: the task whose head a model needs for it, where transformers has none of this name
    """

    name: str = ""
    there: str = ""
    trains: str = ""
    answers: str = ""
    example: str = ""
    also: tuple[str, ...] = ()
    head: str = ""


TABLE = (
    TaskNames(
        "classify",
        "text-classification",
        "classify.task:Classify",
        "classify.pipeline:TextClassification",
        "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
        also=("sentiment-analysis",),
    ),
    TaskNames(
        "classify-image",
        "image-classification",
        "classify.media:ClassifyImage",
        "media:ImageClassification",
        "google/vit-base-patch16-224",
    ),
    TaskNames(
        "classify-audio",
        "audio-classification",
        "classify.media:ClassifyAudio",
        "media:AudioClassification",
        "superb/wav2vec2-base-superb-ks",
    ),
    TaskNames(
        "contrastive",
        "zero-shot-image-classification",
        "contrastive:Contrastive",
        "media:ZeroShotImageClassification",
        "openai/clip-vit-base-patch32",
    ),
    TaskNames(
        "tag",
        "token-classification",
        "tag.task:Tag",
        "tag.pipeline:TokenClassification",
        "dslim/bert-base-NER",
        also=("ner",),
    ),
    TaskNames(
        "tag-audio",
        "audio-frame-classification",
        "classify.frames:TagAudio",
        "media:AudioFrameClassification",
        "anton-l/wav2vec2-base-superb-sd",
    ),
    TaskNames(
        "answer",
        "question-answering",
        "span:AnswerText",
        "question_answering:QuestionAnswering",
        "distilbert/distilbert-base-cased-distilled-squad",
    ),
    TaskNames(
        "answer-table",
        "table-question-answering",
        "table_cells:AnswerTable",
        "tables:TableQuestionAnswering",
        "google/tapas-base-finetuned-wtq",
    ),
    TaskNames(
        "answer-image",
        "visual-question-answering",
        "answer_image:AnswerImage",
        "visual_questions:VisualQuestionAnswering",
        "unc-nlp/lxmert-vqa-uncased",
    ),
    TaskNames(
        "generate",
        "text-generation",
        "causal.task:Causal",
        "generate.pipeline:TextGeneration",
        "openai-community/gpt2",
    ),
    TaskNames("generate-image", trains="generate_image:GenerateImage"),
    TaskNames("instruct", trains="causal.task:Answers"),
    TaskNames("fill", "fill-mask", "masked:Masked", "masked:FillMask", "distilbert/distilroberta-base"),
    TaskNames(
        "translate",
        "translation",
        "seq2seq.generated:Translate",
        "generate.pipeline:TranslationPipeline",
        "google-t5/t5-small",
    ),
    TaskNames(
        "summarise",
        "summarization",
        "seq2seq.generated:Summarise",
        "generate.pipeline:Summarization",
        "sshleifer/distilbart-cnn-12-6",
    ),
    TaskNames("next-sentence", trains="pretrain:NextSentence"),
    TaskNames("pre-train", trains="pretrain:PreTraining"),
    TaskNames("sentence-order", trains="pretrain:SentenceOrder"),
    TaskNames("pre-train-image", trains="pretrain_image:PreTrainImage"),
    TaskNames("denoise", trains="seq2seq.denoise:Denoising"),
    TaskNames("gap-sentences", trains="seq2seq.denoise:GapSentences"),
    TaskNames("span-corruption", trains="seq2seq.denoise:SpanCorruption"),
    TaskNames(
        "transcribe",
        "automatic-speech-recognition",
        "transcribe.task:Transcribe",
        "media:SpeechRecognition",
        "openai/whisper-tiny",
    ),
    TaskNames("reconstruct", trains="codec.task:Reconstruct"),
    TaskNames("generate-audio", trains="audio_codes.generate:GenerateAudio"),
    TaskNames("audio-to-audio", trains="audio_codes.convert:AudioToAudio"),
    TaskNames(
        "embed",
        "feature-extraction",
        "embed:Embed",
        "pipelines:FeatureExtraction",
        "sentence-transformers/all-MiniLM-L6-v2",
        also=("features",),
    ),
    TaskNames("rank", "text-ranking", "rank:Rank", head="text-classification"),
    TaskNames(
        there="text2text-generation", answers="generate.pipeline:Text2TextGeneration", example="google-t5/t5-small"
    ),
    TaskNames(
        there="zero-shot-classification",
        answers="classify.zero_shot:ZeroShotClassification",
        example="facebook/bart-large-mnli",
    ),
    TaskNames(
        there="document-question-answering",
        answers="documents:DocumentQuestionAnswering",
        example="impira/layoutlm-document-qa",
    ),
    TaskNames(there="passage-reading", answers="passages:PassageReading", example="facebook/dpr-reader-single-nq-base"),
    TaskNames(
        there="image-feature-extraction",
        answers="media:ImageFeatureExtraction",
        example="google/vit-base-patch16-224",
    ),
)

TASK_ALIASES = {name: row.there for row in TABLE if row.there for name in (row.name, *row.also) if name}
"""Short names of tasks → Hugging Face pipeline names."""

HEADS = {row.there: row.head for row in TABLE if row.head}
"""Names of tasks → the task whose head they share."""

TRAINED = {row.name: f"glassformer.tasks.{row.trains}" for row in TABLE if row.trains}
"""Names of tasks that are trained → "module:class"."""

ANSWERED = {row.there: f"glassformer.tasks.{row.answers}" for row in TABLE if row.answers}
"""Names of tasks that have a pipeline → "module:class"."""

EXAMPLES = {row.there: row.example for row in TABLE if row.example}
"""Names of tasks that have a pipeline → a model on the Hub."""

SHORT = [row.name for row in TABLE if row.answers and row.name]
"""Short names of tasks that have a pipeline."""


def beginning(names: Iterable[str], count: int = 8) -> str:
    """The first of many names, for a help text: "classify, tag, …"."""
    listed = list(names)
    return ", ".join([*listed[:count], *(["…"] if len(listed) > count else [])])

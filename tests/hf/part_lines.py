"""Lines of the book, the course and the guides about models of one's own, parts of models, and training.

Each is run against both, as those of `lines.py`.
"""

from __future__ import annotations

from tests.hf.lines import Line

OWN_MODEL = """
import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel


class OwnConfig(PretrainedConfig):
    model_type = 'own-lines'

    def __init__(self, width=4, **kwargs):
        self.width = width
        super().__init__(**kwargs)


class OwnModel(PreTrainedModel):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = nn.Linear(config.width, 2)
        self.post_init()

    def forward(self, x):
        return self.model(x)
"""

PARTS: dict[str, Line] = {
    "config-print": Line(
        """
from transformers import AutoConfig

config = AutoConfig.from_pretrained(BERT)
s = str(config)
out = ['"hidden_size"' in s, s.startswith('BertConfig {'), config.model_type]
"""
    ),
    "custom-trainer": Line(
        """
import torch, torch.nn as nn
from datasets import Dataset
from transformers import (
    AutoConfig,
    AutoTokenizer,
    BertModel,
    BertPreTrainedModel,
    Trainer,
    TrainingArguments,
    DataCollatorForTokenClassification,
)
from transformers.modeling_outputs import TokenClassifierOutput


class Own(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(0.0)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None, **kwargs):
        x = self.classifier(
            self.dropout(
                self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)[0]
            )
        )
        loss = None if labels is None else nn.CrossEntropyLoss()(x.view(-1, self.num_labels), labels.view(-1))
        return TokenClassifierOutput(loss=loss, logits=x)


tok = AutoTokenizer.from_pretrained(NER)


def model_init():
    return Own.from_pretrained(NER, num_labels=3)


ds = Dataset.from_dict(
    {
        'input_ids': [[1, 4, 5, 2], [1, 6, 2]],
        'attention_mask': [[1] * 4, [1] * 3],
        'labels': [[-100, 0, 1, -100], [-100, 2, -100]],
    }
)
args = TrainingArguments(
    output_dir=OUT, num_train_epochs=1, per_device_train_batch_size=2, report_to='none', save_strategy='no'
)
trainer = Trainer(
    model_init=model_init,
    args=args,
    data_collator=DataCollatorForTokenClassification(tok),
    train_dataset=ds,
    eval_dataset=ds,
    processing_class=tok,
)
trainer.train()
trainer.save_model(OUT)
again = Own.from_pretrained(OUT)
out = [trainer.predict(ds).predictions.shape, sorted(k for k in again.state_dict() if 'classifier' in k)]
"""
    ),
    "hp": Line(
        """
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

tok = AutoTokenizer.from_pretrained(SENTIMENT)
ds = Dataset.from_dict({'text': ['time flies', 'a banana'], 'labels': [0, 1]}).map(
    lambda b: tok(b['text']), batched=True, remove_columns=['text']
)


def hp_space(trial):
    return {
        'num_train_epochs': trial.suggest_int('num_train_epochs', 1, 2),
        'learning_rate': trial.suggest_float('learning_rate', 1e-5, 1e-3),
    }


args = TrainingArguments(
    output_dir=OUT, eval_strategy='epoch', report_to='none', save_strategy='no', per_device_train_batch_size=2
)
trainer = Trainer(
    model_init=lambda: AutoModelForSequenceClassification.from_pretrained(SENTIMENT),
    args=args,
    train_dataset=ds,
    eval_dataset=ds,
    processing_class=tok,
)
best_run = trainer.hyperparameter_search(n_trials=2, direction='minimize', hp_space=hp_space)
for k, v in best_run.hyperparameters.items():
    setattr(trainer.args, k, v)
out = sorted(best_run.hyperparameters)
"""
    ),
    "collator-numpy": Line(
        """
from transformers import AutoTokenizer, DataCollatorForLanguageModeling, set_seed
import pandas as pd

tok = AutoTokenizer.from_pretrained(MASK)
data_collator = DataCollatorForLanguageModeling(tokenizer=tok, mlm_probability=0.15)
set_seed(3)
data_collator.return_tensors = 'np'
inputs = tok('time flies like an arrow', return_tensors='np')
outputs = data_collator([{'input_ids': inputs['input_ids'][0]}])
original_input_ids = inputs['input_ids'][0]
masked_input_ids = outputs['input_ids'][0]
out = [
    type(masked_input_ids).__name__,
    len(masked_input_ids),
    outputs['labels'][0].shape[0] == len(original_input_ids),
]
"""
    ),
    "glue-pair": Line(
        """
from transformers import AutoTokenizer, DataCollatorWithPadding
from datasets import Dataset

tokenizer = AutoTokenizer.from_pretrained(BERT)
raw = Dataset.from_dict(
    {
        'sentence1': ['time flies', 'a banana'],
        'sentence2': ['fruit flies like', 'an arrow'],
        'label': [0, 1],
        'idx': [0, 1],
    }
)


def tokenize_function(example):
    return tokenizer(example['sentence1'], example['sentence2'], truncation=True)


tokenized = raw.map(tokenize_function, batched=True)
data_collator = DataCollatorWithPadding(tokenizer=tokenizer)
samples = tokenized[:2]
samples = {k: v for k, v in samples.items() if k not in ['idx', 'sentence1', 'sentence2']}
batch = data_collator(samples)
out = {k: v for k, v in batch.items()}
"""
    ),
    "push": Line(
        """
from transformers import AutoModelForMaskedLM, AutoTokenizer

model = AutoModelForMaskedLM.from_pretrained(MASK)
tokenizer = AutoTokenizer.from_pretrained(MASK)
out = [callable(model.push_to_hub), callable(tokenizer.push_to_hub)]
"""
    ),
    "qa-by-hand": Line(
        """
import torch
from transformers import AutoTokenizer, AutoModelForQuestionAnswering

tokenizer = AutoTokenizer.from_pretrained(QA)
model = AutoModelForQuestionAnswering.from_pretrained(QA)
question, context = 'what flies', 'time flies like an arrow'
inputs = tokenizer(question, context, return_tensors='pt')
outputs = model(**inputs)
sequence_ids = inputs.sequence_ids()
mask = [i != 1 for i in sequence_ids]
mask[0] = False
mask = torch.tensor(mask)[None]
start_logits, end_logits = outputs.start_logits, outputs.end_logits
start_logits[mask] = -10000
end_logits[mask] = -10000
start_probabilities = torch.nn.functional.softmax(start_logits, dim=-1)[0]
end_probabilities = torch.nn.functional.softmax(end_logits, dim=-1)[0]
scores = torch.triu(start_probabilities[:, None] * end_probabilities[None, :])
max_index = scores.argmax().item()
out = [max_index // scores.shape[1], max_index % scores.shape[1], scores.max()]
"""
    ),
    "bert-fast-object": Line(
        """
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import BertTokenizerFast

tokenizer = Tokenizer(models.WordPiece(unk_token='[UNK]'))
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.train_from_iterator(
    ['time flies like an arrow'],
    trainer=trainers.WordPieceTrainer(
        vocab_size=60, special_tokens=['[UNK]', '[PAD]', '[CLS]', '[SEP]', '[MASK]'], show_progress=False
    ),
)
w = BertTokenizerFast(tokenizer_object=tokenizer)
out = [w.cls_token, w.tokenize('time flies')]
"""
    ),
    "debug-train-step": Line(
        """
import torch
from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
    DataCollatorWithPadding,
)

tok = AutoTokenizer.from_pretrained(SENTIMENT)
model = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
ds = Dataset.from_dict({'text': ['time flies', 'a banana'], 'label': [0, 1]}).map(
    lambda b: tok(b['text']), batched=True
)
trainer = Trainer(
    model,
    TrainingArguments(OUT, report_to='none', use_cpu=True),
    train_dataset=ds,
    eval_dataset=ds,
    data_collator=DataCollatorWithPadding(tok),
    processing_class=tok,
)
trainer.train_dataset[0]
data_collator = trainer.get_train_dataloader().collate_fn
actual_train_set = trainer._remove_unused_columns(trainer.train_dataset)
batch = data_collator([actual_train_set[i] for i in range(2)])
outputs = trainer.model.eval()(**batch)
trainer.create_optimizer()
loss = outputs.loss
loss.backward()
trainer.optimizer.step()
out = [sorted(batch), outputs.logits, trainer.model.device.type]
"""
    ),
    "asr-collator": Line(
        """
import torch
from dataclasses import dataclass
from transformers import AutoProcessor, AutoModelForCTC

processor = AutoProcessor.from_pretrained(CTC)


@dataclass
class DataCollatorCTCWithPadding:
    processor: AutoProcessor
    padding: str = 'longest'

    def __call__(self, features):
        input_features = [{'input_values': f['input_values'][0]} for f in features]
        label_features = [{'input_ids': f['labels']} for f in features]
        batch = self.processor.pad(input_features, padding=self.padding, return_tensors='pt')
        labels_batch = self.processor.pad(labels=label_features, padding=self.padding, return_tensors='pt')
        labels = labels_batch['input_ids'].masked_fill(labels_batch.attention_mask.ne(1), -100)
        batch['labels'] = labels
        return batch


def prepare_dataset(array, text):
    batch = processor(array, sampling_rate=16000, text=text)
    batch['input_length'] = len(batch['input_values'][0])
    return batch


rows = [prepare_dataset(SAMPLES, 'time'), prepare_dataset(SAMPLES[:1000], 'time flies')]
b = DataCollatorCTCWithPadding(processor=processor)(rows)
out = {k: v for k, v in b.items()}
"""
    ),
    "multiple-choice-equal": Line(
        """
import torch
from transformers import AutoTokenizer, BertForMultipleChoice

tokenizer = AutoTokenizer.from_pretrained(BERT)
model = BertForMultipleChoice.from_pretrained(BERT).eval()
with torch.no_grad():
    model.classifier.weight.copy_(torch.arange(8).view(1, 8) / 8.0)
    model.classifier.bias.zero_()
encoding = tokenizer(
    ['time flies', 'time flies'], ['like an arrow', 'a banana'], return_tensors='pt', padding=True
)
outputs = model(**{k: v.unsqueeze(0) for k, v in encoding.items()}, labels=torch.tensor([1]))
out = [outputs.loss, outputs.logits]
"""
    ),
    "multiple-choice-train": Line(
        """
from transformers import (
    AutoModelForMultipleChoice,
    AutoTokenizer,
    DataCollatorForMultipleChoice,
    Trainer,
    TrainingArguments,
)
from datasets import Dataset

tokenizer = AutoTokenizer.from_pretrained(BERT)
ending_names = ['ending0', 'ending1']


def preprocess_function(examples):
    first_sentences = [[context] * 2 for context in examples['sent1']]
    second_sentences = [
        [f'{header} {examples[end][i]}' for end in ending_names] for i, header in enumerate(examples['sent2'])
    ]
    first_sentences = sum(first_sentences, [])
    second_sentences = sum(second_sentences, [])
    tk = tokenizer(first_sentences, second_sentences, truncation=True)
    return {k: [v[i : i + 2] for i in range(0, len(v), 2)] for k, v in tk.items()}


ds = Dataset.from_dict(
    {
        'sent1': ['time flies', 'a banana'],
        'sent2': ['time', 'fruit'],
        'ending0': ['like', 'an arrow'],
        'ending1': ['flies', 'a'],
        'label': [0, 1],
    }
).map(preprocess_function, batched=True)
collator = DataCollatorForMultipleChoice(tokenizer=tokenizer)
model = AutoModelForMultipleChoice.from_pretrained(BERT)
args = TrainingArguments(
    output_dir=OUT, eval_strategy='epoch', save_strategy='no', num_train_epochs=1, report_to='none'
)
trainer = Trainer(
    model=model,
    args=args,
    train_dataset=ds,
    eval_dataset=ds,
    processing_class=tokenizer,
    data_collator=collator,
)
trainer.train()
out = trainer.predict(ds).predictions.shape
"""
    ),
    "kv-loop": Line(
        """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

tok = AutoTokenizer.from_pretrained(CHAT)
model = AutoModelForCausalLM.from_pretrained(CHAT)
past_key_values = DynamicCache(config=model.config)
inputs = tok('time flies', return_tensors='pt')
generated_ids = inputs.input_ids
cache_position = torch.arange(inputs.input_ids.shape[1], dtype=torch.int64)
ids, mask = inputs.input_ids, inputs.attention_mask
for _ in range(4):
    outputs = model(input_ids=ids, attention_mask=mask, past_key_values=past_key_values, use_cache=True)
    next_token_ids = outputs.logits[:, -1:].argmax(-1)
    generated_ids = torch.cat([generated_ids, next_token_ids], dim=-1)
    mask = torch.cat([mask, mask.new_ones((mask.shape[0], 1))], dim=-1)
    ids = next_token_ids
out = [generated_ids, past_key_values.get_seq_length()]
"""
    ),
    "prefill-cache-copy": Line(
        """
import copy, torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

tok = AutoTokenizer.from_pretrained(CHAT)
model = AutoModelForCausalLM.from_pretrained(CHAT)
prompt_cache = DynamicCache(config=model.config)
inputs_initial = tok('time flies', return_tensors='pt')
with torch.no_grad():
    prompt_cache = model(**inputs_initial, past_key_values=prompt_cache).past_key_values
res = []
for p in ['like', 'a banana']:
    new_inputs = tok('time flies ' + p, return_tensors='pt')
    past = copy.deepcopy(prompt_cache)
    o = model.generate(**new_inputs, past_key_values=past, max_new_tokens=4, do_sample=False)
    res.append(tok.batch_decode(o)[0])
out = res
"""
    ),
    "own-output": Line(
        """
from dataclasses import dataclass
from typing import Optional
import torch
from transformers.utils import ModelOutput


@dataclass
class MyOutput(ModelOutput):
    loss: Optional[torch.FloatTensor] = None
    logits: torch.FloatTensor = None


o = MyOutput(logits=torch.ones(2))
out = [list(o.keys()), o[0], o.loss, len(o.to_tuple())]
"""
    ),
    "find-linear": Line(
        """
import torch
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained(NLI)
names = sorted({n.split('.')[-1] for n, mod in model.named_modules() if isinstance(mod, torch.nn.Linear)})
out = names
"""
    ),
    "freeze": Line(
        """
from transformers import AutoModelForCTC

m = AutoModelForCTC.from_pretrained(CTC)
m.freeze_feature_encoder()
out = sum(p.numel() for p in m.parameters() if p.requires_grad)
"""
    ),
    "layer-list-slice": Line(
        """
import torch
from torch import nn
from transformers import AutoModel, AutoTokenizer

model = AutoModel.from_pretrained(BERT)
tok = AutoTokenizer.from_pretrained(BERT)
model.encoder.layer = nn.ModuleList(model.encoder.layer[:1])
out = model(**tok('time flies', return_tensors='pt')).last_hidden_state
"""
    ),
    "student-from-teacher": Line(
        """
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

teacher = AutoModelForMaskedLM.from_pretrained(MASK)
cfg = AutoConfig.from_pretrained(MASK, num_hidden_layers=1)
student = AutoModelForMaskedLM.from_config(cfg)
student.bert.embeddings.load_state_dict(teacher.bert.embeddings.state_dict())
student.bert.encoder.layer[0].load_state_dict(teacher.bert.encoder.layer[0].state_dict())
out = torch.equal(
    student.bert.embeddings.word_embeddings.weight, teacher.bert.embeddings.word_embeddings.weight
)
"""
    ),
    "layer-call": Line(
        """
import torch
from transformers import AutoModel, AutoTokenizer

m = AutoModel.from_pretrained(BERT)
tok = AutoTokenizer.from_pretrained(BERT)
e = m.embeddings(tok('time flies', return_tensors='pt').input_ids)
x = m.encoder(e)
out = [e, x.last_hidden_state if hasattr(x, 'last_hidden_state') else x[0]]
"""
    ),
    "pooler": Line(
        """
import torch
from transformers import BertModel, AutoTokenizer

m = BertModel.from_pretrained(BERT)
tok = AutoTokenizer.from_pretrained(BERT)
o = m(**tok('time flies', return_tensors='pt'))
out = [o.pooler_output, m.pooler(o.last_hidden_state) - o.pooler_output]
"""
    ),
    "named-modules-attn": Line(
        """
from transformers import AutoModel

m = AutoModel.from_pretrained(BERT)
out = [n for n, _ in m.named_modules() if n.endswith('attention') or n.endswith('output')]
"""
    ),
    "hook-attn-self": Line(
        """
import torch
from transformers import AutoModel, AutoTokenizer

m = AutoModel.from_pretrained(BERT)
tok = AutoTokenizer.from_pretrained(BERT)
seen = []
h = m.encoder.layer[0].attention.self.register_forward_hook(lambda mod, i, o: seen.append(o[0].detach()))
m(**tok('time flies', return_tensors='pt'))
h.remove()
out = seen[0]
"""
    ),
    "export": Line(
        """
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT).eval()
tok = AutoTokenizer.from_pretrained(SENTIMENT)
i = tok('time flies', return_tensors='pt')
p = torch.export.export(m, (), kwargs=dict(i), strict=False)
out = p.module()(**i).logits
"""
    ),
    "own-config": Line(
        """
from transformers import PretrainedConfig


class ResnetConfig(PretrainedConfig):
    model_type = 'resnet-own'

    def __init__(self, layers=[3, 4], num_classes=10, **kwargs):
        self.layers = layers
        self.num_classes = num_classes
        super().__init__(**kwargs)


c = ResnetConfig(layers=[1, 2])
c.save_pretrained(OUT)
d = ResnetConfig.from_pretrained(OUT)
out = [d.layers, d.num_classes, d.model_type]
"""
    ),
    "own-model": Line(
        OWN_MODEL
        + """

m = OwnModel(OwnConfig(width=3))
m.save_pretrained(OUT)
again = OwnModel.from_pretrained(OUT)
x = torch.ones(1, 3)
out = torch.equal(m(x), again(x))
"""
    ),
    "own-pipeline": Line(
        """
from transformers import Pipeline, AutoModelForSequenceClassification, AutoTokenizer
import torch


class PairClassificationPipeline(Pipeline):
    def _sanitize_parameters(self, **kwargs):
        return {k: v for k, v in kwargs.items() if k == 'second_text'}, {}, {}

    def preprocess(self, text, second_text=None):
        return self.tokenizer(text, text_pair=second_text, return_tensors='pt')

    def _forward(self, model_inputs):
        return self.model(**model_inputs)

    def postprocess(self, model_outputs):
        p = torch.softmax(model_outputs.logits, -1)[0]
        return {'label': self.model.config.id2label[int(p.argmax())], 'score': float(p.max())}


pipe = PairClassificationPipeline(
    model=AutoModelForSequenceClassification.from_pretrained(NLI),
    tokenizer=AutoTokenizer.from_pretrained(NLI),
)
out = pipe('time flies', second_text='a banana')
"""
    ),
    "parser": Line(
        """
from dataclasses import dataclass, field
from transformers import HfArgumentParser, TrainingArguments


@dataclass
class ModelArguments:
    model_name: str = field(default='bert', metadata={'help': 'name'})
    width: int = 8
    flag: bool = False


p = HfArgumentParser((ModelArguments, TrainingArguments))
a, t = p.parse_args_into_dataclasses(
    ['--width', '4', '--flag', '--output_dir', OUT, '--learning_rate', '1e-4', '--report_to', 'none']
)
out = [a.model_name, a.width, a.flag, t.learning_rate]
"""
    ),
    "onnx": Line(
        """
import torch, io
from transformers import AutoModelForSequenceClassification, AutoTokenizer

model = AutoModelForSequenceClassification.from_pretrained(SENTIMENT).eval()
tok = AutoTokenizer.from_pretrained(SENTIMENT)
enc = tok('time flies', return_tensors='pt')
torch.onnx.export(
    model,
    (enc['input_ids'], enc['attention_mask']),
    OUT + '.onnx',
    input_names=['input_ids', 'attention_mask'],
    output_names=['logits'],
    dynamic_axes={'input_ids': {0: 'b', 1: 's'}, 'attention_mask': {0: 'b', 1: 's'}, 'logits': {0: 'b'}},
    dynamo=False,
)
import onnxruntime

s = onnxruntime.InferenceSession(OUT + '.onnx')
out = s.run(None, {'input_ids': enc['input_ids'].numpy(), 'attention_mask': enc['attention_mask'].numpy()})[0]
"""
    ),
    "fe": Line(
        """
from transformers import AutoFeatureExtractor, AutoModelForAudioClassification
import torch

fe = AutoFeatureExtractor.from_pretrained(SOUNDS)
m = AutoModelForAudioClassification.from_pretrained(SOUNDS)
i = fe([SAMPLES, SAMPLES[:1200]], sampling_rate=fe.sampling_rate, padding=True, return_tensors='pt')
out = [i['input_values'].shape, m(**i).logits]
"""
    ),
    "hook-named-modules": Line(
        """
from transformers import AutoModelForCausalLM, AutoTokenizer

tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2).eval()
seen = []
for name, mod in m.named_modules():
    if name.endswith('mlp'):
        mod.register_forward_hook(lambda mod, i, o, name=name: seen.append(name))
m(**tok('time flies like', return_tensors='pt'))
out = seen
"""
    ),
    "linear-names": Line(
        """
import torch
from transformers import AutoModelForCausalLM

m = AutoModelForCausalLM.from_pretrained(CHAT)
out = sorted({n.split('.')[-1] for n, mod in m.named_modules() if isinstance(mod, torch.nn.Linear)})
"""
    ),
    "named-children": Line(
        """
from transformers import AutoModelForSequenceClassification

m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
out = [n for n, _ in m.named_children()]
"""
    ),
    "callback": Line(
        """
from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
    TrainerCallback,
    EarlyStoppingCallback,
)

seen = []


class CB(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kw):
        seen.append(sorted(logs))

    def on_epoch_end(self, args, state, control, **kw):
        seen.append(int(state.epoch))


tok = AutoTokenizer.from_pretrained(SENTIMENT)
ds = Dataset.from_dict({'text': ['time flies', 'a banana'], 'label': [0, 1]}).map(
    lambda b: tok(b['text']), batched=True
)
t = Trainer(
    AutoModelForSequenceClassification.from_pretrained(SENTIMENT),
    TrainingArguments(
        OUT,
        num_train_epochs=2,
        report_to='none',
        disable_tqdm=True,
        logging_strategy='epoch',
        save_strategy='no',
    ),
    train_dataset=ds,
    processing_class=tok,
    callbacks=[CB()],
)
t.train()
out = seen
"""
    ),
    "predict-argmax": Line(
        """
import numpy as np
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

tok = AutoTokenizer.from_pretrained(SENTIMENT)
ds = Dataset.from_dict({'text': ['time flies', 'a banana'], 'label': [0, 1]}).map(
    lambda b: tok(b['text']), batched=True
)
p = Trainer(
    AutoModelForSequenceClassification.from_pretrained(SENTIMENT),
    TrainingArguments(OUT, report_to='none', disable_tqdm=True),
    processing_class=tok,
).predict(ds)
out = [np.argmax(p.predictions, axis=1), p.label_ids, p.predictions.shape, sorted(p.metrics)]
"""
    ),
    "fillmask-score-word": Line(
        """
import torch
from transformers import AutoTokenizer, AutoModelForMaskedLM

tok = AutoTokenizer.from_pretrained(MASK)
m = AutoModelForMaskedLM.from_pretrained(MASK).eval()
t = tok.encode('time [MASK] like', return_tensors='pt')
pos = t.squeeze().tolist().index(tok.mask_token_id)
with torch.no_grad():
    p = torch.nn.functional.softmax(m(t)[0][0, pos], dim=-1)
out = [
    p[tok.convert_tokens_to_ids('flies')].item(),
    tok.convert_ids_to_tokens(torch.topk(p, 3).indices.tolist()),
]
"""
    ),
    "file-utils": Line(
        """
from transformers.file_utils import ModelOutput

out = ModelOutput.__name__
"""
    ),
    "repr-in": Line(
        """
from transformers import AutoTokenizer

tok = AutoTokenizer.from_pretrained(BERT)
out = [
    'vocab_size' in repr(tok),
    tok.padding_side,
    tok.truncation_side,
    tok.model_input_names,
    tok.init_kwargs is not None,
]
"""
    ),
    "textgen-chat": Line(
        """
from transformers import pipeline

g = pipeline('text-generation', model=CHAT)
out = g([{'role': 'user', 'content': 'time flies'}], max_new_tokens=4, do_sample=False)[0]['generated_text']
"""
    ),
    "two-sequences": Line(
        """
from transformers import pipeline

generator = pipeline('text-generation', model=GPT2)
out = [len(o['generated_text']) > 0 for o in generator('time flies', max_length=10, num_return_sequences=2)]
"""
    ),
    "init-weights": Line(
        """
import torch, torch.nn as nn
from transformers import RobertaConfig
from transformers.models.roberta.modeling_roberta import RobertaModel, RobertaPreTrainedModel


class Own(RobertaPreTrainedModel):
    config_class = RobertaConfig

    def __init__(self, config):
        super().__init__(config)
        self.roberta = RobertaModel(config, add_pooling_layer=False)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.init_weights()

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        return self.classifier(self.roberta(input_ids, attention_mask=attention_mask, **kwargs)[0])


m = Own(
    RobertaConfig(
        vocab_size=30,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=20,
        num_labels=5,
    )
).eval()
out = [
    list(m(torch.tensor([[0, 5, 6, 2]])).shape),
    m.num_labels if hasattr(m, 'num_labels') else None,
    sorted(n for n, _ in m.named_parameters() if 'classifier' in n),
]
""",
        wanted="out[0] == [1, 4, 5]",
    ),
    "bart-reads-its-input": Line(
        """
from transformers import AutoTokenizer, BartForConditionalGeneration

tok = AutoTokenizer.from_pretrained(BART)
model = BartForConditionalGeneration.from_pretrained(BART)
out = model(tok('time flies like', return_tensors='pt').input_ids).logits
"""
    ),
    "classifier-replaced": Line(
        """
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer

m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
torch.manual_seed(1)
m.classifier = nn.Linear(m.config.hidden_size, 5)
m.num_labels = 5
m.config.num_labels = 5
inputs = AutoTokenizer.from_pretrained(SENTIMENT)('time flies', return_tensors='pt')
before = m(**inputs, labels=torch.tensor([4]))
m.save_pretrained(OUT)
out = [before.logits, before.loss, AutoModelForSequenceClassification.from_pretrained(OUT)(**inputs).logits]
"""
    ),
    "scores-by-their-old-name": Line(
        """
from transformers import pipeline

preds = pipeline('text-classification', model=SENTIMENT)('time flies', return_all_scores=True)
out = [x['label'] for x in preds[0]]
""",
        wanted='sorted(out) == ["NEGATIVE", "POSITIVE"]',
    ),
    "a-layer-of-ones-own": Line(
        """
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer


class LoRALinear(nn.Module):
    def __init__(self, base, r=2):
        super().__init__()
        self.base = base
        self.A = nn.Parameter(torch.zeros(r, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, r))

    def forward(self, x):
        return self.base(x) + x @ self.A.T @ self.B.T


m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
tok = AutoTokenizer.from_pretrained(SENTIMENT)
for p in m.parameters():
    p.requires_grad = False
for layer in m.distilbert.transformer.layer:
    layer.attention.q_lin = LoRALinear(layer.attention.q_lin)
out = [
    m(**tok('time flies', return_tensors='pt')).logits,
    sum(p.numel() for p in m.parameters() if p.requires_grad),
]
""",
        refused="add_adapter",
    ),
    "chat-tools": Line(
        """
from transformers import AutoTokenizer

tok = AutoTokenizer.from_pretrained(CHAT)


def add(a: int, b: int) -> int:
    '''
    Add numbers.

    Args:
        a: one
        b: other
    '''
    return a + b


tok.chat_template = '{% for t in tools %}{{ t.function.name }} {% endfor %}{{ messages[0].content }}'
out = tok.apply_chat_template([{'role': 'user', 'content': 'time'}], tools=[add], tokenize=False)
"""
    ),
    "dataclass-args": Line(
        """
from dataclasses import dataclass
from transformers import TrainingArguments


@dataclass
class DistillationTrainingArguments(TrainingArguments):
    alpha: float = 0.5
    temperature: float = 2.0


a = DistillationTrainingArguments(output_dir=OUT, alpha=0.9, report_to='none', learning_rate=1e-3)
out = [a.alpha, a.temperature, a.learning_rate, a.per_device_train_batch_size]
"""
    ),
    "register": Line(
        OWN_MODEL
        + """
from transformers import AutoConfig, AutoModel


AutoConfig.register('own-lines', OwnConfig)
AutoModel.register(OwnConfig, OwnModel)
m = OwnModel(OwnConfig(width=3))
m.save_pretrained(OUT)
c = AutoConfig.from_pretrained(OUT)
again = AutoModel.from_pretrained(OUT)
out = [c.width, type(again).__name__, torch.equal(m(torch.ones(1, 3)), again(torch.ones(1, 3)))]
"""
    ),
    "tokenizer-pairs-batch": Line(
        """
from transformers import AutoTokenizer

tok = AutoTokenizer.from_pretrained(BERT)
out = dict(tok([('time', 'flies'), ('a banana', 'an arrow')], padding=True))
"""
    ),
    "sounds-padded-with-a-mask": Line(
        """
import json, pathlib, shutil
from transformers import Wav2Vec2FeatureExtractor
shutil.copytree(CTC, OUT)
path = pathlib.Path(OUT, 'preprocessor_config.json')
path.write_text(json.dumps({**json.loads(path.read_text()), 'return_attention_mask': True}))
fe = Wav2Vec2FeatureExtractor.from_pretrained(OUT)
sounds = fe([SAMPLES, SAMPLES[:800]], sampling_rate=16000, padding='max_length', max_length=3000, return_tensors='pt')
rows = [{'input_values': sounds.input_values[0]}, {'input_values': sounds.input_values[1][:800]}]
padded = fe.pad(rows, padding=True, return_tensors='pt')
out = [
    sounds.input_values[:, 790:810],
    sounds.attention_mask.sum(1),
    list(sounds.input_values.shape),
    padded.input_values.shape,
    padded.attention_mask.sum(1),
]
"""
    ),
}

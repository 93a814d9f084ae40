"""Lines of a book's chapters and of the reference library's task guides, after the names that they use.

Each is run against both, as those of `lines.py`.
"""

from __future__ import annotations

from tests.hf.guide_lines import BART, CLS, GPT, START, T5, TOK
from tests.hf.lines import Line

WAVE = START + "from transformers import AutoFeatureExtractor, AutoProcessor\n"

BOOK: dict[str, list[Line]] = {
    "names of parameters": [
        Line(GPT + "out = sorted(n for n, _ in m.named_parameters())"),
        Line(T5 + "out = sorted(n for n, p in m.named_parameters() if 'layer_norm' in n)"),
        Line(
            CLS + "for n, p in m.named_parameters():\n    p.requires_grad = n.startswith('classifier')\n"
            "out = sum(p.numel() for p in m.parameters() if p.requires_grad)"
        ),
        Line(
            CLS + "skip = ['bias', 'LayerNorm.weight']\n"
            "groups = [[p for n, p in m.named_parameters() if any(x in n for x in skip)],\n"
            "          [p for n, p in m.named_parameters() if not any(x in n for x in skip)]]\n"
            "out = [sum(p.numel() for p in g) for g in groups]"
        ),
        Line(CLS + "out = sorted(m.state_dict())"),
        Line(
            CLS + "import transformers\nstate = {k: v + 1 for k, v in m.state_dict().items()}\n"
            "out = [list(m.load_state_dict(state)[0]), m(input_ids=ids).logits]"
        ),
        Line(
            GPT + "torch.save(m.state_dict(), OUT + '.pt')\nn = type(m)(m.config)\n"
            "n.load_state_dict(torch.load(OUT + '.pt'))\nout = n.eval()(ids).logits"
        ),
        Line(CLS + "m.load_state_dict({'bert.nothing': torch.zeros(1)})", refused="1 surplus: bert.nothing"),
    ],
    "classes": [
        Line(CLS + "out = [type(m).__name__, m.__class__.__name__, m.config.__class__.__name__]"),
        Line(GPT + "out = [type(m).__name__, type(m.config).__name__]"),
        Line(
            CLS + "n = type(m)(m.config)\nout = [type(n).__name__, n.training, sum(p.numel() for p in n.parameters())]"
        ),
        Line(
            CLS + "from transformers import BertForSequenceClassification, BertConfig\n"
            "out = [isinstance(m, BertForSequenceClassification), isinstance(m.config, BertConfig)]"
        ),
        Line(
            CLS
            + "import pickle, copy\nout = [type(x).__name__ for x in (pickle.loads(pickle.dumps(m)), copy.deepcopy(m))]"
        ),
        Line(CLS + "out = m.loss_type"),
        Line(GPT + "out = m.loss_type"),
        Line(GPT + "out = [m.generation_config.eos_token_id, m.generation_config.bos_token_id]"),
        Line(T5 + "out = m.generation_config.decoder_start_token_id"),
        Line(BART + "out = type(m.get_decoder()).__name__ != '' and len(m.get_decoder().layers)"),
        Line(T5 + "out = len(m.get_decoder().block)"),
        Line(
            START + "m = AutoModel.from_pretrained(BERT, torchscript=True)\n"
            "t = torch.jit.trace(m, (ids, torch.ones_like(ids)))\nout = t(ids, torch.ones_like(ids))[0]",
            wanted="out.shape == (1, 3, 8)",  # newer releases of the reference have no such keyword
        ),
        Line(
            CLS + "t = torch.jit.trace(m, [ids, torch.ones_like(ids)], strict=False)\n"
            "out = t(ids, torch.ones_like(ids))['logits']"
        ),
        Line(WAVE + "out = AutoFeatureExtractor.from_pretrained(SOUNDS).do_normalize"),
        Line(
            WAVE + "f = AutoFeatureExtractor.from_pretrained(CTC)\n"
            "out = [f.feature_size, f.padding_value, f.return_attention_mask]"
        ),
    ],
    "beams": [
        Line(
            GPT + "o = m.generate(ids, num_beams=2, max_new_tokens=4, return_dict_in_generate=True, output_scores=True,"
            " output_hidden_states=True)\nout = [o.sequences, [[list(y.shape) for y in x] for x in o.hidden_states]]"
        ),
        Line(
            GPT + "o = m.generate(ids, num_beams=3, num_return_sequences=2, max_new_tokens=5, eos_token_id=6,"
            " return_dict_in_generate=True, output_scores=True)\n"
            "out = [o.beam_indices, m.compute_transition_scores(o.sequences, o.scores, o.beam_indices)]"
        ),
        Line(
            GPT
            + "o = m.generate(ids, num_beams=3, max_new_tokens=4, return_dict_in_generate=True, output_attentions=True,"
            " output_hidden_states=True)\nout = [o.hidden_states, o.attentions, o.beam_indices]"
        ),
        Line(
            BART
            + "o = m.generate(ids, num_beams=2, max_new_tokens=4, return_dict_in_generate=True, output_attentions=True,"
            " output_hidden_states=True)\nout = [o.encoder_hidden_states, o.decoder_hidden_states, o.cross_attentions]"
        ),
    ],
    "chapters": [
        Line("""
from transformers import pipeline
import pandas as pd
out = pd.DataFrame(pipeline('text-classification', model=SENTIMENT)('time flies')).to_dict()
"""),
        Line("""
from transformers import pipeline
import pandas as pd
p = pipeline('ner', aggregation_strategy='simple', model=NER)
out = pd.DataFrame(p('time flies like an arrow')).columns.tolist()
"""),
        Line(
            TOK
            + """
text = tok.convert_tokens_to_string(tok.tokenize('time flies'))
out = [tok.vocab_size, tok.model_max_length, tok.model_input_names, tok.cls_token, text]
"""
        ),
        Line(
            TOK
            + """
out = sorted(zip(tok.all_special_tokens, tok.all_special_ids), key=lambda x: x[1])
"""
        ),
        Line(
            TOK
            + """
df = {'id': tok.convert_tokens_to_ids(['[CLS]', '[SEP]', '[UNK]', '[PAD]'])}
out = df
"""
        ),
        Line(
            TOK
            + """
enc = tok('time flies', return_tensors='pt')
out = enc['input_ids'].size()
"""
        ),
        Line(
            TOK
            + """
m = AutoModel.from_pretrained(BERT).to(torch.device('cpu'))
def f(batch):
    x = {k: v for k, v in batch.items() if k in tok.model_input_names}
    with torch.no_grad():
        h = m(**x).last_hidden_state
    return {'hidden_state': h[:, 0].cpu().numpy()}
out = f(tok(['time', 'flies like'], padding=True, return_tensors='pt'))
"""
        ),
        Line(
            TOK
            + """
from datasets import Dataset
d = Dataset.from_dict({'text': ['time flies', 'a banana'], 'label': [0, 1]})
e = d.map(lambda b: tok(b['text'], padding=True, truncation=True), batched=True, batch_size=None)
e.set_format('torch', columns=['input_ids', 'attention_mask', 'label'])
out = [e.column_names, e[0]['input_ids']]
"""
        ),
        Line(
            CLS
            + """
from torch.nn.functional import cross_entropy
with torch.inference_mode():
    o = m(input_ids=ids)
    p = torch.argmax(o.logits, axis=-1)
    l = cross_entropy(o.logits, torch.tensor([1]), reduction='none')
out = [p, l]
"""
        ),
        Line(
            CLS
            + """
out = [m.config.id2label[i] for i in m(ids).logits.softmax(-1).argsort(descending=True)[0].tolist()]
"""
        ),
        Line("""
from transformers import AutoConfig
c = AutoConfig.from_pretrained(BERT)
out = [c.model_type, c.hidden_act, c.type_vocab_size, c.layer_norm_eps, c.to_dict()['hidden_size']]
"""),
        Line(
            START
            + """
from transformers import AutoConfig
from math import sqrt
c = AutoConfig.from_pretrained(BERT)
m = AutoModel.from_config(c)
out = [m.training, m.embeddings.word_embeddings.num_embeddings, m.embeddings.LayerNorm.eps]
"""
        ),
        Line("""
from transformers import AutoTokenizer
t = AutoTokenizer.from_pretrained(NER)
x = t('time flies like'.split(), is_split_into_words=True)
out = [x.word_ids(), t.convert_ids_to_tokens(x['input_ids'])]
"""),
        Line("""
from transformers import AutoTokenizer, AutoModelForTokenClassification, DataCollatorForTokenClassification
t = AutoTokenizer.from_pretrained(NER)
m = AutoModelForTokenClassification.from_pretrained(NER)
c = DataCollatorForTokenClassification(t)
b = c([{'input_ids': [1, 4, 2], 'labels': [-100, 1, -100]}, {'input_ids': [1, 4, 5, 2], 'labels': [-100, 0, 2, -100]}])
out = [b['labels'], m(**b).loss]
"""),
        Line(
            GPT
            + """
tok = AutoTokenizer.from_pretrained(GPT2)
i = tok('time flies', return_tensors='pt')['input_ids']
rows = []
with torch.no_grad():
    for _ in range(3):
        p = torch.softmax(m(input_ids=i).logits[0, -1, :], dim=-1)
        s = torch.argsort(p, dim=-1, descending=True)
        rows.append([tok.decode(s[0]), float(p[s[0]])])
        i = torch.cat([i, s[None, 0, None]], dim=-1)
out = rows
"""
        ),
        Line(
            GPT
            + """
out = m.generate(ids, max_length=9, num_beams=3, do_sample=False, no_repeat_ngram_size=2)
"""
        ),
        Line(
            GPT
            + """
torch.manual_seed(42)
out = m.generate(ids, max_length=9, do_sample=True, temperature=0.5, top_k=0).shape[0]
"""
        ),
        Line(
            """
from transformers import pipeline
p = pipeline('summarization', model=BART)
out = p('time flies', max_length=9, clean_up_tokenization_spaces=True)[0]['summary_text'].split()
""",
            wanted="isinstance(out, list)",
        ),
        Line(
            T5
            + """
tok = AutoTokenizer.from_pretrained(T5)
i = tok(['time flies', 'a banana'], max_length=8, truncation=True, padding='max_length', return_tensors='pt')
s = m.generate(
    input_ids=i['input_ids'], attention_mask=i['attention_mask'], length_penalty=0.8, num_beams=4, max_length=8
)
out = [tok.decode(x, skip_special_tokens=True, clean_up_tokenization_spaces=True) for x in s]
"""
        ),
        Line(
            T5
            + """
tok = AutoTokenizer.from_pretrained(T5)
try:
    with tok.as_target_tokenizer():
        l = tok(['time'], max_length=4, truncation=True)
except AttributeError:
    l = tok(text_target=['time'], max_length=4, truncation=True)
out = l['input_ids']
"""
        ),
        Line(
            """
from transformers import pipeline
r = pipeline('question-answering', model=QA)
out = r(question='time', context='fruit flies like a banana', top_k=2)
""",
            wanted="len(out) == 2 and set(out[0]) == {'score', 'start', 'end', 'answer'}",
        ),
        Line("""
from transformers import AutoTokenizer, AutoModelForQuestionAnswering
import torch
t = AutoTokenizer.from_pretrained(QA)
m = AutoModelForQuestionAnswering.from_pretrained(QA)
i = t('time', 'fruit flies like', return_tensors='pt')
o = m(**i)
s, e = torch.argmax(o.start_logits), torch.argmax(o.end_logits) + 1
out = [t.decode(i['input_ids'][0]), o.start_logits, int(s), int(e)]
"""),
        Line("""
from transformers import AutoTokenizer
t = AutoTokenizer.from_pretrained(QA)
text = 'fruit flies like a banana . time flies like an arrow'
x = t('time', text, return_overflowing_tokens=True, max_length=9, stride=2, truncation='only_second')
out = [len(w) for w in x['input_ids']] + [x['overflow_to_sample_mapping']]
"""),
        Line(
            CLS
            + """
import numpy as np
from time import perf_counter
sizes = sum(p.numel() for p in m.parameters())
torch.save(m.state_dict(), OUT + '.pt')
import os
out = [sizes, os.path.getsize(OUT + '.pt') > 1000]
"""
        ),
        Line(
            CLS
            + """
import torch.nn.functional as F
t = m(ids).logits
kl = torch.nn.KLDivLoss(reduction='batchmean')
out = 4 * kl(F.log_softmax(t / 2, dim=-1), F.softmax(t.detach() / 2 + 0.1, dim=-1))
"""
        ),
        Line(
            START
            + """
from transformers import AutoConfig
c = AutoConfig.from_pretrained(NLI, num_labels=3, id2label={0: 'a', 1: 'b', 2: 'c'}, label2id={'a': 0, 'b': 1, 'c': 2})
m = AutoModelForSequenceClassification.from_pretrained(NLI, config=c)
out = [m.config.num_labels, m.config.label2id]
"""
        ),
        Line("""
from transformers import pipeline
p = pipeline('zero-shot-classification', model=NLI, device=-1)
out = p('time flies', ['fruit', 'arrow', 'time'], multi_label=True)
"""),
        Line("""
from transformers import pipeline, set_seed
p = pipeline('text-generation', model=GPT2)
set_seed(1)
found = p('time flies', num_return_sequences=3, max_new_tokens=3, do_sample=True, clean_up_tokenization_spaces=False)
out = [x['generated_text'].startswith('time') for x in found]
"""),
        Line("""
from transformers import AutoConfig, AutoModelForCausalLM
c = AutoConfig.from_pretrained(GPT2, vocab_size=31)
m = AutoModelForCausalLM.from_config(c)
out = [sum(t.numel() for t in m.parameters()), m.transformer.wte.num_embeddings]
"""),
        Line(
            GPT
            + """
from torch.optim import AdamW
def groups(model, no_decay=['bias', 'LayerNorm.weight']):
    a, b = [], []
    for n, p in model.named_parameters():
        (b if any(nd in n for nd in no_decay) else a).append(p)
    return [{'params': a, 'weight_decay': 0.1}, {'params': b, 'weight_decay': 0.0}]
o = AdamW(groups(m), lr=1e-3)
l = m(ids, labels=ids).loss
l.backward()
o.step()
out = [[len(g['params']) for g in o.param_groups], m.eval()(ids, labels=ids).loss]
"""
        ),
        Line(
            GPT
            + """
from accelerate import Accelerator
a = Accelerator(cpu=True)
from torch.optim import AdamW
o = AdamW(m.parameters(), lr=1e-3)
m2, o = a.prepare(m, o)
l = m2(ids, labels=ids).loss
a.backward(l)
a.clip_grad_norm_(m2.parameters(), 1.0)
o.step()
out = float(l)
"""
        ),
        Line("""
from transformers import pipeline
out = pipeline('image-classification', model=VIT)([PICTURE, PICTURE], top_k=1)
"""),
        Line("""
from transformers import ViTImageProcessor, ViTForImageClassification
from PIL import Image
import torch
p = ViTImageProcessor.from_pretrained(VIT)
m = ViTForImageClassification.from_pretrained(VIT)
i = p([Image.open(PICTURE)] * 2, return_tensors='pt')
with torch.no_grad():
    o = m(**i)
out = [o.logits.argmax(-1), p.size['height'], i['pixel_values'].shape]
"""),
        Line("""
from transformers import CLIPModel, CLIPProcessor
from PIL import Image
m = CLIPModel.from_pretrained(CLIP)
p = CLIPProcessor.from_pretrained(CLIP)
i = p(text=['time', 'a banana'], images=Image.open(PICTURE), return_tensors='pt', padding=True)
o = m(**i)
out = [o.logits_per_image.softmax(dim=1), o.logits_per_text, o.text_embeds.shape, o.image_embeds.shape]
"""),
        Line("""
from transformers import AutoModelForCTC, AutoProcessor
import torch
p = AutoProcessor.from_pretrained(CTC)
m = AutoModelForCTC.from_pretrained(CTC)
i = p(SAMPLES, sampling_rate=16000, return_tensors='pt')
with torch.no_grad():
    l = m(**i).logits
out = p.batch_decode(torch.argmax(l, dim=-1))
"""),
        Line("""
from transformers import AutoFeatureExtractor, AutoModelForAudioClassification
import torch
f = AutoFeatureExtractor.from_pretrained(SOUNDS)
m = AutoModelForAudioClassification.from_pretrained(SOUNDS)
o = m(**f(SAMPLES, sampling_rate=f.sampling_rate, return_tensors='pt')).logits
out = m.config.id2label[torch.argmax(o).item()]
"""),
        Line("""
from transformers import pipeline
out = pipeline('audio-classification', model=SOUNDS)({'array': SAMPLES, 'sampling_rate': 16000})
"""),
        Line("""
from transformers import AutoModelForMaskedLM, AutoTokenizer
import torch
t = AutoTokenizer.from_pretrained(MASK)
m = AutoModelForMaskedLM.from_pretrained(MASK)
i = t('time [MASK] like', return_tensors='pt')
at = torch.where(i['input_ids'] == t.mask_token_id)[1]
l = m(**i).logits
top = torch.topk(l[0, at, :], 3, dim=1).indices[0].tolist()
out = [t.decode([x]) for x in top]
"""),
        Line(
            START
            + """
from transformers import TrainingArguments, Trainer
m = AutoModelForSequenceClassification.from_pretrained(NLI)
Trainer(model=m, args=TrainingArguments('x')).hyperparameter_search(n_trials=2)
""",
            refused="model_init",
        ),
        Line(
            START
            + """
from transformers import AutoModelForMultipleChoice
AutoModelForMultipleChoice.from_pretrained(GPT2)
""",
            refused="score each choice as a pair",
        ),
        Line("""
from transformers import AutoTokenizer
t = AutoTokenizer.from_pretrained(CHAT)
chat = [{'role': 'user', 'content': 'time'}, {'role': 'assistant', 'content': 'flies'}]
out = t.apply_chat_template(chat, tokenize=False)
"""),
        Line("""
from transformers import pipeline
p = pipeline('text-generation', model=CHAT)
out = p([{'role': 'user', 'content': 'time'}], max_new_tokens=3, do_sample=False)[0]['generated_text'][-1]['role']
"""),
        Line("""
from transformers import AutoTokenizer, AutoModelForCausalLM, TextIteratorStreamer
from threading import Thread
t = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2)
i = t(['time flies'], return_tensors='pt')
s = TextIteratorStreamer(t)
th = Thread(target=m.generate, kwargs=dict(i, streamer=s, max_new_tokens=4, do_sample=False))
th.start()
out = ''.join(s)
th.join()
"""),
        Line(
            TOK
            + """
n = tok.add_tokens(['newword'])
m = AutoModel.from_pretrained(BERT)
m.resize_token_embeddings(len(tok))
out = [n, m.get_input_embeddings().weight.shape, tok('newword').input_ids]
"""
        ),
        Line(
            TOK
            + """
new = tok.train_new_from_iterator([['time flies'], ['a banana']], vocab_size=20)
out = [new.tokenize('time banana'), sorted({'time', 'flies', 'a', 'banana'} - set(new.get_vocab()))]
"""
        ),
        Line("""
from transformers import AutoTokenizer
t = AutoTokenizer.from_pretrained(BERT)
x = t('time flies like', return_offsets_mapping=True, return_special_tokens_mask=True)
out = [x['offset_mapping'], x['special_tokens_mask'], t.decode(x['input_ids'], skip_special_tokens=True)]
"""),
        Line("""
from transformers import AutoTokenizer
t = AutoTokenizer.from_pretrained(BERT)
out = [t.backend_tokenizer.normalizer is None, t.is_fast, t.get_added_vocab(), t.special_tokens_map]
"""),
        Line("""
from transformers.pipelines import get_supported_tasks
out = 'text-classification' in get_supported_tasks()
"""),
        Line("""
from transformers import pipeline
p = pipeline('text-classification', model=SENTIMENT)
out = [p.model.config.id2label, p.task, p.device.type, type(p.tokenizer('time')).__name__ != '']
"""),
        Line(
            START
            + """
from transformers import EarlyStoppingCallback
out = EarlyStoppingCallback(3).early_stopping_patience
"""
        ),
    ],
}

"""Idioms of books, notebooks and guides, from tokenizers to audio, as users type them.

Each is run against both, as those of `lines.py`.
"""

from __future__ import annotations

from tests.hf.lines import Line

IDIOMS: dict[str, Line] = {
    "enc-attrs": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
e = tok('time flies like an arrow')
out = [e.input_ids, e.attention_mask, list(e.keys()), e.word_ids(), e.tokens()]
"""
    ),
    "backend": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
out = [
    type(tok.backend_tokenizer).__name__,
    tok.is_fast,
    tok.backend_tokenizer.normalizer is None,
    [t for t, _ in tok.backend_tokenizer.pre_tokenizer.pre_tokenize_str('time flies')],
]
"""
    ),
    "truncation-pair": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(QA)
e = tok(
    'time flies',
    'fruit flies like a banana time flies like an arrow',
    max_length=8,
    truncation='only_second',
    stride=2,
    return_overflowing_tokens=True,
    return_offsets_mapping=True,
    padding='max_length',
)
out = [
    e['input_ids'],
    e['overflow_to_sample_mapping'],
    e['offset_mapping'],
    [e.sequence_ids(i) for i in range(len(e['input_ids']))],
]
"""
    ),
    "token_to_chars": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
e = tok('time flies like')
out = [
    tuple(e.token_to_chars(1)),
    e.char_to_token(5),
    e.token_to_word(2),
    tuple(e.word_to_chars(1)),
    e.char_to_word(6),
    e.token_to_sequence(1),
]
"""
    ),
    "encodings": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
e = tok(['time flies', 'fruit'])
out = [len(e.encodings), e.encodings[0].tokens, e[1].ids, e.n_sequences, e.is_fast]
"""
    ),
    "from_encode_plus": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
out = dict(
    tok.encode_plus(
        'time flies',
        add_special_tokens=True,
        max_length=6,
        padding='max_length',
        truncation=True,
        return_attention_mask=True,
    )
)
""",
        wanted="out['input_ids'] == [1, 4, 5, 2, 0, 0]",
    ),
    "batch_encode_plus": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
out = dict(tok.batch_encode_plus(['time flies', 'fruit'], padding=True))
""",
        wanted="out['attention_mask'] == [[1, 1, 1, 1], [1, 1, 1, 0]]",
    ),
    "special tokens map": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(MASK)
out = [
    tok.special_tokens_map['mask_token'],
    tok.mask_token_id,
    tok.all_special_tokens == list(tok.all_special_tokens),
    tok.pad_token_id,
    tok.padding_side,
    tok.truncation_side,
]
"""
    ),
    "add special tokens resize": Line(
        """
from transformers import AutoTokenizer, AutoModelForCausalLM
tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2)
n = tok.add_special_tokens({'pad_token': '<pad>', 'additional_special_tokens': ['<x>']})
m.resize_token_embeddings(len(tok))
out = [n, len(tok), m.get_input_embeddings().weight.shape[0], m.config.vocab_size, tok.pad_token_id]
"""
    ),
    "train new": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(GPT2)
try:
    new = tok.train_new_from_iterator([['time flies like an arrow'] * 20], vocab_size=300)
    out = len(new) > 0
except Exception as e:
    out = True
"""
    ),
    "left padding generation": Line(
        """
from transformers import AutoTokenizer, AutoModelForCausalLM
tok = AutoTokenizer.from_pretrained(GPT2, padding_side='left')
tok.pad_token = tok.eos_token
m = AutoModelForCausalLM.from_pretrained(GPT2)
b = tok(['time flies', 'fruit flies like a'], return_tensors='pt', padding=True)
o = m.generate(**b, max_new_tokens=5, do_sample=False, pad_token_id=tok.eos_token_id)
out = [o, tok.batch_decode(o[:, b['input_ids'].shape[1] :], skip_special_tokens=True)]
"""
    ),
    "manual greedy loop with cache": Line(
        """
import torch
from transformers import AutoTokenizer, AutoModelForCausalLM
tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2).eval()
ids = tok('time flies', return_tensors='pt').input_ids
past = None
gen = ids
with torch.no_grad():
    cur = ids
    for _ in range(5):
        o = m(cur, past_key_values=past, use_cache=True)
        past = o.past_key_values
        cur = o.logits[:, -1:].argmax(-1)
        gen = torch.cat([gen, cur], dim=-1)
out = gen
"""
    ),
    "top5 next tokens": Line(
        """
import torch
from transformers import AutoTokenizer, AutoModelForCausalLM
tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2)
with torch.no_grad():
    p = torch.softmax(m(**tok('time flies', return_tensors='pt')).logits[0, -1], -1)
v, i = torch.topk(p, 5)
out = [[tok.decode(int(k)), float(x)] for k, x in zip(i, v)]
"""
    ),
    "perplexity labels": Line(
        """
import torch
from transformers import AutoTokenizer, AutoModelForCausalLM
tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2)
e = tok('time flies like an arrow', return_tensors='pt')
out = torch.exp(m(**e, labels=e['input_ids']).loss).item()
"""
    ),
    "masked labels -100": Line(
        """
import torch
from transformers import AutoTokenizer, AutoModelForMaskedLM
tok = AutoTokenizer.from_pretrained(MASK)
m = AutoModelForMaskedLM.from_pretrained(MASK)
e = tok('time [MASK] like', return_tensors='pt')
labels = torch.full_like(e.input_ids, -100)
pos = (e.input_ids == tok.mask_token_id).nonzero(as_tuple=True)[1]
labels[0, pos] = 5
out = m(**e, labels=labels).loss.item()
"""
    ),
    "collator mlm": Line(
        """
import torch
from transformers import AutoTokenizer, DataCollatorForLanguageModeling
tok = AutoTokenizer.from_pretrained(MASK)
c = DataCollatorForLanguageModeling(tokenizer=tok, mlm=True, mlm_probability=0.15)
b = c([tok('time flies like an arrow'), tok('fruit')])
out = [sorted(b.keys()), list(b['input_ids'].shape), list(b['labels'].shape)]
"""
    ),
    "collator padding": Line(
        """
from transformers import AutoTokenizer, DataCollatorWithPadding
tok = AutoTokenizer.from_pretrained(BERT)
c = DataCollatorWithPadding(tokenizer=tok, return_tensors='pt')
out = {k: v for k, v in c([tok('time flies'), tok('a')]).items()}
"""
    ),
    "collator token class": Line(
        """
from transformers import AutoTokenizer, DataCollatorForTokenClassification
tok = AutoTokenizer.from_pretrained(NER)
c = DataCollatorForTokenClassification(tok)
a, b = tok('time flies'), tok('a')
a['labels'] = [-100] + [0] * (len(a['input_ids']) - 2) + [-100]
b['labels'] = [-100, 1, -100]
out = {k: v for k, v in c([a, b]).items()}
"""
    ),
    "collator seq2seq": Line(
        """
from transformers import AutoTokenizer, AutoModelForSeq2SeqLM, DataCollatorForSeq2Seq
tok = AutoTokenizer.from_pretrained(T5)
m = AutoModelForSeq2SeqLM.from_pretrained(T5)
c = DataCollatorForSeq2Seq(tok, model=m)
b = c([{'input_ids': [5, 6, 7], 'labels': [4, 5]}, {'input_ids': [5], 'labels': [4, 5, 6]}])
out = {k: v for k, v in b.items()}
"""
    ),
    "config to json": Line(
        """
from transformers import AutoConfig
import json
c = AutoConfig.from_pretrained(BERT, num_labels=4)
out = [
    c.num_labels,
    c.id2label,
    c.label2id,
    c.model_type,
    json.loads(c.to_json_string())['hidden_size'],
    c.to_dict()['num_attention_heads'],
]
"""
    ),
    "config from class": Line(
        """
from transformers import BertConfig, BertModel
c = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
m = BertModel(c)
out = [
    c.max_position_embeddings,
    c.hidden_act,
    m.num_parameters(),
    sum(p.numel() for p in m.parameters() if p.requires_grad),
]
"""
    ),
    "gpt2 config from scratch": Line(
        """
from transformers import GPT2Config, GPT2LMHeadModel
c = GPT2Config(vocab_size=60, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
m = GPT2LMHeadModel(c)
out = [
    m.num_parameters(),
    m.config.n_ctx if hasattr(m.config, 'n_ctx') else 0,
    round(sum(t.numel() for t in m.parameters()) / 1000**2, 6),
]
"""
    ),
    "automodel from config": Line(
        """
from transformers import AutoConfig, AutoModelForSequenceClassification
c = AutoConfig.from_pretrained(BERT, num_labels=3, output_hidden_states=True)
m = AutoModelForSequenceClassification.from_config(c)
import torch
o = m(torch.tensor([[1, 5, 2]]))
out = [list(o.logits.shape), len(o.hidden_states)]
"""
    ),
    "freeze encoder": Line(
        """
from transformers import AutoModelForSequenceClassification
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
for p in m.distilbert.parameters():
    p.requires_grad = False
out = sorted(n for n, p in m.named_parameters() if p.requires_grad)
"""
    ),
    "problem type multi": Line(
        """
import torch
from transformers import AutoModelForSequenceClassification
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT, problem_type='multi_label_classification')
o = m(input_ids=torch.tensor([[1, 5, 2]]), labels=torch.tensor([[1.0, 0.0]]))
out = [o.loss.item(), torch.sigmoid(o.logits)]
"""
    ),
    "ignore mismatched": Line(
        """
import torch
from transformers import AutoModelForSequenceClassification
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT, num_labels=5, ignore_mismatched_sizes=True)
out = [m.config.num_labels, list(m(input_ids=torch.tensor([[1, 5, 2]])).logits.shape)]
"""
    ),
    "id2label given": Line(
        """
from transformers import AutoModelForTokenClassification
m = AutoModelForTokenClassification.from_pretrained(
    BERT, id2label={0: 'O', 1: 'B-PER', 2: 'I-PER'}, label2id={'O': 0, 'B-PER': 1, 'I-PER': 2}
)
out = [m.config.id2label, m.num_labels, m.classifier.out_features]
"""
    ),
    "training loop manual": Line(
        """
import torch
from torch.utils.data import DataLoader
from torch.optim import AdamW
from transformers import (
    AutoTokenizer,
    AutoModelForSequenceClassification,
    get_scheduler,
    DataCollatorWithPadding,
)
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT, num_labels=2)
rows = [{**tok(t), 'labels': y} for t, y in [('time flies', 0), ('fruit flies like a banana', 1)] * 4]
dl = DataLoader(rows, batch_size=4, shuffle=False, collate_fn=DataCollatorWithPadding(tok))
opt = AdamW(m.parameters(), lr=1e-3)
sched = get_scheduler('linear', optimizer=opt, num_warmup_steps=0, num_training_steps=2 * len(dl))
m.eval()
losses = []
for epoch in range(2):
    for b in dl:
        loss = m(**b).loss
        loss.backward()
        opt.step()
        sched.step()
        opt.zero_grad()
        losses.append(loss.item())
out = losses
"""
    ),
    "schedulers": Line(
        """
import torch
from transformers import (
    get_linear_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_constant_schedule_with_warmup,
)
out = []
for f, a in (
    (get_linear_schedule_with_warmup, (2, 8)),
    (get_cosine_schedule_with_warmup, (2, 8)),
    (get_constant_schedule_with_warmup, (3,)),
):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    s = f(opt, *a)
    xs = []
    for _ in range(8):
        xs.append(opt.param_groups[0]['lr'])
        opt.step()
        s.step()
    out.append(xs)
"""
    ),
    "hidden states features": Line(
        """
import torch
from transformers import AutoModel, AutoTokenizer
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModel.from_pretrained(SENTIMENT)
b = tok(['time flies', 'fruit'], padding=True, return_tensors='pt')
with torch.no_grad():
    h = m(**b).last_hidden_state
out = h[:, 0].cpu().numpy()
"""
    ),
    "mean pooling": Line(
        """
import torch
from transformers import AutoModel, AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
m = AutoModel.from_pretrained(BERT)
b = tok(['time flies', 'fruit'], padding=True, truncation=True, return_tensors='pt')
def mean_pooling(model_output, attention_mask):
    emb = model_output[0]
    mask = attention_mask.unsqueeze(-1).expand(emb.size()).float()
    return torch.sum(emb * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)
with torch.no_grad():
    o = m(**b)
out = torch.nn.functional.normalize(mean_pooling(o, b['attention_mask']), p=2, dim=1)
"""
    ),
    "attentions bertviz style": Line(
        """
import torch
from transformers import AutoModel, AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
m = AutoModel.from_pretrained(BERT, output_attentions=True)
i = tok('time flies', 'fruit flies', return_tensors='pt')
a = m(**i).attentions
out = [len(a), a[0], (i.token_type_ids == 0).sum(dim=1).item(), tok.convert_ids_to_tokens(i.input_ids[0])]
"""
    ),
    "qa by hand": Line(
        """
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer
tok = AutoTokenizer.from_pretrained(QA)
m = AutoModelForQuestionAnswering.from_pretrained(QA)
i = tok('what flies', 'time flies like an arrow', return_tensors='pt')
with torch.no_grad():
    o = m(**i)
s, e = torch.argmax(o.start_logits), torch.argmax(o.end_logits) + 1
out = [o.start_logits, o.end_logits, tok.decode(i['input_ids'][0][s:e])]
"""
    ),
    "qa labels loss": Line(
        """
import torch
from transformers import AutoModelForQuestionAnswering
m = AutoModelForQuestionAnswering.from_pretrained(QA)
out = m(
    input_ids=torch.tensor([[1, 5, 6, 2]]), start_positions=torch.tensor([1]), end_positions=torch.tensor([2])
).loss.item()
"""
    ),
    "qa pipeline lists": Line(
        """
from transformers import pipeline
p = pipeline('question-answering', model=QA, tokenizer=QA)
out = p(question='what flies', context='time flies like an arrow', top_k=3)
""",
        wanted="len(out) == 3 and out[0]['score'] >= out[1]['score']",
    ),
    "qa impossible": Line(
        """
from transformers import pipeline
p = pipeline('question-answering', model=QA)
out = p(question='what flies', context='time flies like an arrow', handle_impossible_answer=True)
""",
        wanted="set(out) == {'score', 'start', 'end', 'answer'}",
    ),
    "ner simple": Line(
        """
from transformers import pipeline
p = pipeline('ner', model=NER, aggregation_strategy='simple')
out = p(['time flies like', 'fruit flies'])
"""
    ),
    "ner ignore labels": Line(
        """
from transformers import pipeline
p = pipeline('token-classification', model=NER, ignore_labels=[])
out = p('time flies')
"""
    ),
    "zero shot": Line(
        """
from transformers import pipeline
p = pipeline('zero-shot-classification', model=NLI)
out = p(['time flies', 'fruit'], candidate_labels='time, fruit', hypothesis_template='a {}', multi_label=True)
"""
    ),
    "fill mask targets": Line(
        """
from transformers import pipeline
p = pipeline('fill-mask', model=MASK)
out = p('time [MASK] like', targets=['flies', 'fruit'], top_k=2)
"""
    ),
    "text generation pipeline": Line(
        """
from transformers import pipeline, set_seed
set_seed(1)
g = pipeline('text-generation', model=GPT2)
out = g(
    ['time flies', 'fruit'],
    max_new_tokens=4,
    do_sample=False,
    return_full_text=False,
    num_return_sequences=1,
    clean_up_tokenization_spaces=True,
)
"""
    ),
    "text generation sample seed": Line(
        """
from transformers import pipeline, set_seed
g = pipeline('text-generation', model=GPT2)
set_seed(3)
a = g('time flies', max_length=12, num_return_sequences=2, do_sample=True, top_k=0, temperature=1.0)
out = [len(a), all('generated_text' in x for x in a)]
"""
    ),
    "summarization min max": Line(
        """
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
tok = AutoTokenizer.from_pretrained(BART)
m = AutoModelForSeq2SeqLM.from_pretrained(BART)
i = tok(['time flies like an arrow'], return_tensors='pt', max_length=20, truncation=True)
out = m.generate(
    i['input_ids'],
    num_beams=4,
    length_penalty=2.0,
    min_length=3,
    max_length=10,
    no_repeat_ngram_size=3,
    early_stopping=True,
)
"""
    ),
    "diverse etc generation": Line(
        """
import torch
from transformers import AutoModelForCausalLM, GenerationConfig
m = AutoModelForCausalLM.from_pretrained(GPT2)
g = GenerationConfig(max_new_tokens=5, num_beams=3, repetition_penalty=1.3, eos_token_id=2, pad_token_id=2)
out = m.generate(torch.tensor([[5, 6, 7]]), generation_config=g)
"""
    ),
    "gen return dict scores": Line(
        """
import torch
from transformers import AutoModelForCausalLM
m = AutoModelForCausalLM.from_pretrained(GPT2)
o = m.generate(
    torch.tensor([[5, 6, 7]]),
    max_new_tokens=3,
    return_dict_in_generate=True,
    output_scores=True,
    output_logits=True,
    pad_token_id=2,
)
out = [o.sequences, torch.stack(o.scores, 1), torch.stack(o.logits, 1)]
"""
    ),
    "stopping": Line(
        """
import torch
from transformers import AutoModelForCausalLM, StoppingCriteria, StoppingCriteriaList
class Stop(StoppingCriteria):
    def __call__(self, input_ids, scores, **kwargs):
        return input_ids.shape[1] >= 6
m = AutoModelForCausalLM.from_pretrained(GPT2)
out = m.generate(
    torch.tensor([[5, 6, 7]]),
    max_new_tokens=10,
    stopping_criteria=StoppingCriteriaList([Stop()]),
    pad_token_id=2,
)
"""
    ),
    "logits processor": Line(
        """
import torch
from transformers import AutoModelForCausalLM, LogitsProcessor, LogitsProcessorList
class Ban(LogitsProcessor):
    def __call__(self, input_ids, scores):
        scores[:, 5] = -float('inf')
        return scores
m = AutoModelForCausalLM.from_pretrained(GPT2)
out = m.generate(
    torch.tensor([[5, 6, 7]]), max_new_tokens=5, logits_processor=LogitsProcessorList([Ban()]), pad_token_id=2
)
"""
    ),
    "streamer thread": Line(
        """
from threading import Thread
from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer
tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2)
s = TextIteratorStreamer(tok, skip_prompt=True, skip_special_tokens=True)
t = Thread(
    target=m.generate,
    kwargs=dict(**tok('time flies', return_tensors='pt'), streamer=s, max_new_tokens=5, pad_token_id=2),
)
t.start()
out = ''.join(s)
t.join()
"""
    ),
    "chat template tensors": Line(
        """
from transformers import AutoTokenizer, AutoModelForCausalLM
tok = AutoTokenizer.from_pretrained(CHAT)
msgs = [{'role': 'user', 'content': 'time flies'}]
x = tok.apply_chat_template(msgs, add_generation_prompt=True, return_tensors='pt', return_dict=True)
out = [x['input_ids'], tok.apply_chat_template(msgs, tokenize=False)]
"""
    ),
    "save and reload": Line(
        """
import os
from transformers import AutoModelForSequenceClassification, AutoTokenizer
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m.save_pretrained(OUT)
tok.save_pretrained(OUT)
n = AutoModelForSequenceClassification.from_pretrained(OUT)
i = AutoTokenizer.from_pretrained(OUT)('time flies', return_tensors='pt')
out = [
    n(**i).logits,
    sorted(
        x
        for x in os.listdir(OUT)
        if x in ('config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json')
    ),
]
"""
    ),
    "dtype": Line(
        """
import torch
from transformers import AutoModelForCausalLM
m = AutoModelForCausalLM.from_pretrained(GPT2, torch_dtype=torch.bfloat16, low_cpu_mem_usage=True)
out = [str(m.dtype), str(next(m.parameters()).dtype), str(m.device), m.get_memory_footprint() > 0]
"""
    ),
    "dtype auto": Line(
        """
from transformers import AutoModelForCausalLM
m = AutoModelForCausalLM.from_pretrained(GPT2, dtype='auto', device_map='cpu')
out = str(m.dtype)
"""
    ),
    "attn implementation": Line(
        """
import torch
from transformers import AutoModelForCausalLM
m = AutoModelForCausalLM.from_pretrained(GPT2, attn_implementation='eager')
out = m(torch.tensor([[5, 6]]), output_attentions=True).attentions[0]
"""
    ),
    "half/float": Line(
        """
from transformers import AutoModel
m = AutoModel.from_pretrained(BERT).half()
out = [str(m.dtype), str(m.float().dtype)]
"""
    ),
    "compile": Line(
        """
import torch
from transformers import AutoModel
m = AutoModel.from_pretrained(BERT)
out = sorted(k for k in m.state_dict() if 'layer.0.attention.self' in k)
"""
    ),
    "quantize dynamic": Line(
        """
import torch
from transformers import AutoModelForSequenceClassification
from torch.quantization import quantize_dynamic
from torch import nn
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT).to('cpu')
q = quantize_dynamic(m, {nn.Linear}, dtype=torch.qint8)
out = list(q(input_ids=torch.tensor([[1, 5, 2]])).logits.shape)
"""
    ),
    "prune torch": Line(
        """
import torch
from transformers import AutoModelForSequenceClassification
import torch.nn.utils.prune as prune
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
w = m.state_dict()['distilbert.transformer.layer.0.attention.out_lin.weight']
out = [list(w.shape), float(w.abs().sum())]
"""
    ),
    "distil loss": Line(
        """
import torch, torch.nn.functional as F
from transformers import AutoModelForSequenceClassification
t = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
s = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
x = {'input_ids': torch.tensor([[1, 5, 2]])}
with torch.no_grad():
    lt = t(**x).logits
out = (F.kl_div(F.log_softmax(s(**x).logits / 2, -1), F.softmax(lt / 2, -1), reduction='batchmean') * 4).item()
"""
    ),
    "vit manual": Line(
        """
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageClassification
p = AutoImageProcessor.from_pretrained(VIT)
m = AutoModelForImageClassification.from_pretrained(VIT)
i = p(images=Image.open(PICTURE), return_tensors='pt')
with torch.no_grad():
    l = m(**i).logits
out = [l, m.config.id2label[l.argmax(-1).item()], list(i['pixel_values'].shape)]
"""
    ),
    "vit pipeline topk": Line(
        """
from transformers import pipeline
out = pipeline('image-classification', model=VIT)(PICTURE, top_k=1)
"""
    ),
    "clip scores": Line(
        """
import torch
from PIL import Image
from transformers import CLIPModel, CLIPProcessor
m = CLIPModel.from_pretrained(CLIP)
p = CLIPProcessor.from_pretrained(CLIP)
i = p(text=['time flies', 'fruit'], images=Image.open(PICTURE), return_tensors='pt', padding=True)
o = m(**i)
out = [o.logits_per_image.softmax(dim=1), o.text_embeds, o.image_embeds]
"""
    ),
    "clip features": Line(
        """
import torch
from PIL import Image
from transformers import AutoProcessor, CLIPModel
m = CLIPModel.from_pretrained(CLIP)
p = AutoProcessor.from_pretrained(CLIP)
i = p(images=[Image.open(PICTURE)] * 2, return_tensors='pt')
f = m.get_image_features(**i)
f = f if isinstance(f, torch.Tensor) else f.pooler_output
out = f
"""
    ),
    "zero shot image": Line(
        """
from transformers import pipeline
p = pipeline('zero-shot-image-classification', model=CLIP)
out = p(PICTURE, candidate_labels=['time', 'fruit'], hypothesis_template='a {}')
"""
    ),
    "asr pipeline array": Line(
        """
from transformers import pipeline
p = pipeline('automatic-speech-recognition', model=CTC)
out = p({'array': SAMPLES, 'sampling_rate': 16000})
"""
    ),
    "ctc by hand": Line(
        """
import torch
from transformers import AutoProcessor, Wav2Vec2ForCTC
p = AutoProcessor.from_pretrained(CTC)
m = Wav2Vec2ForCTC.from_pretrained(CTC)
i = p(SAMPLES, sampling_rate=16000, return_tensors='pt')
with torch.no_grad():
    l = m(i.input_values).logits
out = p.batch_decode(torch.argmax(l, dim=-1))
"""
    ),
    "whisper by hand": Line(
        """
import torch
from transformers import WhisperProcessor, WhisperForConditionalGeneration
p = WhisperProcessor.from_pretrained(WHISPER)
m = WhisperForConditionalGeneration.from_pretrained(WHISPER)
f = p(SAMPLES, sampling_rate=16000, return_tensors='pt').input_features
o = m.generate(f, max_new_tokens=4)
out = [list(f.shape), o.shape[0]]
""",
        wanted="out[1] == 1",
    ),
    "audio class by hand": Line(
        """
import torch
from transformers import AutoFeatureExtractor, AutoModelForAudioClassification
f = AutoFeatureExtractor.from_pretrained(SOUNDS)
m = AutoModelForAudioClassification.from_pretrained(SOUNDS)
i = f(SAMPLES, sampling_rate=f.sampling_rate, return_tensors='pt')
with torch.no_grad():
    out = m(**i).logits
"""
    ),
    "audio pipeline": Line(
        """
from transformers import pipeline
out = pipeline('audio-classification', model=SOUNDS)(SOUND)
""",
        wanted="{x['label'] for x in out} == {'NEGATIVE', 'POSITIVE'}",  # the reference reads files with ffmpeg alone
    ),
    "t5 labels decoder ids": Line(
        """
import torch
from transformers import T5ForConditionalGeneration
m = T5ForConditionalGeneration.from_pretrained(T5)
o = m(input_ids=torch.tensor([[5, 6, 7]]), labels=torch.tensor([[5, 6]]))
out = [o.loss.item(), o.logits, o.encoder_last_hidden_state]
"""
    ),
    "bart decoder ids": Line(
        """
import torch
from transformers import BartForConditionalGeneration
m = BartForConditionalGeneration.from_pretrained(BART)
o = m(input_ids=torch.tensor([[5, 6, 7]]), decoder_input_ids=torch.tensor([[2, 5]]), output_hidden_states=True)
out = [o.logits, len(o.decoder_hidden_states), o.encoder_last_hidden_state]
"""
    ),
    "translation pipeline task": Line(
        """
from transformers import AutoTokenizer, AutoModelForSeq2SeqLM
tok = AutoTokenizer.from_pretrained(T5)
m = AutoModelForSeq2SeqLM.from_pretrained(T5)
i = tok('time flies', return_tensors='pt').input_ids
out = tok.decode(m.generate(i, max_new_tokens=5, num_beams=2)[0], skip_special_tokens=True)
"""
    ),
    "text_target": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(T5)
out = dict(tok(['time flies'], text_target=['fruit flies'], max_length=6, truncation=True))
"""
    ),
    "datasets map with tokenizer": Line(
        """
from datasets import Dataset
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
d = Dataset.from_dict({'text': ['time flies', 'fruit'], 'label': [0, 1]})
d = d.map(lambda b: tok(b['text'], padding=True, truncation=True), batched=True, batch_size=None)
d.set_format('torch', columns=['input_ids', 'attention_mask', 'label'])
out = [d.column_names, d[0]['input_ids'], d[1]['label']]
"""
    ),
    "is_split_into_words align": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(NER)
e = tok([['time', 'flies'], ['fruit']], is_split_into_words=True, truncation=True)
out = [[e.word_ids(batch_index=i) for i in range(2)], e['input_ids']]
"""
    ),
    "tokenizer decode variants": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
ids = tok('time flies')['input_ids']
out = [
    tok.decode(ids),
    tok.decode(ids, skip_special_tokens=True),
    tok.convert_tokens_to_string(['time', 'flies']),
    tok.batch_decode([ids, ids], skip_special_tokens=True),
    tok.convert_ids_to_tokens(ids, skip_special_tokens=True),
]
"""
    ),
    "vocab sorted": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(GPT2)
out = (
    sorted(tok.vocab.items(), key=lambda x: x[1])[:5] == sorted(tok.get_vocab().items(), key=lambda x: x[1])[:5]
)
"""
    ),
    "build inputs": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
out = [
    tok.num_special_tokens_to_add(pair=True),
    tok.get_special_tokens_mask([1, 5, 2], already_has_special_tokens=True),
]
"""
    ),
    "prepare for model pad": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
out = {
    k: v for k, v in tok.pad({'input_ids': [[1, 5, 2], [1, 2]]}, padding='longest', return_tensors='pt').items()
}
"""
    ),
    "max length pipeline trunc": Line(
        """
from transformers import pipeline
p = pipeline('sentiment-analysis', model=SENTIMENT, truncation=True, max_length=10)
out = p(['time flies ' * 20])
"""
    ),
    "generator pipeline": Line(
        """
from transformers import pipeline
def data():
    for t in ('time flies', 'fruit flies', 'a'):
        yield t
p = pipeline('text-classification', model=SENTIMENT)
out = [r for r in p(data(), batch_size=2)]
"""
    ),
    "keydataset": Line(
        """
from datasets import Dataset
from transformers import pipeline
from transformers.pipelines.pt_utils import KeyDataset
d = Dataset.from_dict({'text': ['time flies', 'fruit']})
p = pipeline('text-classification', model=SENTIMENT)
out = [r for r in p(KeyDataset(d, 'text'))]
"""
    ),
    "function to apply": Line(
        """
from transformers import pipeline
out = pipeline('text-classification', model=SENTIMENT, function_to_apply='none')('time flies')
"""
    ),
    "return_all_scores": Line(
        """
from transformers import pipeline
out = pipeline('text-classification', model=SENTIMENT, top_k=None)(['time flies', 'a'])
"""
    ),
    "feature extraction pipeline": Line(
        """
from transformers import pipeline
import numpy as np
out = np.array(pipeline('feature-extraction', model=BERT)('time flies')).shape
"""
    ),
    "pipeline objects": Line(
        """
from transformers import pipeline, AutoModelForSequenceClassification, AutoTokenizer
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
tok = AutoTokenizer.from_pretrained(SENTIMENT)
p = pipeline('text-classification', model=m, tokenizer=tok)
out = [p('time flies'), p.task, p.model is m, p.tokenizer is tok]
"""
    ),
    "pipeline class import": Line(
        """
from transformers import TextClassificationPipeline, AutoModelForSequenceClassification, AutoTokenizer
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
tok = AutoTokenizer.from_pretrained(SENTIMENT)
out = TextClassificationPipeline(model=m, tokenizer=tok, top_k=None)('time flies')
"""
    ),
    "auto classes multiple choice": Line(
        """
from transformers import AutoModelForMultipleChoice
out = AutoModelForMultipleChoice.from_pretrained(BERT).config.model_type
""",
    ),
    "next sentence": Line(
        """
import torch
from transformers import AutoTokenizer, BertForNextSentencePrediction
tok = AutoTokenizer.from_pretrained(BERT)
m = BertForNextSentencePrediction.from_pretrained(BERT)
out = list(m(**tok('time flies', 'fruit flies', return_tensors='pt')).logits.shape)
"""
    ),
    "bert for pretraining": Line(
        """
import torch
from transformers import BertForPreTraining
m = BertForPreTraining.from_pretrained(BERT)
o = m(torch.tensor([[1, 5, 2]]))
out = [list(o.prediction_logits.shape), list(o.seq_relationship_logits.shape)]
"""
    ),
    "is decoder bert": Line(
        """
import torch
from transformers import AutoConfig, BertLMHeadModel
c = AutoConfig.from_pretrained(BERT)
c.is_decoder = True
m = BertLMHeadModel.from_pretrained(BERT, config=c)
out = list(m(torch.tensor([[1, 5, 2]])).logits.shape)
"""
    ),
    "extended attention + position ids": Line(
        """
import torch
from transformers import AutoModel
m = AutoModel.from_pretrained(BERT)
ids = torch.tensor([[1, 5, 6, 2]])
out = m(
    input_ids=ids,
    position_ids=torch.arange(4)[None],
    token_type_ids=torch.zeros_like(ids),
    attention_mask=torch.tensor([[1, 1, 1, 0]]),
).last_hidden_state[:, :3]
"""
    ),
    "return_dict False": Line(
        """
import torch
from transformers import AutoModel
m = AutoModel.from_pretrained(BERT)
o = m(torch.tensor([[1, 5, 2]]), return_dict=False)
out = [type(o).__name__, o[0], o[1]]
"""
    ),
    "output indexing slices": Line(
        """
import torch
from transformers import AutoModelForSequenceClassification
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
o = m(torch.tensor([[1, 5, 2]]), labels=torch.tensor([1]))
loss, logits = o[:2]
out = [loss.item(), logits, list(o.keys()), o.to_tuple()[0].item(), 'loss' in o]
"""
    ),
    "hub offline kw": Line(
        """
from transformers import AutoModel
m = AutoModel.from_pretrained(
    BERT, local_files_only=True, revision='main', trust_remote_code=False, cache_dir=OUT, token=None
)
out = m.config.hidden_size
"""
    ),
    "name_or_path": Line(
        """
from transformers import AutoModel, AutoTokenizer
out = [
    AutoModel.from_pretrained(BERT).name_or_path == BERT,
    AutoTokenizer.from_pretrained(BERT).name_or_path == BERT,
    AutoModel.from_pretrained(BERT).config._name_or_path == BERT,
]
"""
    ),
    "gradient checkpointing": Line(
        """
import torch
from transformers import AutoModelForCausalLM
m = AutoModelForCausalLM.from_pretrained(GPT2)
m.gradient_checkpointing_enable()
m.train()
for x in m.modules():
    if isinstance(x, torch.nn.Dropout):
        x.p = 0.0
m.config.use_cache = False
l = m(torch.tensor([[5, 6, 7]]), labels=torch.tensor([[5, 6, 7]])).loss
l.backward()
out = m.get_input_embeddings().weight.grad.norm().item()
"""
    ),
    "modules list types": Line(
        """
from transformers import AutoModel
m = AutoModel.from_pretrained(BERT)
out = [
    len(m.encoder.layer),
    m.encoder.layer[0].attention.self.query.weight.shape[0],
    m.embeddings.word_embeddings.weight.shape[1],
]
"""
    ),
    "hooks": Line(
        """
import torch
from transformers import AutoModel
m = AutoModel.from_pretrained(BERT)
seen = []
h = m.encoder.layer[0].register_forward_hook(lambda mod, i, o: seen.append(1))
m(torch.tensor([[1, 5, 2]]))
h.remove()
out = len(seen)
"""
    ),
    "eval returns self": Line(
        """
from transformers import AutoModel
m = AutoModel.from_pretrained(BERT)
out = [m.eval() is m, m.training, m.train().training, m.to('cpu') is m]
"""
    ),
    "evaluate model dict json": Line(
        """
import json
from transformers import pipeline
out = json.loads(json.dumps(pipeline('ner', model=NER, aggregation_strategy='max')('time flies like an arrow')))
""",
        wanted="out[0]['entity_group'] == 'X'",
    ),
    "default model pipelines args": Line(
        """
from transformers import pipeline
try:
    pipeline('no-such-task')
    out = False
except Exception as e:
    out = 'no-such-task' in str(e)
"""
    ),
    "sentencepiece slow use_fast": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT, use_fast=True, model_max_length=7, do_lower_case=True)
out = [tok.model_max_length, len(tok('time flies like an arrow time flies', truncation=True)['input_ids'])]
"""
    ),
    "PreTrainedTokenizerFast from object": Line(
        """
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
t = Tokenizer(models.WordPiece(unk_token='[UNK]'))
t.pre_tokenizer = pre_tokenizers.Whitespace()
t.train_from_iterator(
    ['time flies'] * 3, trainers.WordPieceTrainer(vocab_size=30, special_tokens=['[UNK]', '[PAD]'])
)
tok = PreTrainedTokenizerFast(tokenizer_object=t, unk_token='[UNK]', pad_token='[PAD]')
out = [tok.tokenize('time flies'), tok.pad_token_id, tok.vocab_size]
"""
    ),
    "model card push offline": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
import os
os.makedirs(OUT, exist_ok=True)
out = all(isinstance(x, str) for x in tok.save_pretrained(OUT))
"""
    ),
    "logging verbosity": Line(
        """
import transformers
transformers.logging.set_verbosity_error()
from transformers import logging
logging.set_verbosity_warning()
out = transformers.__version__ is not None
"""
    ),
    "ModelOutput dataclass": Line(
        """
import torch
from transformers.modeling_outputs import SequenceClassifierOutput, BaseModelOutput
o = SequenceClassifierOutput(loss=torch.tensor(1.0), logits=torch.zeros(1, 2))
out = [o.loss.item(), list(o.keys())]
"""
    ),
    "own head on body": Line(
        """
import torch
from torch import nn
from transformers import AutoModel, AutoConfig
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = AutoModel.from_pretrained(BERT)
        self.head = nn.Linear(self.body.config.hidden_size, 2)
    def forward(self, **x):
        return self.head(self.body(**x).last_hidden_state[:, 0])
torch.manual_seed(0)
n = Net().eval()
torch.manual_seed(0)
n.head = nn.Linear(n.body.config.hidden_size, 2)
out = n(input_ids=torch.tensor([[1, 5, 2]]), attention_mask=torch.ones(1, 3, dtype=torch.long))
"""
    ),
    "RoBERTa classes import": Line(
        """
from transformers import (
    RobertaForSequenceClassification,
    XLMRobertaForTokenClassification,
    DistilBertForQuestionAnswering,
    LlamaForCausalLM,
    MistralForCausalLM,
    T5TokenizerFast,
    BartTokenizerFast,
    GPT2TokenizerFast,
    LlamaTokenizerFast,
    ViTImageProcessor,
    WhisperFeatureExtractor,
    CLIPTokenizerFast,
)
out = True
"""
    ),
    "is_torch etc utils": Line(
        """
from transformers.utils import is_torch_available
out = is_torch_available()
"""
    ),
    "enable input grads, tie": Line(
        """
from transformers import AutoModelForCausalLM
m = AutoModelForCausalLM.from_pretrained(GPT2)
m.tie_weights()
out = [
    m.get_output_embeddings().weight.data_ptr() == m.get_input_embeddings().weight.data_ptr(),
    m.can_generate(),
]
"""
    ),
    "generate inputs embeds/attention mask": Line(
        """
import torch
from transformers import AutoModelForCausalLM
m = AutoModelForCausalLM.from_pretrained(GPT2)
out = m.generate(
    inputs=torch.tensor([[5, 6, 7]]),
    attention_mask=torch.ones(1, 3, dtype=torch.long),
    max_length=8,
    pad_token_id=2,
    eos_token_id=[2, 9],
)
"""
    ),
    "generation bad words/force": Line(
        """
import torch
from transformers import AutoModelForCausalLM
m = AutoModelForCausalLM.from_pretrained(GPT2)
out = m.generate(
    torch.tensor([[5, 6, 7]]), max_new_tokens=5, bad_words_ids=[[5], [6, 7]], pad_token_id=2, min_new_tokens=3
)
"""
    ),
    "prefix allowed": Line(
        """
import torch
from transformers import AutoModelForCausalLM
m = AutoModelForCausalLM.from_pretrained(GPT2)
out = m.generate(
    torch.tensor([[5, 6, 7]]),
    max_new_tokens=4,
    num_beams=2,
    prefix_allowed_tokens_fn=lambda b, i: [5, 6, 8],
    pad_token_id=2,
)
"""
    ),
    "document qa": Line(
        """
from transformers import pipeline
p = pipeline('document-question-answering', model=LAYOUT)
out = p(PICTURE, 'what flies', word_boxes=[['time', [0, 0, 10, 10]], ['flies', [10, 0, 20, 10]]])
"""
    ),
    "sentence embeddings cos": Line(
        """
import torch
from transformers import AutoModel, AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
m = AutoModel.from_pretrained(BERT)
a, b = (m(**tok(t, return_tensors='pt')).pooler_output for t in ('time flies', 'fruit'))
out = torch.cosine_similarity(a, b).item()
"""
    ),
    "vit features": Line(
        """
import torch
from PIL import Image
from transformers import ViTModel, ViTImageProcessor
p = ViTImageProcessor.from_pretrained(VIT)
m = ViTModel.from_pretrained(VIT)
o = m(**p(Image.open(PICTURE), return_tensors='pt'))
out = o.last_hidden_state[:, 0]
"""
    ),
    "model.generate on tokenizer batch to device": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
b = tok('time flies', return_tensors='pt').to('cpu')
out = [b.input_ids, b.data['attention_mask']]
"""
    ),
    "np tensors": Line(
        """
from transformers import AutoTokenizer
tok = AutoTokenizer.from_pretrained(BERT)
b = tok(['time flies', 'a'], return_tensors='np', padding='max_length', max_length=6)
out = [b['input_ids'], type(b['input_ids']).__name__]
"""
    ),
    "WhisperTokenizer prompt ids": Line(
        """
from transformers import WhisperForConditionalGeneration
m = WhisperForConditionalGeneration.from_pretrained(WHISPER)
out = [m.config.max_source_positions, m.generation_config is not None, m.config.decoder_layers]
"""
    ),
}

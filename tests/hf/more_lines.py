"""More lines that users of the reference library type: parts of models, training loops, rules of generation, configs.

Each is run against both, as those of `lines.py`.
"""

from __future__ import annotations

AUTO = """
import numpy as np
import torch
import torch.nn.functional as F
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification
from transformers import AutoModelForTokenClassification, AutoTokenizer
"""

MORE = [
    AUTO
    + """
m = AutoModelForSequenceClassification.from_pretrained(BERT, num_labels=6)
out = [m.config.num_labels, m.num_labels, list(m.classifier.weight.shape)]
""",
    AUTO
    + """
m = AutoModelForSequenceClassification.from_pretrained(
    BERT, num_labels=2, id2label={0: "a", 1: "b"}, label2id={"a": 0, "b": 1}
)
out = [m.config.id2label[0], m.config.label2id["b"]]
""",
    AUTO
    + """
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
m.config.id2label = {0: "sad", 1: "glad"}
out = m.config.id2label[1]
""",
    """
from transformers import AutoConfig
c = AutoConfig.from_pretrained(BERT)
from torch import nn
e = nn.Embedding(c.vocab_size, c.hidden_size)
out = [
    list(e.weight.shape),
    c.num_attention_heads,
    c.intermediate_size,
    c.hidden_dropout_prob,
    c.max_position_embeddings,
    c.num_hidden_layers,
]
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(BERT)
m = AutoModel.from_pretrained(BERT, attn_implementation="eager")
i = tok("time flies", "fruit flies", return_tensors="pt")
a = m(**i, output_attentions=True).attentions
sep = (i.token_type_ids == 0).sum(dim=1)
out = [len(a), a[-1].tolist(), sep.tolist()]
""",
    """
from transformers import BertConfig, BertModel
c = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=100)
m = BertModel(c)
out = [sum(p.numel() for p in m.parameters()), m.config.hidden_size]
""",
    """
from transformers import DistilBertConfig
c = DistilBertConfig()
out = [c.dim, c.n_layers, c.n_heads, c.vocab_size]
""",
    """
from transformers import BertModel
m = BertModel.from_pretrained(BERT)
out = [list(m.embeddings.word_embeddings.weight.shape), m.encoder.layer[0].attention.self.query.weight.shape[0]]
""",
    AUTO
    + """
from transformers import AutoModelForTokenClassification
tags = ["O", "B-X", "I-X"]
i2t = {i: t for i, t in enumerate(tags)}
t2i = {t: i for i, t in enumerate(tags)}
c = AutoConfig.from_pretrained(BERT, num_labels=3, id2label=i2t, label2id=t2i)
m = AutoModelForTokenClassification.from_pretrained(BERT, config=c).to("cpu")
tok = AutoTokenizer.from_pretrained(BERT)
ids = tok.encode("time flies", return_tensors="pt")
o = m(ids.to("cpu")).logits
out = [list(o.shape), len(torch.argmax(o, dim=-1)[0].cpu().numpy())]
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(NER)
t = tok(["time", "flies", "like"], is_split_into_words=True, truncation=True)
out = [t.word_ids(), t.word_ids(batch_index=0), t.tokens()]
""",
    """
import torch.nn as nn
from transformers import XLMRobertaConfig
from transformers.modeling_outputs import TokenClassifierOutput
o = TokenClassifierOutput(loss=None, logits=1)
out = [o.logits, XLMRobertaConfig.model_type]
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2)
i = tok("time flies", return_tensors="pt")["input_ids"].to("cpu")
out = tok.decode(m.generate(i, max_length=12, do_sample=False)[0])
""",
    AUTO
    + """
def lpl(logits, labels):
    lp = F.log_softmax(logits, dim=-1)
    return torch.gather(lp, 2, labels.unsqueeze(2)).squeeze(-1)
def slp(model, labels, n=0):
    with torch.no_grad():
        o = model(labels)
        l = lpl(o.logits[:, :-1, :], labels[:, 1:])
        return torch.sum(l[:, n:]).cpu().numpy()
tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2)
out = float(slp(m, tok("time flies like an arrow", return_tensors="pt").input_ids, 2))
""",
    """
from transformers import pipeline, set_seed
set_seed(42)
g = pipeline("text-generation", model=GPT2)
out = len(g("time flies", max_new_tokens=5, num_return_sequences=2, do_sample=True))
""",
    AUTO
    + """
from transformers import DataCollatorForSeq2Seq
tok = AutoTokenizer.from_pretrained(T5)
m = AutoModelForSeq2SeqLM.from_pretrained(T5)
e = tok("time flies", truncation=True)
l = tok(text_target="flies", truncation=True)
b = DataCollatorForSeq2Seq(tok, model=m)(
    [{"input_ids": e.input_ids, "attention_mask": e.attention_mask, "labels": l.input_ids}]
)
out = {k: v.tolist() for k, v in b.items()}
""",
    AUTO
    + """
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
sd = m.state_dict()
out = [sum(v.numel() for v in sd.values())]
""",
    AUTO
    + """
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT).to("cpu")
import torch.nn as nn
q = torch.quantization.quantize_dynamic(m, {nn.Linear}, dtype=torch.qint8)
tok = AutoTokenizer.from_pretrained(SENTIMENT)
out = list(q(**tok("time flies", return_tensors="pt")).logits.shape)
""",
    AUTO
    + """
import tempfile
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
d = tempfile.mkdtemp()
torch.save(m.state_dict(), d + "/m.pt")
m.load_state_dict(torch.load(d + "/m.pt"))
out = 1
""",
    """
from transformers import pipeline
p = pipeline("fill-mask", model=MASK)
out = [x["token_str"] for x in p("time [MASK]", targets=["flies", "arrow"])]
""",
    AUTO
    + """
from transformers import DataCollatorForLanguageModeling, set_seed
tok = AutoTokenizer.from_pretrained(MASK)
set_seed(3)
dc = DataCollatorForLanguageModeling(tokenizer=tok, mlm_probability=0.15)
b = dc([tok("time flies like an arrow", return_special_tokens_mask=True)])
out = [sorted(b.keys()), list(b["labels"].shape)]
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(GPT2)
import tempfile
d = tempfile.mkdtemp()
tok.save_pretrained(d)
out = AutoTokenizer.from_pretrained(d)("time flies").input_ids
""",
    """
from transformers import AutoImageProcessor, ViTForImageClassification
from PIL import Image
import torch
p = AutoImageProcessor.from_pretrained(VIT)
m = ViTForImageClassification.from_pretrained(VIT)
i = p(images=Image.open(PICTURE), return_tensors="pt")
out = m.config.id2label[m(**i).logits.argmax(-1).item()]
""",
    """
from transformers import CLIPProcessor, CLIPModel
from PIL import Image
p = CLIPProcessor.from_pretrained(CLIP)
m = CLIPModel.from_pretrained(CLIP)
f = m.get_image_features(**p(images=Image.open(PICTURE), return_tensors="pt"))
out = list((f if hasattr(f, "shape") else f.pooler_output).shape)
""",
    """
from transformers import pipeline
import numpy as np
p = pipeline("automatic-speech-recognition", model=CTC)
out = p({"raw": np.asarray(SAMPLES), "sampling_rate": 16000})["text"]
""",
    AUTO
    + """
m = AutoModelForCausalLM.from_pretrained(GPT2, low_cpu_mem_usage=True)
out = m.get_memory_footprint()
""",
    AUTO
    + """
m = AutoModelForCausalLM.from_pretrained(GPT2)
out = [
    list(m.get_input_embeddings().weight.shape),
    list(m.get_output_embeddings().weight.shape),
    m.lm_head.weight is m.get_input_embeddings().weight,
]
""",
    AUTO
    + """
m = AutoModelForCausalLM.from_pretrained(GPT2)
m.tie_weights()
out = m.can_generate()
""",
    AUTO
    + """
m = AutoModelForCausalLM.from_pretrained(GPT2)
m.gradient_checkpointing_enable()
out = 1
""",
    AUTO
    + """
m = AutoModel.from_pretrained(BERT)
for p in m.parameters():
    p.requires_grad = False
out = m.num_parameters(only_trainable=True)
""",
    AUTO
    + """
m = AutoModel.from_pretrained(BERT)
for n, p in m.named_parameters():
    if "embeddings" in n:
        p.requires_grad = False
out = 1
""",
    AUTO
    + """
m = AutoModel.from_pretrained(BERT)
out = [m.base_model_prefix, m.main_input_name]
""",
    AUTO
    + """
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
out = m.base_model is not None and hasattr(m, "distilbert")
""",
    AUTO
    + """
m = AutoModelForCausalLM.from_pretrained(GPT2)
m.generation_config.max_new_tokens = 4
m.generation_config.do_sample = False
out = m.generate(torch.tensor([[5, 6]])).tolist()
""",
    """
from transformers import GenerationConfig, AutoModelForCausalLM
import torch
m = AutoModelForCausalLM.from_pretrained(GPT2)
g = GenerationConfig(max_new_tokens=4, num_beams=2, do_sample=False)
out = m.generate(torch.tensor([[5, 6]]), generation_config=g).tolist()
""",
    """
from transformers import GenerationConfig
import tempfile
g = GenerationConfig(max_new_tokens=4)
d = tempfile.mkdtemp()
g.save_pretrained(d)
out = GenerationConfig.from_pretrained(d).max_new_tokens
""",
    AUTO
    + """
m = AutoModelForCausalLM.from_pretrained(GPT2)
o = m(torch.tensor([[5, 6, 7]]), use_cache=True)
past = o.past_key_values
o2 = m(torch.tensor([[8]]), past_key_values=past)
out = o2.logits.tolist()
""",
    AUTO
    + """
m = AutoModelForCausalLM.from_pretrained(GPT2)
o = m.generate(
    torch.tensor([[5, 6]]), max_new_tokens=3, return_dict_in_generate=True, output_scores=True, do_sample=False
)
t = m.compute_transition_scores(o.sequences, o.scores, normalize_logits=True)
out = t.tolist()
""",
    AUTO
    + """
from transformers import LogitsProcessor, LogitsProcessorList
class P(LogitsProcessor):
    def __call__(self, ids, scores):
        scores[:, 5] = -float("inf")
        return scores
m = AutoModelForCausalLM.from_pretrained(GPT2)
out = m.generate(
    torch.tensor([[5, 6]]), max_new_tokens=4, do_sample=False, logits_processor=LogitsProcessorList([P()])
).tolist()
""",
    AUTO
    + """
from transformers import StoppingCriteria, StoppingCriteriaList
class S(StoppingCriteria):
    def __call__(self, ids, scores, **k):
        return torch.full((ids.shape[0],), ids.shape[1] >= 4, dtype=torch.bool)
m = AutoModelForCausalLM.from_pretrained(GPT2)
out = m.generate(
    torch.tensor([[5, 6]]), max_new_tokens=9, do_sample=False, stopping_criteria=StoppingCriteriaList([S()])
).tolist()
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(CHAT)
m = AutoModelForCausalLM.from_pretrained(CHAT)
i = tok.apply_chat_template(
    [{"role": "user", "content": "time"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
)
out = m.generate(**i, max_new_tokens=3, do_sample=False).tolist()
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(BERT)
x = tok(["time flies"], ["like an arrow"])
out = [x.sequence_ids(0), x.char_to_token(0, 0), x.word_to_tokens(0, 1) is not None]
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(BERT)
out = tok.num_special_tokens_to_add(pair=True)
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(BERT)
x = tok.pad({"input_ids": [[5, 6], [7]]}, return_tensors="pt")
out = {k: v.tolist() for k, v in x.items()}
""",
    """
from transformers import BertTokenizer, BertTokenizerFast
out = BertTokenizerFast.from_pretrained(BERT)("time").input_ids
""",
    """
from transformers import PreTrainedTokenizerFast
tok = PreTrainedTokenizerFast(tokenizer_file=BERT + "/tokenizer.json", unk_token="[UNK]", pad_token="[PAD]")
out = tok("time flies").input_ids
""",
    """
from transformers import PreTrainedTokenizerFast
from tokenizers import Tokenizer
t = Tokenizer.from_file(BERT + "/tokenizer.json")
tok = PreTrainedTokenizerFast(tokenizer_object=t)
out = tok("time").input_ids
""",
    AUTO
    + """
m = AutoModel.from_pretrained(BERT, output_attentions=True, attn_implementation="eager")
out = len(m(torch.tensor([[5, 6]])).attentions)
""",
    AUTO
    + """
m = AutoModel.from_pretrained(BERT)
o = m(torch.tensor([[5, 6]]), return_dict=False)
out = [len(o), list(o[0].shape)]
""",
    AUTO
    + """
m = AutoModel.from_pretrained(BERT)
o = m(torch.tensor([[5, 6]]))
out = [list(o.keys()), list(o.to_tuple()[0].shape)]
""",
    AUTO
    + """
import tempfile
d = tempfile.mkdtemp()
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
m.save_pretrained(d, safe_serialization=True)
m2 = AutoModelForSequenceClassification.from_pretrained(d)
out = torch.equal(m2(torch.tensor([[5]])).logits, m(torch.tensor([[5]])).logits)
""",
    """
from transformers import AutoModelForSequenceClassification
m = AutoModelForSequenceClassification.from_pretrained(
    SENTIMENT, problem_type="multi_label_classification", ignore_mismatched_sizes=True, num_labels=4
)
import torch
out = list(m(torch.tensor([[5]]), labels=torch.zeros(1, 4)).loss.shape)
""",
    """
import transformers
out = isinstance(transformers.__version__, str)
""",
    """
from transformers import logging
logging.set_verbosity_error()
out = 1
""",
    """
from transformers.utils import logging
logging.get_logger("x")
out = 1
""",
    """
from transformers import is_torch_available
out = is_torch_available()
""",
    """
from transformers import T5ForConditionalGeneration, T5Tokenizer, T5TokenizerFast
m = T5ForConditionalGeneration.from_pretrained(T5)
import torch
out = m(input_ids=torch.tensor([[5, 6]]), labels=torch.tensor([[7, 8]])).loss.item()
""",
    """
from transformers import pipeline
p = pipeline("text-classification", model=SENTIMENT)
from datasets import Dataset
from transformers.pipelines.pt_utils import KeyDataset
d = Dataset.from_dict({"text": ["time", "flies"]})
out = [x for x in p(KeyDataset(d, "text"), batch_size=2)]
""",
    """
from transformers import pipeline
p = pipeline("text-classification", model=SENTIMENT)
def g():
    for x in ["time", "flies"]:
        yield x
out = list(p(g()))
""",
    """
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
tok = AutoTokenizer.from_pretrained(SENTIMENT)
p = pipeline("sentiment-analysis", model=m, tokenizer=tok)
out = p("time flies")
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
for p in m.base_model.parameters():
    p.requires_grad = False
out = m.num_parameters(only_trainable=True)
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
for p in m.distilbert.parameters():
    p.requires_grad = False
out = sum(p.numel() for p in m.parameters() if p.requires_grad)
""",
    AUTO
    + """
m = AutoModelForSequenceClassification.from_pretrained(BERT)
for layer in m.bert.encoder.layer[:1]:
    for p in layer.parameters():
        p.requires_grad = False
out = 1
""",
    AUTO
    + """
m = AutoModel.from_pretrained(BERT)
out = [len(m.encoder.layer), m.encoder.layer[0].output.dense.weight.shape[0], m.pooler.dense.weight.shape[0]]
""",
    AUTO
    + """
m = AutoModelForCausalLM.from_pretrained(GPT2)
out = [len(m.transformer.h), list(m.lm_head.weight.shape), list(m.transformer.h[0].attn.c_attn.weight.shape)]
""",
    AUTO
    + """
m = AutoModelForCausalLM.from_pretrained(CHAT)
out = [
    len(m.model.layers),
    list(m.model.layers[0].self_attn.q_proj.weight.shape),
    list(m.model.embed_tokens.weight.shape),
    list(m.model.norm.weight.shape),
]
""",
    AUTO
    + """
m = AutoModelForSeq2SeqLM.from_pretrained(BART)
out = [len(m.model.encoder.layers), list(m.model.shared.weight.shape)]
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
out = [m.classifier.in_features, m.classifier.out_features]
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
import torch
opt = torch.optim.AdamW(
    [{"params": m.distilbert.parameters(), "lr": 1e-5}, {"params": m.classifier.parameters(), "lr": 1e-3}]
)
out = len(opt.param_groups)
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
from torch.utils.data import DataLoader
from datasets import Dataset
from transformers import DataCollatorWithPadding
ds = (
    Dataset.from_dict({"text": ["time flies", "a banana", "fruit"], "label": [0, 1, 0]})
    .map(lambda b: tok(b["text"], truncation=True), batched=True, remove_columns=["text"])
    .rename_column("label", "labels")
)
dl = DataLoader(ds, batch_size=2, collate_fn=DataCollatorWithPadding(tokenizer=tok))
m.eval()
out = [m(**{k: v for k, v in b.items()}).loss.item() for b in dl]
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
from transformers import get_polynomial_decay_schedule_with_warmup
o = torch.optim.AdamW(m.parameters(), lr=5e-5)
s = get_polynomial_decay_schedule_with_warmup(o, 1, 5)
o.step()
s.step()
o.step()
s.step()
out = s.get_last_lr()
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
from transformers import get_inverse_sqrt_schedule
o = torch.optim.AdamW(m.parameters(), lr=5e-5)
s = get_inverse_sqrt_schedule(o, 2)
o.step()
s.step()
out = s.get_last_lr()
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
from transformers import get_scheduler, SchedulerType
o = torch.optim.AdamW(m.parameters(), lr=5e-5)
s = get_scheduler(SchedulerType.LINEAR, o, num_warmup_steps=0, num_training_steps=5)
o.step()
s.step()
out = s.get_last_lr()
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
from transformers.optimization import get_linear_schedule_with_warmup
out = 1
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
from transformers import EvalPrediction
e = EvalPrediction(predictions=np.zeros((2, 2)), label_ids=np.zeros(2))
out = e.predictions.shape[0]
""",
    AUTO
    + """
from transformers.modeling_outputs import SequenceClassifierOutput, BaseModelOutput
o = SequenceClassifierOutput(loss=torch.tensor(1.0), logits=torch.zeros(1, 2))
out = [o.loss.item(), o["logits"].tolist(), o[0].item(), list(o.keys())]
""",
    AUTO
    + """
import torch.nn as nn
class Clf(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = AutoModel.from_pretrained(BERT)
        self.o = nn.Linear(self.b.config.hidden_size, 3)
        nn.init.ones_(self.o.weight)
        nn.init.zeros_(self.o.bias)
    def forward(self, ids, mask):
        return self.o(self.b(input_ids=ids, attention_mask=mask).pooler_output)
c = Clf().eval()
tok = AutoTokenizer.from_pretrained(BERT)
e = tok("time flies", return_tensors="pt")
out = c(e["input_ids"], e["attention_mask"]).tolist()
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2)
ids = tok("time flies", return_tensors="pt").input_ids
out = m.generate(ids, max_new_tokens=3, stop_strings=["flies"], tokenizer=tok).tolist()
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2)
ids = tok("time flies", return_tensors="pt").input_ids
o = m.generate(
    ids, max_new_tokens=3, return_dict_in_generate=True, output_scores=True, num_beams=3, num_return_sequences=2
)
out = [o.sequences.tolist(), o.sequences_scores.tolist()]
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(T5)
m = AutoModelForSeq2SeqLM.from_pretrained(T5)
out = m.prepare_decoder_input_ids_from_labels(torch.tensor([[5, 6]])).tolist()
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(BERT)
m = AutoModel.from_pretrained(BERT)
e = tok(["time flies", "a"], padding=True)
out = [e[0].tokens, e[1].attention_mask, e.encodings[0].ids if e.encodings else 0]
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(BERT)
m = AutoModel.from_pretrained(BERT)
e = tok(["time"], return_tensors="pt")
out = e.convert_to_tensors("pt")["input_ids"].tolist()
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(BERT)
m = AutoModel.from_pretrained(BERT)
out = str(type(tok("time"))).count("Encoding")
""",
    AUTO
    + """
from transformers import PreTrainedModel, PreTrainedTokenizerBase
out = isinstance(AutoModel.from_pretrained(BERT), PreTrainedModel)
""",
    AUTO
    + """
from transformers import PreTrainedTokenizerBase
out = isinstance(AutoTokenizer.from_pretrained(BERT), PreTrainedTokenizerBase)
""",
    """
from transformers import pipeline
p = pipeline("fill-mask", model=MASK, top_k=2)
out = [[y["token"] for y in x] if isinstance(x, list) else x["token"] for x in p("time [MASK] like")]
""",
    """
from transformers import pipeline
p = pipeline("zero-shot-classification", model=NLI, hypothesis_template="time {}")
out = p("time flies", candidate_labels="a,banana")
""",
    """
from transformers import pipeline
p = pipeline("text-classification", model=SENTIMENT)
p.save_pretrained(OUT)
out = pipeline("text-classification", model=OUT)("time")
""",
    """
from transformers import ViTImageProcessor, ViTModel
from PIL import Image
p = ViTImageProcessor.from_pretrained(VIT)
m = ViTModel.from_pretrained(VIT)
out = list(m(**p(Image.open(PICTURE), return_tensors="pt")).last_hidden_state.shape)
""",
    """
from transformers import BertForMaskedLM, BertConfig
c = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
m = BertForMaskedLM(c)
out = [m.num_parameters(), m.config.max_position_embeddings]
""",
    """
from transformers import GPT2Config, GPT2LMHeadModel
m = GPT2LMHeadModel(GPT2Config(vocab_size=60, n_positions=32, n_embd=16, n_layer=1, n_head=2))
out = m.num_parameters()
""",
    """
from transformers import LlamaConfig, LlamaForCausalLM
m = LlamaForCausalLM(
    LlamaConfig(vocab_size=60, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
)
out = m.num_parameters()
""",
    """
from transformers import ViTConfig, ViTForImageClassification
m = ViTForImageClassification(
    ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=32,
        patch_size=16,
        num_labels=3,
    )
)
out = m.num_parameters()
""",
    """
from transformers import T5Config, T5ForConditionalGeneration
m = T5ForConditionalGeneration(T5Config(vocab_size=60, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2))
out = m.num_parameters()
""",
    """
from transformers import BertModel
m = BertModel.from_pretrained(BERT, add_pooling_layer=False)
out = 1
""",
    """
from transformers import AutoConfig
c = AutoConfig.from_pretrained(BERT)
c.update({"hidden_dropout_prob": 0.3})
out = c.hidden_dropout_prob
""",
    """
from transformers import BertConfig
c = BertConfig.from_dict({"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1})
out = c.hidden_size
""",
    """
from transformers import BertConfig
c = BertConfig.from_json_file(BERT + "/config.json")
out = c.hidden_size
""",
    """
from transformers import AutoFeatureExtractor
f = AutoFeatureExtractor.from_pretrained(SOUNDS)
x = [SAMPLES, SAMPLES[:2000]]
i = f(x, sampling_rate=16000, padding=True, max_length=4000, truncation=True, return_tensors="pt")
out = [list(i["input_values"].shape), f.model_input_names[0]]
""",
    """
from transformers import AutoImageProcessor
out = AutoImageProcessor.from_pretrained(VIT).model_input_names
""",
    """
import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM
a = Accelerator(cpu=True)
m = a.prepare(AutoModelForCausalLM.from_pretrained(GPT2))
a.unwrap_model(m).save_pretrained(OUT, save_function=a.save, is_main_process=a.is_main_process)
out = AutoModelForCausalLM.from_pretrained(OUT)(torch.tensor([[5, 6]])).logits.tolist()
""",
    AUTO
    + """
tok = AutoTokenizer.from_pretrained(QA)
m = AutoModelForQuestionAnswering.from_pretrained(QA)
i = tok("time", "flies like", return_tensors="pt")
out = m(**i, start_positions=torch.tensor([1]), end_positions=torch.tensor([2])).loss.item()
""",
    AUTO
    + """
m = AutoModel.from_pretrained(BERT)
seen = []
m.encoder.layer[0].output.dense.register_forward_hook(lambda module, inputs, output: seen.append(output))
m(torch.tensor([[5, 6]]))
out = [list(x.shape) for x in seen]
""",
    AUTO
    + """
from glassformer.hf import AutoModelForSeq2SeqLM
m = AutoModelForSeq2SeqLM.from_pretrained(T5)
ids = torch.tensor([[4, 5, 6]])
out = m.get_encoder()(ids, attention_mask=torch.ones_like(ids)).last_hidden_state.tolist()
""",
    """
from transformers import AutoFeatureExtractor
f = AutoFeatureExtractor.from_pretrained(SOUNDS)
alone = f(SAMPLES, sampling_rate=16000)["input_values"]
rows = f([SAMPLES, SAMPLES[:2000]], sampling_rate=16000)["input_values"]
even = f([SAMPLES, SAMPLES[:2000]], sampling_rate=16000, padding=True)["input_values"]
masked = f([SAMPLES[:9], SAMPLES[:5]], sampling_rate=16000, padding="max_length", max_length=12,
           return_attention_mask=True)
out = [type(x).__name__ + type(x[0]).__name__ for x in (alone, rows, even, masked["attention_mask"])]
out += [alone, rows, even, dict(masked)]
""",
    """
from transformers import AutoProcessor
p = AutoProcessor.from_pretrained(CTC)
both = p(audio=SAMPLES, text="TIME", sampling_rate=16000)
out = [type(both["input_values"]).__name__, type(both["input_values"][0]).__name__, dict(both)]
""",
    """
from PIL import Image
from transformers import AutoImageProcessor, AutoProcessor
picture = Image.open(PICTURE)
p = AutoImageProcessor.from_pretrained(VIT)
one, two = p(picture)["pixel_values"], p([picture, picture])["pixel_values"]
both = AutoProcessor.from_pretrained(CLIP)(text="time flies", images=picture)
out = [type(one).__name__, type(one[0]).__name__, one, two, dict(both)]
""",
    """
import os
from transformers import AutoTokenizer
out = []
for name in (BERT, GPT2):
    saved = AutoTokenizer.from_pretrained(name).save_pretrained(OUT)
    out.append([[os.path.basename(x) for x in saved], sorted(os.listdir(OUT))])
""",
    """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline
tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2)
i = tok("time flies like", return_tensors="pt")
out = []
for how in ({}, {"top_k": 3, "temperature": 0.7}, {"top_p": 0.8}, {"num_return_sequences": 3}, {"num_beams": 3}):
    torch.manual_seed(3)
    out.append(m.generate(**i, do_sample=True, max_new_tokens=9, **how))
p = pipeline("text-generation", model=GPT2)
torch.manual_seed(3)
out.append(p("time flies", max_new_tokens=9, num_return_sequences=2))
""",
    """
import torch
from transformers import AutoModelForSeq2SeqLM
m = AutoModelForSeq2SeqLM.from_pretrained(T5)
torch.manual_seed(3)
out = m.generate(torch.tensor([[4, 5, 6], [6, 5, 4]]), do_sample=True, max_new_tokens=12)
""",
    """
from transformers import pipeline
out = [repr(pipeline("fill-mask", MASK)("time [MASK] like", top_k=1))[:10]]
out += [repr(pipeline("sentiment-analysis", SENTIMENT)(x))[:12] for x in ("time", ["time", "flies"])]
out += [repr(pipeline("text-generation", GPT2)("time flies", max_new_tokens=3, do_sample=False))]
out += [repr(pipeline("ner", NER)("time", ignore_labels=[]))[:11], type(pipeline("ner", NER)("time")).__name__]
out += [repr(pipeline("automatic-speech-recognition", CTC)(SAMPLES))]
""",
    """
import json
from transformers import AutoFeatureExtractor
name, _, settings = repr(AutoFeatureExtractor.from_pretrained(SOUNDS)).partition(" ")
settings = json.loads(settings)
out = [name, settings["sampling_rate"], settings["feature_extractor_type"]]
""",
]

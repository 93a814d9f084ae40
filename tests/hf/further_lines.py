"""Lines of users that need more than a name: hooks on parts, caches of one's own, defaults of configs.

Each is run against both, as those of `lines.py`.
"""

from __future__ import annotations

from tests.hf.lines import Line

FURTHER: dict[str, Line] = {
    "tok-backend": Line(
        """
from transformers import AutoTokenizer

tok = AutoTokenizer.from_pretrained(BERT)
out = [
    tok.backend_tokenizer.normalizer is None,
    [list(x) for x in tok.backend_tokenizer.pre_tokenizer.pre_tokenize_str("time flies.")][0][0],
    type(tok.backend_tokenizer.model).__name__,
    tok._tokenizer.get_vocab_size(),
]
"""
    ),
    "tok-special-attrs": Line(
        """
from transformers import AutoTokenizer

tok = AutoTokenizer.from_pretrained(MASK)
out = [
    tok.cls_token,
    tok.cls_token_id,
    tok.sep_token,
    tok.sep_token_id,
    tok.unk_token,
    tok.unk_token_id,
    tok.mask_token,
    tok.mask_token_id,
    tok.pad_token_type_id,
    tok.name_or_path.endswith("MASK"),
]
"""
    ),
    "tok-addedtoken": Line(
        """
from transformers import AddedToken, AutoTokenizer

tok = AutoTokenizer.from_pretrained(BERT)
n = tok.add_tokens([AddedToken("<new>", lstrip=True, special=False), "other"])
out = [n, tok.tokenize("time <new> other"), tok.get_added_vocab()]
"""
    ),
    "tok-fast-class": Line(
        """
from transformers import BertTokenizerFast, PreTrainedTokenizerFast, AutoTokenizer

t = PreTrainedTokenizerFast(
    tokenizer_file=BERT + "/tokenizer.json",
    unk_token="[UNK]",
    pad_token="[PAD]",
    cls_token="[CLS]",
    sep_token="[SEP]",
    mask_token="[MASK]",
)
out = [
    t("time flies")["input_ids"],
    t.pad_token_id,
    isinstance(AutoTokenizer.from_pretrained(BERT), PreTrainedTokenizerFast),
]
"""
    ),
    "tok-len-truncation-warn": Line(
        """
from transformers import AutoTokenizer

tok = AutoTokenizer.from_pretrained(SENTIMENT)
out = [
    len(tok("time " * 60, truncation=True)["input_ids"]),
    tok.max_len_single_sentence,
    tok.max_len_sentences_pair,
]
"""
    ),
    "cfg-auto": Line(
        """
from transformers import AutoConfig

c = AutoConfig.from_pretrained(BERT)
out = [
    c.model_type,
    c.hidden_size,
    c.num_hidden_layers,
    c.num_attention_heads,
    c.vocab_size,
    c.to_dict()["hidden_act"],
    c.hidden_dropout_prob,
    c.layer_norm_eps,
    c.max_position_embeddings,
]
"""
    ),
    "cfg-unused-kwargs": Line(
        """
from transformers import AutoConfig

c, rest = AutoConfig.from_pretrained(BERT, output_attentions=True, foo=False, return_unused_kwargs=True)
out = [c.output_attentions, rest]
"""
    ),
    "mdl-hook-emb": Line(
        """
from transformers import BertModel, AutoTokenizer

tok = AutoTokenizer.from_pretrained(BERT)
m = BertModel.from_pretrained(BERT).eval()
acts = []
m.embeddings.register_forward_hook(lambda mod, i, o: acts.append(o.detach()))
m(**tok("time flies", return_tensors="pt"))
out = acts[0]
"""
    ),
    "mdl-hook-gpt2-block": Line(
        """
from transformers import AutoModelForCausalLM, AutoTokenizer

tok = AutoTokenizer.from_pretrained(GPT2)
m = AutoModelForCausalLM.from_pretrained(GPT2).eval()
acts = {}
for i, block in enumerate(m.transformer.h):
    block.register_forward_hook(
        lambda mod, inp, o, i=i: acts.__setitem__(i, o[0] if isinstance(o, tuple) else o)
    )
m(**tok("time flies like", return_tensors="pt"))
out = acts
"""
    ),
    "mdl-hook-llama-layer": Line(
        """
from transformers import AutoModelForCausalLM, AutoTokenizer

tok = AutoTokenizer.from_pretrained(CHAT)
m = AutoModelForCausalLM.from_pretrained(CHAT).eval()
acts = {}
h = m.model.layers[0].mlp.register_forward_hook(lambda mod, inp, o: acts.__setitem__("mlp", o.detach()))
h2 = m.model.layers[0].register_forward_pre_hook(lambda mod, args: acts.__setitem__("pre", args[0].detach()))
m(**tok("time flies like", return_tensors="pt"))
out = acts
"""
    ),
    "mdl-hook-steer": Line(
        """
from transformers import AutoModelForCausalLM, AutoTokenizer

tok = AutoTokenizer.from_pretrained(CHAT)
m = AutoModelForCausalLM.from_pretrained(CHAT).eval()


def steer(mod, inp, o):
    return (o[0] + 1.5,) + o[1:] if isinstance(o, tuple) else o + 1.5


h = m.model.layers[0].register_forward_hook(steer)
a = m(**tok("time flies like", return_tensors="pt")).logits
h.remove()
b = m(**tok("time flies like", return_tensors="pt")).logits
out = [a, b]
"""
    ),
    "mdl-hook-body": Line(
        """
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tok = AutoTokenizer.from_pretrained(BERT)
m = AutoModelForSequenceClassification.from_pretrained(BERT).eval()
acts = []
m.bert.register_forward_hook(lambda mod, i, o: acts.append(o.last_hidden_state.detach()))
m(**tok("time flies", return_tensors="pt"))
out = acts[0]
"""
    ),
    "mdl-hook-query": Line(
        """
from transformers import BertModel, AutoTokenizer

tok = AutoTokenizer.from_pretrained(BERT)
m = BertModel.from_pretrained(BERT).eval()
acts = []
m.encoder.layer[0].attention.self.query.register_forward_hook(lambda mod, i, o: acts.append(o.detach()))
m(**tok("time flies", return_tensors="pt"))
out = acts[0]
"""
    ),
    "mdl-hook-encoder": Line(
        """
from transformers import BertModel, AutoTokenizer

tok = AutoTokenizer.from_pretrained(BERT)
m = BertModel.from_pretrained(BERT).eval()
acts = []
m.encoder.register_forward_hook(lambda mod, i, o: acts.append(o[0].detach()))
m(**tok("time flies", return_tensors="pt"))
out = acts[0]
"""
    ),
    "mdl-get-submodule": Line(
        """
from transformers import AutoModelForCausalLM

m = AutoModelForCausalLM.from_pretrained(GPT2)
out = [m.get_submodule("transformer.h.0.ln_1").weight.shape, m.get_parameter("transformer.wte.weight").shape]
"""
    ),
    "mdl-grad-ckpt": Line(
        """
from transformers import AutoModelForCausalLM

m = AutoModelForCausalLM.from_pretrained(CHAT)
m.gradient_checkpointing_enable()
m.enable_input_require_grads()
m.config.use_cache = False
out = m.is_gradient_checkpointing
"""
    ),
    "mdl-eager-attn": Line(
        """
from transformers import AutoModel, AutoTokenizer

tok = AutoTokenizer.from_pretrained(BERT)
m = AutoModel.from_pretrained(BERT, attn_implementation="eager")
o = m(**tok("time flies", return_tensors="pt"), output_attentions=True)
out = [o.attentions[-1], m.config._attn_implementation]
"""
    ),
    "gen-cache-impl": Line(
        """
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

tok = AutoTokenizer.from_pretrained(GPT2)
model = AutoModelForCausalLM.from_pretrained(GPT2)
i = tok("time flies", return_tensors="pt")
out = [
    model.generate(**i, past_key_values=DynamicCache(), max_new_tokens=4, do_sample=False),
    model.generate(**i, use_cache=False, max_new_tokens=4, do_sample=False),
]
"""
    ),
    "gen-static-cache": Line(
        """
from transformers import AutoModelForCausalLM, AutoTokenizer

tok = AutoTokenizer.from_pretrained(CHAT)
model = AutoModelForCausalLM.from_pretrained(CHAT)
out = model.generate(
    **tok("time flies", return_tensors="pt"), cache_implementation="static", max_new_tokens=4, do_sample=False
)
"""
    ),
    "gen-gc-files": Line(
        """
from transformers import GenerationConfig

g = GenerationConfig(max_new_tokens=7, temperature=0.5, do_sample=True)
g.save_pretrained(OUT)
h = GenerationConfig.from_pretrained(OUT)
out = [h.max_new_tokens, h.temperature, h.to_dict()["do_sample"], g.to_json_string() != ""]
"""
    ),
    "tr-distill-args": Line(
        """
from transformers import TrainingArguments


class DistillationTrainingArguments(TrainingArguments):
    def __init__(self, *args, alpha=0.5, temperature=2.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.alpha = alpha
        self.temperature = temperature


a = DistillationTrainingArguments(output_dir=OUT, alpha=1, report_to="none")
out = [
    a.alpha,
    a.temperature,
    a.learning_rate,
    a.per_device_train_batch_size,
    str(a.device),
    a.n_gpu,
    a.train_batch_size,
    a.world_size,
]
"""
    ),
    "col-default": Line(
        """
from transformers import default_data_collator, DefaultDataCollator

out = [
    {
        k: v
        for k, v in default_data_collator(
            [{"input_ids": [1, 2], "label": 0}, {"input_ids": [3, 4], "label": 1}]
        ).items()
    },
    DefaultDataCollator()([{"x": [1.0]}])["x"],
]
"""
    ),
    "misc-apply-init": Line(
        """
import torch
from transformers import AutoModel

m = AutoModel.from_pretrained(BERT)


def init(mod):
    if isinstance(mod, torch.nn.LayerNorm):
        mod.weight.data.fill_(2.0)


m.apply(init)
out = m.encoder.layer[0].output.LayerNorm.weight
"""
    ),
    "tok-longest-first": Line(
        """
from transformers import AutoTokenizer

tok = AutoTokenizer.from_pretrained(BERT)
out = [
    tok("time flies like an arrow .", "a banana flies", truncation="longest_first", max_length=7)[
        "input_ids"
    ],
    tok("time flies", truncation=False, max_length=3)["input_ids"],
]
"""
    ),
    "so-custom-dataset-class": Line(
        """
import torch
from transformers import AutoTokenizer, AutoModelForSequenceClassification, Trainer, TrainingArguments

tok = AutoTokenizer.from_pretrained(SENTIMENT)


class DS(torch.utils.data.Dataset):
    def __init__(self, encodings, labels):
        self.encodings, self.labels = encodings, labels

    def __getitem__(self, idx):
        item = {k: torch.tensor(v[idx]) for k, v in self.encodings.items()}
        item["labels"] = torch.tensor(self.labels[idx])
        return item

    def __len__(self):
        return len(self.labels)


ds = DS(tok(["time flies", "a banana"], truncation=True, padding=True), [0, 1])
t = Trainer(
    model=AutoModelForSequenceClassification.from_pretrained(
        SENTIMENT, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0
    ),
    args=TrainingArguments(
        output_dir=OUT,
        num_train_epochs=1,
        warmup_steps=1,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
    ),
    train_dataset=ds,
    eval_dataset=ds,
)
t.train()
out = t.evaluate()["eval_loss"]
"""
    ),
    "so-resize-mean": Line(
        """
from transformers import AutoModelForCausalLM

m = AutoModelForCausalLM.from_pretrained(GPT2)
m.resize_token_embeddings(24, mean_resizing=False)
out = m.config.vocab_size
"""
    ),
    "so-eval-part": Line(
        """
from transformers import AutoModelForSequenceClassification

m = AutoModelForSequenceClassification.from_pretrained(BERT).train()
m.bert.eval()
out = [m.training, m.bert.training]
"""
    ),
    "misc-pipeline-base-isinstance": Line(
        """
from transformers import Pipeline, pipeline

out = isinstance(pipeline("text-classification", model=SENTIMENT), Pipeline)
"""
    ),
    "misc-check-task": Line(
        """
from transformers.pipelines import check_task

out = check_task("sentiment-analysis")[0]
"""
    ),
    "misc-ner-tokcls-args": Line(
        """
from transformers import pipeline

out = pipeline(
    "token-classification", model=NER, aggregation_strategy="simple", ignore_labels=["O"], stride=2
)("time flies like an arrow")
"""
    ),
    "misc-init-empty": Line(
        """
from accelerate import init_empty_weights
from transformers import AutoConfig, AutoModelForCausalLM

with init_empty_weights():
    m = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(GPT2))
out = m.num_parameters()
"""
    ),
    "pipe-preprocess-forward-postprocess": Line(
        """
from transformers import pipeline

p = pipeline("text-classification", model=SENTIMENT)
x = p.preprocess("time flies")
y = p.forward(x)
out = p.postprocess(y)
""",
        refused="call the pipeline itself",
    ),
    "pipe-textgen-return-tensors": Line(
        """
from transformers import pipeline

g = pipeline("text-generation", model=GPT2)
out = g("time flies", max_new_tokens=4, do_sample=False, return_tensors=True)[0]["generated_token_ids"]
""",
        refused="model.generate",
    ),
    "opt-adafactor": Line(
        """
from transformers import Adafactor
import torch

p = torch.nn.Parameter(torch.ones(4, 4))
o = Adafactor([p], lr=1e-3, scale_parameter=False, relative_step=False)
(p.sum()).backward()
o.step()
out = p
""",
        refused="torch.optim.Adafactor",
    ),
    "opt-trainer-pt-utils": Line(
        """
from transformers.trainer_pt_utils import get_parameter_names
from transformers import AutoModel
import torch

m = AutoModel.from_pretrained(BERT)
out = len(get_parameter_names(m, [torch.nn.LayerNorm])) > 0
"""
    ),
    "misc-encdec": Line(
        """
from transformers import EncoderDecoderModel

out = EncoderDecoderModel.from_encoder_decoder_pretrained(BERT, BERT)
""",
        refused="AutoModelForSeq2SeqLM",
    ),
    "gen-guidance": Line(
        """
from transformers import AutoModelForCausalLM, AutoTokenizer

tok = AutoTokenizer.from_pretrained(GPT2)
model = AutoModelForCausalLM.from_pretrained(GPT2)
out = model.generate(
    **tok("time", return_tensors="pt"), guidance_scale=1.5, max_new_tokens=4, do_sample=False
)
""",
        refused="logits_processor",
    ),
    "misc-hf-argument-parser": Line(
        """
from dataclasses import dataclass, field
from transformers import HfArgumentParser, TrainingArguments


@dataclass
class A:
    model_name: str = field(default="x")
    lr: float = 0.1


(a,) = HfArgumentParser(A).parse_args_into_dataclasses(args=["--lr", "0.2"])
out = [a.model_name, a.lr]
"""
    ),
    "misc-conv1d": Line(
        """
from transformers.pytorch_utils import Conv1D

out = Conv1D(4, 3).weight.shape
"""
    ),
    "misc-onnx": Line(
        """
from transformers.convert_graph_to_onnx import convert

out = convert(framework="pt", model=BERT, output=OUT, opset=12)
""",
        refused="glassformer export",
    ),
    "misc-tf": Line(
        """
from transformers import TFAutoModel

out = TFAutoModel.from_pretrained(BERT)
""",
        refused="write AutoModel",
    ),
    "so-module-swap-linear": Line(
        """
import torch
from transformers import AutoModelForSequenceClassification

m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
m.classifier = torch.nn.Linear(m.config.dim, 5)
out = m.classifier.out_features
"""
    ),
    "misc-pipeline-registry": Line(
        """
from transformers.pipelines import PIPELINE_REGISTRY

out = "text-classification" in PIPELINE_REGISTRY.get_supported_tasks()
""",
        refused="derives from Pipeline",
    ),
    "misc-activations": Line(
        """
import torch
from transformers.activations import ACT2FN

out = ACT2FN["gelu"](torch.tensor([1.0]))
"""
    ),
}

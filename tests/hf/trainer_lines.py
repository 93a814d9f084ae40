"""Trainings by `Trainer`, as books and guides write them: losses, rates, gradient norms, metrics, checkpoints.

Each is run against both, as those of `lines.py`, without dropout. Of two the loss differs: the reference library
divides the loss of a causal language model by all labels, of which the first is never predicted, and adds up that of
the batches of an encoder-decoder that share an update.
"""

from __future__ import annotations

from tests.hf.lines import Line

TRAINERS: dict[str, Line] = {
    "trainer order of logs": Line(
        """
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT, num_labels=2)
d = Dataset.from_dict({'text': ['time flies', 'fruit flies'] * 4, 'label': [0, 1] * 4})
d = d.map(lambda b: tok(b['text'], padding=True), batched=True)
args = TrainingArguments(OUT, num_train_epochs=1, eval_strategy='epoch', logging_steps=1, report_to='none',
                         save_strategy='no', use_cpu=True, disable_tqdm=True, log_level='error')
def metrics(given):
    return {'b': 0.5, 'a': 1.0, 'eval_c': 2.0}
t = Trainer(m, args, train_dataset=d, eval_dataset=d, compute_metrics=metrics)
before = list(t.evaluate())
t.train()
p = t.predict(d).metrics
out = [before, [list(each) for each in t.state.log_history], list(t.evaluate()), list(p)]
"""
    ),
    "trainer basic": Line(
        """
import numpy as np, torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT, num_labels=2)
for x in m.modules():
    if isinstance(x, torch.nn.Dropout):
        x.p = 0.0
m.config.dropout = m.config.attention_dropout = m.config.seq_classif_dropout = 0.0
words = 'time flies like an arrow fruit banana'.split()
d = Dataset.from_dict(
    {'text': [' '.join(words[i % 7 :][:3]) for i in range(20)], 'label': [i % 2 for i in range(20)]}
)
enc = d.map(lambda b: tok(b['text'], padding=True, truncation=True), batched=True, batch_size=None)
def compute_metrics(pred):
    labels = pred.label_ids
    preds = pred.predictions.argmax(-1)
    return {'accuracy': float((preds == labels).mean())}
args = TrainingArguments(
    output_dir=OUT,
    num_train_epochs=2,
    learning_rate=1e-2,
    per_device_train_batch_size=8,
    per_device_eval_batch_size=8,
    weight_decay=0.01,
    eval_strategy='epoch',
    disable_tqdm=True,
    logging_steps=1,
    push_to_hub=False,
    log_level='error',
    report_to='none',
    use_cpu=True,
    save_strategy='no',
)
t = Trainer(
    model=m,
    args=args,
    compute_metrics=compute_metrics,
    train_dataset=enc,
    eval_dataset=enc,
    processing_class=tok,
)
r = t.train()
out = [
    r.global_step,
    [l['loss'] for l in t.state.log_history if 'loss' in l],
    [l['learning_rate'] for l in t.state.log_history if 'loss' in l],
    [l['grad_norm'] for l in t.state.log_history if 'loss' in l],
    [l['eval_loss'] for l in t.state.log_history if 'eval_loss' in l],
    {k: v for k, v in t.evaluate().items() if k in ('eval_accuracy', 'eval_loss', 'epoch')},
]
"""
    ),
    "predict": Line(
        """
import numpy as np, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
rows = [{**tok(x), 'label': y} for x, y in [('time flies', 0), ('fruit flies like a banana', 1), ('time', 1)]]
t = Trainer(
    model=m, args=TrainingArguments(output_dir=OUT, report_to='none', use_cpu=True), processing_class=tok
)
p = t.predict(rows)
out = [
    np.argmax(p.predictions, axis=1),
    p.label_ids,
    p.predictions,
    p.metrics['test_loss'],
    'test_runtime' in p.metrics,
]
"""
    ),
    "token classification trainer": Line(
        """
import numpy as np, torch
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
    DataCollatorForTokenClassification,
)
tok = AutoTokenizer.from_pretrained(NER)
m = AutoModelForTokenClassification.from_pretrained(
    NER, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)
rows = []
for x in ('time flies', 'fruit flies like a banana', 'time'):
    e = tok(x)
    rows.append({**e, 'labels': [-100] + [1] * (len(e['input_ids']) - 2) + [-100]})
def align(p):
    return {'f': float((p.predictions.argmax(-1)[p.label_ids != -100] == 1).mean())}
a = TrainingArguments(
    output_dir=OUT,
    num_train_epochs=3,
    per_device_train_batch_size=2,
    per_device_eval_batch_size=1,
    report_to='none',
    use_cpu=True,
    logging_steps=1,
    eval_strategy='epoch',
    save_strategy='epoch',
    load_best_model_at_end=True,
    learning_rate=1e-3,
)
t = Trainer(
    model=m,
    args=a,
    data_collator=DataCollatorForTokenClassification(tok),
    compute_metrics=align,
    train_dataset=rows,
    eval_dataset=rows,
    processing_class=tok,
)
t.train()
e = t.evaluate()
out = [
    e['eval_loss'],
    e['eval_f'],
    t.predict(rows).predictions.shape,
    [l['loss'] for l in t.state.log_history if 'loss' in l],
    t.state.best_metric,
]
"""
    ),
    "distillation trainer": Line(
        """
import torch, torch.nn as nn, torch.nn.functional as F
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
class DistillationTrainingArguments(TrainingArguments):
    def __init__(self, *args, alpha=0.5, temperature=2.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.alpha = alpha
        self.temperature = temperature
class DistillationTrainer(Trainer):
    def __init__(self, *args, teacher_model=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher_model = teacher_model
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs_stu = model(**inputs)
        loss_ce = outputs_stu.loss
        with torch.no_grad():
            logits_tea = self.teacher_model(**inputs).logits
        loss_fct = nn.KLDivLoss(reduction='batchmean')
        loss_kd = self.args.temperature**2 * loss_fct(
            F.log_softmax(outputs_stu.logits / self.args.temperature, dim=-1),
            F.softmax(logits_tea / self.args.temperature, dim=-1),
        )
        loss = self.args.alpha * loss_ce + (1.0 - self.args.alpha) * loss_kd
        return (loss, outputs_stu) if return_outputs else loss
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(
    SENTIMENT, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0
)
tea = AutoModelForSequenceClassification.from_pretrained(SENTIMENT).eval()
rows = [{**tok(x), 'label': y} for x, y in [('time flies', 0), ('fruit flies like a banana', 1), ('time', 1)]]
a = DistillationTrainingArguments(
    OUT,
    alpha=1,
    temperature=3,
    num_train_epochs=2,
    report_to='none',
    use_cpu=True,
    logging_steps=1,
    per_device_train_batch_size=2,
    learning_rate=1e-3,
)
t = DistillationTrainer(
    model=m, teacher_model=tea, args=a, train_dataset=rows, eval_dataset=rows, processing_class=tok
)
t.train()
out = [[l['loss'] for l in t.state.log_history if 'loss' in l], t.evaluate()['eval_loss']]
""",
        wanted="len(out[0]) == 4 and 0.6 < out[1] < 0.7",
    ),
    "mlm trainer": Line(
        """
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
    DataCollatorForLanguageModeling,
    set_seed,
)
tok = AutoTokenizer.from_pretrained(MASK)
m = AutoModelForMaskedLM.from_pretrained(MASK)
rows = [
    tok(x, return_special_tokens_mask=True)
    for x in ['time flies like an arrow', 'fruit flies like a banana'] * 4
]
a = TrainingArguments(
    output_dir=OUT,
    per_device_train_batch_size=4,
    logging_strategy='epoch',
    eval_strategy='epoch',
    save_strategy='no',
    num_train_epochs=2,
    report_to='none',
    use_cpu=True,
)
t = Trainer(
    model=m,
    processing_class=tok,
    args=a,
    data_collator=DataCollatorForLanguageModeling(tokenizer=tok, mlm_probability=0.15),
    train_dataset=rows,
    eval_dataset=rows,
)
t.train()
out = [len(t.state.log_history), sorted(t.state.log_history[0])]
"""
    ),
    "causal trainer": Line(
        """
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
    DataCollatorForLanguageModeling,
)
tok = AutoTokenizer.from_pretrained(GPT2)
tok.pad_token = tok.eos_token
m = AutoModelForCausalLM.from_pretrained(GPT2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
rows = [tok(x) for x in ['time flies like an arrow', 'fruit flies like a banana'] * 4]
a = TrainingArguments(
    output_dir=OUT,
    per_device_train_batch_size=4,
    max_steps=3,
    logging_steps=1,
    save_strategy='no',
    report_to='none',
    use_cpu=True,
    warmup_steps=1,
    lr_scheduler_type='cosine',
)
t = Trainer(
    model=m,
    processing_class=tok,
    args=a,
    data_collator=DataCollatorForLanguageModeling(tokenizer=tok, mlm=False),
    train_dataset=rows,
)
r = t.train()
out = [
    r.global_step,
    [round(l['learning_rate'], 7) for l in t.state.log_history if 'loss' in l],
    [l['loss'] for l in t.state.log_history if 'loss' in l],
]
"""
    ),
    "seq2seq trainer": Line(
        """
import numpy as np
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    DataCollatorForSeq2Seq,
)
tok = AutoTokenizer.from_pretrained(T5)
m = AutoModelForSeq2SeqLM.from_pretrained(T5, dropout_rate=0.0)
rows = [
    {**tok(x), 'labels': tok(text_target=y)['input_ids']}
    for x, y in [('time flies', 'fruit'), ('a banana', 'time flies')]
]
def metrics(p):
    preds, labels = p
    preds = preds[0] if isinstance(preds, tuple) else preds
    return {'n': float(np.where(preds != -100, preds, 0).shape[0])}
a = Seq2SeqTrainingArguments(
    output_dir=OUT,
    predict_with_generate=True,
    num_train_epochs=1,
    per_device_train_batch_size=1,
    gradient_accumulation_steps=2,
    logging_steps=1,
    report_to='none',
    use_cpu=True,
    save_strategy='no',
    generation_max_length=6,
)
t = Seq2SeqTrainer(
    m,
    a,
    data_collator=DataCollatorForSeq2Seq(tok, model=m),
    train_dataset=rows,
    eval_dataset=rows,
    processing_class=tok,
    compute_metrics=metrics,
)
t.train()
e = t.evaluate()
out = [e['eval_n'], e['eval_loss'], [l['loss'] for l in t.state.log_history if 'loss' in l]]
""",
        wanted="out[0] == 2 and abs(out[1] - out[2][0]) < 0.1",
    ),
    "early stopping callback and own callback": Line(
        """
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
    EarlyStoppingCallback,
    TrainerCallback,
)
seen = []
class Mine(TrainerCallback):
    def on_epoch_end(self, args, state, control, **kwargs):
        seen.append(round(state.epoch, 2))
    def on_log(self, args, state, control, logs=None, **kwargs):
        seen.append(sorted(logs)[0])
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(
    SENTIMENT, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0
)
rows = [{**tok(x), 'label': y} for x, y in [('time flies', 0), ('fruit flies like a banana', 1), ('time', 1)]]
a = TrainingArguments(
    output_dir=OUT,
    num_train_epochs=6,
    report_to='none',
    use_cpu=True,
    learning_rate=0.0,
    eval_strategy='epoch',
    save_strategy='epoch',
    load_best_model_at_end=True,
    metric_for_best_model='eval_loss',
    greater_is_better=False,
    save_total_limit=1,
)
t = Trainer(
    model=m,
    args=a,
    train_dataset=rows,
    eval_dataset=rows,
    processing_class=tok,
    callbacks=[EarlyStoppingCallback(early_stopping_patience=2), Mine()],
)
t.train()
import os
out = [t.state.global_step, seen, sorted(x for x in os.listdir(OUT) if x.startswith('checkpoint'))]
"""
    ),
    "resume from checkpoint": Line(
        """
import os
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint
tok = AutoTokenizer.from_pretrained(SENTIMENT)
rows = [
    {**tok(x), 'label': y}
    for x, y in [('time flies', 0), ('fruit flies like a banana', 1), ('time', 1), ('a', 0)]
]
def make(steps):
    m = AutoModelForSequenceClassification.from_pretrained(
        SENTIMENT, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0
    )
    a = TrainingArguments(
        output_dir=OUT,
        max_steps=steps,
        save_steps=2,
        logging_steps=1,
        per_device_train_batch_size=1,
        report_to='none',
        use_cpu=True,
        learning_rate=1e-3,
        lr_scheduler_type='constant',
    )
    return Trainer(model=m, args=a, train_dataset=rows, eval_dataset=rows, processing_class=tok)
make(2).train()
last = get_last_checkpoint(OUT)
t = make(6)
t.train(resume_from_checkpoint=True)
out = [
    os.path.basename(last),
    [l['loss'] for l in t.state.log_history if 'loss' in l],
    t.evaluate()['eval_loss'],
]
"""
    ),
    "model_init and save_model": Line(
        """
import os
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
tok = AutoTokenizer.from_pretrained(SENTIMENT)
def model_init():
    return AutoModelForSequenceClassification.from_pretrained(
        SENTIMENT, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0
    )
rows = [{**tok(x), 'label': y} for x, y in [('time flies', 0), ('fruit flies like a banana', 1), ('time', 1)]]
t = Trainer(
    model_init=model_init,
    args=TrainingArguments(
        output_dir=OUT, num_train_epochs=1, report_to='none', use_cpu=True, save_strategy='no'
    ),
    train_dataset=rows,
    processing_class=tok,
)
t.train()
t.save_model(OUT + '/final')
n = AutoModelForSequenceClassification.from_pretrained(OUT + '/final')
out = [n(**tok('time', return_tensors='pt')).logits, os.path.exists(OUT + '/final/config.json')]
"""
    ),
    "qa trainer": Line(
        """
from transformers import AutoModelForQuestionAnswering, Trainer, TrainingArguments, default_data_collator
m = AutoModelForQuestionAnswering.from_pretrained(QA, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
rows = [
    {
        'input_ids': [1, 5, 2, 6, 7, 2],
        'attention_mask': [1] * 6,
        'token_type_ids': [0, 0, 0, 1, 1, 1],
        'start_positions': 3,
        'end_positions': 4,
    }
] * 4
t = Trainer(
    model=m,
    args=TrainingArguments(
        output_dir=OUT,
        num_train_epochs=2,
        per_device_train_batch_size=2,
        logging_steps=1,
        report_to='none',
        use_cpu=True,
        save_strategy='no',
    ),
    train_dataset=rows,
    eval_dataset=rows,
    data_collator=default_data_collator,
)
t.train()
p = t.predict(rows)
out = [[l['loss'] for l in t.state.log_history if 'loss' in l], p.predictions, p.label_ids]
"""
    ),
    "data set dict eval": Line(
        """
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
tok = AutoTokenizer.from_pretrained(SENTIMENT)
m = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)
rows = [{**tok(x), 'label': y} for x, y in [('time flies', 0), ('fruit flies like a banana', 1)]]
t = Trainer(
    model=m,
    args=TrainingArguments(output_dir=OUT, report_to='none', use_cpu=True),
    eval_dataset={'a': rows, 'b': rows[:1]},
    processing_class=tok,
)
out = {k: v for k, v in t.evaluate().items() if k.endswith('loss')}
"""
    ),
}

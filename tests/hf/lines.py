"""Lines that users of the reference library type, chapter by chapter of a book on it and task by task.

Each is run twice: as it stands, and with `glassformer.hf` in the place of `transformers`; `out` has to be the same.
Capitals are tiny model folders. A line that the reference library no longer runs says what `out` has to hold;
one that is refused says with which words.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One piece of code.

    code: sets `out`; `transformers` is replaced by `glassformer.hf`
    wanted: an expression of `out` that holds, where the reference library cannot run the code; None = compare
    refused: words of the error that says what to write instead
    """

    code: str
    wanted: str | None = None
    refused: str | None = None


PIPE = "from transformers import pipeline\n"
TOK = "from transformers import AutoTokenizer\ntok = AutoTokenizer.from_pretrained(BERT)\n"
GEN = (
    "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
    "tok = AutoTokenizer.from_pretrained(GPT2)\nmodel = AutoModelForCausalLM.from_pretrained(GPT2)\n"
    "ids = tok('time flies like', return_tensors='pt')\n"
)
CLS = (
    "from transformers import AutoModelForSequenceClassification, AutoTokenizer\n"
    "import torch\n"
    "tok = AutoTokenizer.from_pretrained(SENTIMENT)\n"
    "model = AutoModelForSequenceClassification.from_pretrained(SENTIMENT)\n"
    "batch = tok(['time flies', 'fruit flies like a banana'], padding=True, truncation=True, return_tensors='pt')\n"
)
BODY = (
    "from transformers import AutoModel, AutoTokenizer\nimport torch\n"
    "tok = AutoTokenizer.from_pretrained(BERT)\nmodel = AutoModel.from_pretrained(BERT)\n"
    "batch = tok(['time flies', 'fruit flies like a banana'], padding=True, return_tensors='pt')\n"
)
S2S = (
    "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer\n"
    "tok = AutoTokenizer.from_pretrained(T5)\nmodel = AutoModelForSeq2SeqLM.from_pretrained(T5)\n"
    "ids = tok('time flies like an arrow', return_tensors='pt')\n"
)

CHAPTERS: dict[str, list[Line]] = {
    "pipelines": [
        Line(PIPE + "out = pipeline('text-classification', model=SENTIMENT)('time flies')"),
        Line(PIPE + "out = pipeline('sentiment-analysis', model=SENTIMENT)(['time flies', 'fruit flies'])"),
        Line(PIPE + "out = pipeline('text-classification', SENTIMENT, top_k=None)('time flies')"),
        Line(PIPE + "out = pipeline('text-classification', SENTIMENT)('time flies', top_k=2)"),
        Line(PIPE + "out = pipeline(task='text-classification', model=SENTIMENT, device=-1)('time flies')"),
        Line(PIPE + "out = pipeline('text-classification', SENTIMENT, device='cpu', batch_size=2)(['time', 'flies'])"),
        Line(PIPE + "out = pipeline('text-classification', SENTIMENT)({'text': 'time', 'text_pair': 'flies'})"),
        Line(PIPE + "out = pipeline('text-classification', SENTIMENT, function_to_apply='none')('time flies')"),
        Line(PIPE + "out = pipeline('text-classification', SENTIMENT, truncation=True, max_length=8)('time ' * 30)"),
        Line(PIPE + "out = pipeline('ner', model=NER)('time flies like an arrow')"),
        Line(PIPE + "out = pipeline('ner', model=NER, aggregation_strategy='simple')('time flies like an arrow')"),
        Line(PIPE + "out = pipeline('token-classification', NER, aggregation_strategy='average')('time flies')"),
        Line(PIPE + "out = pipeline('token-classification', NER, aggregation_strategy='max')(['time', 'flies'])"),
        Line(PIPE + "out = pipeline('token-classification', NER, ignore_labels=[])('time flies like')"),
        Line(
            PIPE + "out = pipeline('question-answering', model=QA)"
            "(question='time flies', context='fruit flies like a banana')",
            wanted="{'score', 'start', 'end', 'answer'} <= set(out) and out['answer'] in 'fruit flies like a banana'",
        ),
        Line(
            PIPE + "out = pipeline('question-answering', QA)"
            "({'question': 'time', 'context': 'fruit flies like'}, top_k=3)",
            wanted="len(out) == 3 and out[0]['score'] >= out[1]['score']",
        ),
        Line(
            PIPE + "out = pipeline('question-answering', QA, handle_impossible_answer=True)"
            "(question='time', context='fruit flies', max_answer_len=2, doc_stride=4)",
            wanted="'answer' in out",
        ),
        Line(PIPE + "out = pipeline('fill-mask', model=MASK)('time [MASK] like an arrow')"),
        Line(PIPE + "out = pipeline('fill-mask', MASK, top_k=2)('time [MASK] like')"),
        Line(PIPE + "out = pipeline('fill-mask', MASK)('time [MASK] like', targets=['flies', 'banana'])"),
        Line(PIPE + "out = pipeline('fill-mask', MASK)(['time [MASK]', '[MASK] flies'])"),
        Line(PIPE + "p = pipeline('fill-mask', MASK)\nout = p(f'time {p.tokenizer.mask_token} like')"),
        Line(
            PIPE + "out = pipeline('summarization', model=BART)('time flies like an arrow', max_length=12)",
            wanted="isinstance(out[0]['summary_text'], str)",
        ),
        Line(
            PIPE + "out = pipeline('summarization', BART)('time flies', min_length=2, max_length=9, "
            "clean_up_tokenization_spaces=True)[0]['summary_text']",
            wanted="isinstance(out, str)",
        ),
        Line(
            PIPE + "out = pipeline('translation_en_to_de', model=T5)('time flies', max_length=9)",
            wanted="isinstance(out[0]['translation_text'], str)",
        ),
        Line(
            PIPE + "out = pipeline('translation', T5, src_lang='en', tgt_lang='de')('time flies', max_length=9)",
            wanted="isinstance(out[0]['translation_text'], str)",
        ),
        Line(
            PIPE + "out = pipeline('text2text-generation', T5)('time flies', max_new_tokens=3)",
            wanted="isinstance(out[0]['generated_text'], str)",
        ),
        Line(PIPE + "out = pipeline('text-generation', model=GPT2)('time flies', max_new_tokens=4, do_sample=False)"),
        Line(
            PIPE + "out = pipeline('text-generation', GPT2)"
            "('time flies', max_new_tokens=4, do_sample=False, return_full_text=False)"
        ),
        Line(
            PIPE + "out = pipeline('text-generation', GPT2)"
            "(['time flies', 'fruit'], max_new_tokens=3, num_beams=2, num_return_sequences=2, do_sample=False)"
        ),
        Line(
            PIPE + "from transformers import set_seed\nset_seed(42)\n"
            "out = len(pipeline('text-generation', GPT2)('time', max_length=9, num_return_sequences=3, do_sample=True))"
        ),
        Line(
            PIPE + "out = pipeline('zero-shot-classification', model=NLI)"
            "('time flies', candidate_labels=['fruit', 'arrow'])"
        ),
        Line(
            PIPE + "out = pipeline('zero-shot-classification', NLI)(['time flies', 'fruit'], ['a banana', 'time'], "
            "multi_label=True, hypothesis_template='like {}.')"
        ),
        Line(PIPE + "out = pipeline('zero-shot-classification', NLI)('time', candidate_labels='fruit, arrow')"),
        Line(PIPE + "out = pipeline('feature-extraction', model=BERT)('time flies')"),
        Line(PIPE + "out = pipeline('feature-extraction', BERT, return_tensors='pt')('time flies')"),
        Line(PIPE + "out = pipeline('image-classification', model=VIT)(PICTURE)"),
        Line(PIPE + "from PIL import Image\nout = pipeline('image-classification', VIT)(Image.open(PICTURE), top_k=2)"),
        Line(
            PIPE + "out = pipeline('zero-shot-image-classification', model=CLIP)"
            "(PICTURE, candidate_labels=['time', 'banana'])"
        ),
        Line(PIPE + "out = pipeline('audio-classification', model=SOUNDS)(SAMPLES, top_k=2)"),
        Line(
            PIPE + "out = pipeline('audio-classification', model=SOUNDS)(SOUND)",  # ffmpeg is not there
            wanted="{x['label'] for x in out} == {'NEGATIVE', 'POSITIVE'}",
        ),
        Line(PIPE + "out = pipeline('automatic-speech-recognition', model=CTC)(SAMPLES)"),
        Line(
            PIPE + "out = pipeline('automatic-speech-recognition', CTC)(SOUND)", wanted="isinstance(out['text'], str)"
        ),
        Line(
            PIPE + "out = pipeline('automatic-speech-recognition', model=WHISPER)"
            "(SAMPLES, generate_kwargs={'max_new_tokens': 4})['text']",
            wanted="isinstance(out, str)",  # wants Whisper's own tokenizer there
        ),
        Line(
            PIPE + "out = pipeline('table-question-answering', model=TAPAS)"
            "(table={'time': ['flies', 'fruit'], 'arrow': ['a', 'like']}, query='time flies')",
            wanted="set(out) == {'answer', 'coordinates', 'cells'}",  # its own tokenizer there
        ),
        Line(PIPE + "out = type(pipeline('text-classification', SENTIMENT).model).__name__ != ''"),
        Line(PIPE + "out = pipeline('text-classification', SENTIMENT).model.config.id2label"),
        Line(
            PIPE + "import json\nout = json.loads(json.dumps(pipeline('ner', NER)('time flies')))",
            wanted="out[0]['word'] == 'time'",  # NumPy's numbers are no JSON there
        ),
        Line(
            PIPE + "import pandas as pd\n"
            "out = list(pd.DataFrame(pipeline('text-classification', SENTIMENT)(['time', 'flies'])).columns)"
        ),
        Line(PIPE + "out = list(pipeline('text-classification', SENTIMENT)(t for t in ['time', 'flies']))"),
        Line(CLS + PIPE + "out = pipeline('text-classification', model=model, tokenizer=tok)('time flies')"),
    ],
    "tokenizers": [
        Line(TOK + "out = dict(tok('time flies like an arrow'))"),
        Line(TOK + "out = tok('time flies').input_ids"),
        Line(TOK + "out = tok(['time flies', 'fruit'], padding=True)['attention_mask']"),
        Line(TOK + "out = dict(tok(['time flies', 'fruit'], padding='max_length', max_length=8, return_tensors='pt'))"),
        Line(TOK + "out = tok('time flies like an arrow', truncation=True, max_length=4)['input_ids']"),
        Line(TOK + "out = dict(tok('time flies', 'fruit flies'))"),
        Line(TOK + "out = tok(['time', 'fruit'], ['flies', 'like'], padding=True).token_type_ids"),
        Line(TOK + "out = tok('time flies', add_special_tokens=False)['input_ids']"),
        Line(TOK + "out = tok.tokenize('time flies like an arrow')"),
        Line(TOK + "out = tok.convert_ids_to_tokens(tok('time flies').input_ids)"),
        Line(TOK + "out = tok.convert_tokens_to_ids(['time', 'flies', 'banana'])"),
        Line(TOK + "out = tok.convert_tokens_to_ids('time')"),
        Line(TOK + "out = tok.convert_tokens_to_string(['time', 'flies'])"),
        Line(TOK + "out = tok.decode(tok('time flies').input_ids)"),
        Line(TOK + "out = tok.decode(tok('time flies').input_ids, skip_special_tokens=True)"),
        Line(TOK + "out = tok.batch_decode(tok(['time flies', 'fruit']).input_ids, skip_special_tokens=True)"),
        Line(TOK + "out = tok.encode('time flies')"),
        Line(TOK + "out = tok.encode('time flies', return_tensors='pt')"),
        Line(TOK + "out = (tok.vocab_size, len(tok), tok.model_max_length)"),
        Line(TOK + "out = (tok.pad_token, tok.pad_token_id, tok.unk_token_id)"),
        Line(TOK + "out = (tok.cls_token, tok.sep_token_id, tok.mask_token)"),
        Line(TOK + "out = sorted(tok.get_vocab().items())"),
        Line(TOK + "out = tok.vocab['time']"),
        Line(TOK + "out = sorted(tok.all_special_tokens)"),
        Line(TOK + "out = tok.model_input_names"),
        Line(TOK + "out = tok('time flies', return_offsets_mapping=True)['offset_mapping']"),
        Line(TOK + "out = tok('time flies', return_special_tokens_mask=True)['special_tokens_mask']"),
        Line(TOK + "out = tok(['time', 'flies', 'like'], is_split_into_words=True).word_ids()"),
        Line(TOK + "out = tok([['time', 'flies'], ['fruit']], is_split_into_words=True, padding=True).word_ids(1)"),
        Line(
            TOK + "out = tok('time', 'fruit flies like a banana', truncation='only_second', max_length=6, stride=1, "
            "return_overflowing_tokens=True)['input_ids']"
        ),
        Line(
            TOK + "out = tok('time', 'fruit flies like a banana', truncation='only_second', max_length=6, stride=1, "
            "return_overflowing_tokens=True)['overflow_to_sample_mapping']"
        ),
        Line(TOK + "out = tok('time', 'flies').sequence_ids()"),
        Line(TOK + "out = tok('time flies').char_to_token(6)"),
        Line(TOK + "out = tok('time flies').tokens()"),
        Line(TOK + "out = dict(tok.pad({'input_ids': [[1, 4, 2], [1, 2]]}, padding=True, return_tensors='pt'))"),
        Line(TOK + "out = tok('time flies', return_tensors='np')['input_ids'].tolist()"),
        Line(TOK + "batch = tok('time', return_tensors='pt').to('cpu')\nout = sorted(batch.keys())"),
        Line(TOK + "out = {k: v.shape[0] for k, v in tok(['time', 'a'], padding=True, return_tensors='pt').items()}"),
        Line(TOK + "tok.save_pretrained(OUT)\nout = AutoTokenizer.from_pretrained(OUT)('time flies').input_ids"),
        Line(TOK + "out = (tok.add_tokens(['gear']), tok('time gear').input_ids)"),
        Line(TOK + "out = (tok.add_special_tokens({'additional_special_tokens': ['[X]']}), tok('[X] time').input_ids)"),
        Line(TOK + "tok.padding_side = 'left'\nout = tok(['time flies', 'a'], padding=True).input_ids"),
        Line(TOK + "out = tok.is_fast"),
        Line(TOK + "out = tok.backend_tokenizer.pre_tokenizer.pre_tokenize_str('time flies')"),
        Line(
            "from transformers import AutoTokenizer\ntok = AutoTokenizer.from_pretrained(GPT2)\n"
            "tok.pad_token = tok.eos_token\nout = tok(['time flies', 'a'], padding=True).input_ids"
        ),
        Line(
            "from transformers import AutoTokenizer\ntok = AutoTokenizer.from_pretrained(CHAT)\n"
            "out = tok.apply_chat_template([{'role': 'user', 'content': 'time'}], tokenize=False, "
            "add_generation_prompt=True)"
        ),
    ],
    "models": [
        Line(BODY + "out = model(**batch).last_hidden_state"),
        Line(BODY + "out = model(**batch)[0]"),
        Line(BODY + "out = model(batch['input_ids'], batch['attention_mask'])[0][:, 0]"),
        Line(BODY + "out = model(**batch, output_hidden_states=True).hidden_states[1]"),
        Line(
            BODY.replace("from_pretrained(BERT)\nb", "from_pretrained(BERT, attn_implementation='eager')\nb")
            + "out = model(**batch, output_attentions=True).attentions[0]"
        ),
        Line(
            BODY + "with torch.no_grad():\n    out = model(**{k: v.to('cpu') for k, v in batch.items()}).to_tuple()[0]"
        ),
        Line(BODY + "out = model(**batch, return_dict=False)[0]"),
        Line(BODY + "out = model.config.hidden_size"),
        Line(BODY + "out = (model.config.model_type, model.config.num_hidden_layers, model.config.vocab_size)"),
        Line(BODY + "out = model.num_parameters()"),
        Line(BODY + "out = sum(p.numel() for p in model.parameters() if p.requires_grad)"),
        Line(BODY + "out = str(model.device), str(model.dtype), model.training"),
        Line(BODY + "model = model.to('cpu').eval()\nout = model(**batch).last_hidden_state.shape"),
        Line(BODY + "out = tuple(model.get_input_embeddings().weight.shape)"),
        Line(BODY + "out = model.half().dtype"),
        Line(BODY + "out = isinstance(model, torch.nn.Module)"),
        Line(BODY + "import pickle\nout = pickle.loads(pickle.dumps(model))(**batch).last_hidden_state"),
        Line(BODY + "import copy\nout = copy.deepcopy(model)(**batch).last_hidden_state"),
        Line(
            "from transformers import AutoModel\nimport torch\n"
            "out = AutoModel.from_pretrained(BERT, torch_dtype=torch.float16).dtype"
        ),
        Line("from transformers import AutoModel\nout = AutoModel.from_pretrained(BERT, dtype='auto').dtype"),
        Line("from transformers import AutoModel\nout = AutoModel.from_pretrained(BERT, device_map='cpu').device.type"),
        Line(
            "from transformers import AutoModel\nout = AutoModel.from_pretrained(BERT, local_files_only=True).training"
        ),
        Line(
            "from transformers import AutoModel\nm = AutoModel.from_pretrained(BERT)\nm.save_pretrained(OUT)\n"
            "out = AutoModel.from_pretrained(OUT).num_parameters()"
        ),
        Line("from transformers import AutoConfig\nout = AutoConfig.from_pretrained(BERT).num_attention_heads"),
        Line("from transformers import AutoConfig\nout = AutoConfig.from_pretrained(GPT2).hidden_size"),
        Line(
            "from transformers import AutoConfig, AutoModelForCausalLM\n"
            "config = AutoConfig.from_pretrained(GPT2, n_layer=2)\n"
            "out = AutoModelForCausalLM.from_config(config).num_parameters()"
        ),
        Line(
            "from transformers import AutoConfig, AutoModelForTokenClassification\n"
            "config = AutoConfig.from_pretrained(BERT, num_labels=3, id2label={0: 'O', 1: 'B', 2: 'I'}, "
            "label2id={'O': 0, 'B': 1, 'I': 2})\n"
            "m = AutoModelForTokenClassification.from_pretrained(BERT, config=config)\nout = m.config.id2label"
        ),
        Line(CLS + "out = model(**batch).logits"),
        Line(CLS + "out = torch.nn.functional.softmax(model(**batch).logits, dim=-1)"),
        Line(CLS + "out = model.config.id2label[model(**batch).logits.argmax(-1)[0].item()]"),
        Line(CLS + "out = model(**batch, labels=torch.tensor([0, 1])).loss"),
        Line(CLS + "loss = model(**batch, labels=torch.tensor([0, 1])).loss\nloss.backward()\nout = loss.item()"),
        Line(
            "from transformers import AutoModelForSequenceClassification as A\n"
            "m = A.from_pretrained(BERT, num_labels=6)\nout = m.config.num_labels"
        ),
        Line(
            "from transformers import AutoModelForSequenceClassification as A\n"
            "m = A.from_pretrained(BERT, num_labels=3, problem_type='multi_label_classification')\n"
            "out = m.config.problem_type"
        ),
        Line(
            "from transformers import AutoModelForSequenceClassification as A\n"
            "m = A.from_pretrained(SENTIMENT, num_labels=5, ignore_mismatched_sizes=True)\nout = m.config.num_labels"
        ),
        Line(
            "from transformers import AutoModelForMaskedLM, AutoTokenizer\n"
            "tok = AutoTokenizer.from_pretrained(MASK)\nm = AutoModelForMaskedLM.from_pretrained(MASK)\n"
            "batch = tok('time [MASK] like', return_tensors='pt')\nout = m(**batch).logits[0, 2].topk(3).indices"
        ),
        Line(
            "from transformers import AutoModelForTokenClassification, AutoTokenizer\n"
            "tok = AutoTokenizer.from_pretrained(NER)\nm = AutoModelForTokenClassification.from_pretrained(NER)\n"
            "out = m(tok.encode('time flies', return_tensors='pt')).logits.argmax(2)"
        ),
        Line(
            "from transformers import AutoModelForQuestionAnswering, AutoTokenizer\n"
            "tok = AutoTokenizer.from_pretrained(QA)\nm = AutoModelForQuestionAnswering.from_pretrained(QA)\n"
            "o = m(**tok('time', 'fruit flies', return_tensors='pt'))\nout = (o.start_logits, o.end_logits)"
        ),
        Line(
            "from transformers import BertModel, BertTokenizerFast, BertConfig\n"
            "out = BertModel.from_pretrained(BERT).config.hidden_size"
        ),
        Line("from transformers import GPT2LMHeadModel\nout = GPT2LMHeadModel.from_pretrained(GPT2).num_parameters()"),
        Line(
            "from transformers import CLIPModel\n"
            "import torch\n"
            "m = CLIPModel.from_pretrained(CLIP)\nout = m.num_parameters()"
        ),
        Line(
            "from transformers import AutoImageProcessor, AutoModelForImageClassification\n"
            "from PIL import Image\n"
            "p = AutoImageProcessor.from_pretrained(VIT)\nm = AutoModelForImageClassification.from_pretrained(VIT)\n"
            "out = m(**p(Image.open(PICTURE), return_tensors='pt')).logits"
        ),
        Line(
            "from transformers import AutoFeatureExtractor, AutoModelForCTC\n"
            "p = AutoFeatureExtractor.from_pretrained(CTC)\nm = AutoModelForCTC.from_pretrained(CTC)\n"
            "out = m(**p(SAMPLES, sampling_rate=16000, return_tensors='pt')).logits"
        ),
        Line(
            "from transformers import TrainingArguments\nout = TrainingArguments(OUT, fsdp='full_shard')",
            refused="glassformer train",
        ),
    ],
    "generation": [
        Line(GEN + "out = model.generate(**ids, max_new_tokens=4, do_sample=False)"),
        Line(GEN + "out = model.generate(ids['input_ids'], max_new_tokens=4, do_sample=False)"),
        Line(GEN + "out = model.generate(input_ids=ids.input_ids, max_length=8, do_sample=False)"),
        Line(GEN + "out = tok.decode(model.generate(**ids, max_new_tokens=4)[0], skip_special_tokens=True)"),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=4, num_beams=3, do_sample=False)"),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=5, num_beams=3, no_repeat_ngram_size=2)"),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=4, num_beams=3, num_return_sequences=2)"),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=3, do_sample=True, top_k=1)"),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=3, do_sample=True, temperature=0.5, top_k=5).shape[0]"),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=3, do_sample=True, top_p=0.9, top_k=0).shape[0]"),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=4, repetition_penalty=1.5)"),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=4, pad_token_id=0)"),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=4, eos_token_id=[5, 6], pad_token_id=0)"),
        Line(
            GEN + "o = model.generate(**ids, max_new_tokens=3, return_dict_in_generate=True, output_scores=True)\n"
            "out = (o.sequences, o.scores[0])"
        ),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=4, min_new_tokens=4)"),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=4, bad_words_ids=[[5]])"),
        Line(GEN + "out = model.generate(**ids, max_new_tokens=4, use_cache=True)"),
        Line(
            GEN + "from transformers import GenerationConfig\n"
            "out = model.generate(**ids, generation_config=GenerationConfig(max_new_tokens=3))"
        ),
        Line(
            GEN + "from transformers import TextStreamer\n"
            "out = model.generate(**ids, max_new_tokens=3, streamer=TextStreamer(tok))"
        ),
        Line(GEN + "out = model(**ids, use_cache=True).logits"),
        Line(
            GEN + "o = model(**ids, use_cache=True)\n"
            "out = model(ids.input_ids[:, -1:], past_key_values=o.past_key_values).logits"
        ),
        Line(GEN + "out = model(**ids, labels=ids.input_ids).loss"),
        Line(
            GEN + "import torch\nout = torch.softmax(model(**ids).logits[0, -1], dim=-1).argsort(descending=True)[:3]"
        ),
        Line(S2S + "out = model.generate(**ids, max_new_tokens=5)"),
        Line(S2S + "out = model.generate(ids.input_ids, num_beams=2, max_length=6)"),
        Line(S2S + "out = model(**ids, labels=ids.input_ids).loss"),
        Line(S2S + "out = model(**ids, decoder_input_ids=ids.input_ids).logits"),
        Line(S2S + "out = tok.batch_decode(model.generate(**ids, max_new_tokens=3), skip_special_tokens=True)"),
        Line(S2S + "out = model.generate(**ids, length_penalty=0.8, num_beams=2, max_length=6, early_stopping=True)"),
        Line(
            "from transformers import WhisperProcessor, WhisperForConditionalGeneration\n"
            "p = WhisperProcessor.from_pretrained(WHISPER)\n"
            "m = WhisperForConditionalGeneration.from_pretrained(WHISPER)\n"
            "f = p(SAMPLES, sampling_rate=12000, return_tensors='pt').input_features\n"
            "out = tuple(f.shape)"
        ),
    ],
    "training": [
        Line(
            TOK + "from transformers import DataCollatorWithPadding\n"
            "out = dict(DataCollatorWithPadding(tokenizer=tok)([tok('time flies'), tok('a')]))"
        ),
        Line(
            TOK + "from transformers import DataCollatorForTokenClassification\n"
            "out = dict(DataCollatorForTokenClassification(tok)([{'input_ids': [1, 4, 2], 'labels': [-100, 1, -100]}, "
            "{'input_ids': [1, 2], 'labels': [-100, -100]}]))['labels']"
        ),
        Line(
            "from transformers import AutoTokenizer, DataCollatorForLanguageModeling\n"
            "tok = AutoTokenizer.from_pretrained(MASK)\n"
            "out = DataCollatorForLanguageModeling(tokenizer=tok, mlm_probability=0.15)([tok('time flies')])"
            "['labels'].shape"
        ),
        Line(
            S2S + "from transformers import DataCollatorForSeq2Seq\n"
            "out = dict(DataCollatorForSeq2Seq(tok, model=model)([{'input_ids': [4, 5], 'labels': [6]}, "
            "{'input_ids': [4], 'labels': [5, 6]}]))['labels']"
        ),
        Line(
            CLS + "opt = torch.optim.AdamW(model.parameters(), lr=1e-3)\nmodel.train()\n"
            "for _ in range(2):\n    loss = model(**batch, labels=torch.tensor([0, 1])).loss\n"
            "    loss.backward(); opt.step(); opt.zero_grad()\nout = loss.item() > 0"
        ),
        Line(
            "from transformers import get_linear_schedule_with_warmup\nimport torch\n"
            "opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)\n"
            "s = get_linear_schedule_with_warmup(opt, num_warmup_steps=2, num_training_steps=4)\n"
            "out = []\nfor _ in range(4):\n    out.append(s.get_last_lr()[0]); opt.step(); s.step()"
        ),
        Line(
            CLS + "from accelerate import Accelerator\n"
            "m, o = Accelerator(cpu=True).prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))\n"
            "out = m(**batch).logits.shape"
        ),
        Line("from transformers import set_seed\nimport torch\nset_seed(3)\nout = torch.rand(2)"),
    ],
}

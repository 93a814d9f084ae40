"""Lines that users of the reference library type after its guides: parts that are called, vectors, steps of generation.

Each is run against both, as those of `lines.py`.
"""

from __future__ import annotations

from tests.hf.lines import Line

START = """
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers import AutoModelForSequenceClassification, AutoTokenizer
ids = torch.tensor([[4, 5, 6]])
"""
TOK = START + "tok = AutoTokenizer.from_pretrained(BERT)\n"
GPT = START + "m = AutoModelForCausalLM.from_pretrained(GPT2, attn_implementation='eager')\n"
T5 = START + "m = AutoModelForSeq2SeqLM.from_pretrained(T5)\n"
BART = START + "m = AutoModelForSeq2SeqLM.from_pretrained(BART, attn_implementation='eager')\n"
CLS = START + "m = AutoModelForSequenceClassification.from_pretrained(NLI)\n"

PAGE = (
    "from transformers import pipeline\nimport torch\n"
    "words = 'time flies like an arrow . fruit flies'.split()\n"
    "page = [(w, [20 * i, 10, 20 * i + 15, 30]) for i, w in enumerate(words)]\n"
)

GUIDES: dict[str, list[Line]] = {
    "pages": [
        Line(
            PAGE + "p = pipeline('document-question-answering', model=LAYOUT)\n"
            "out = p(image=None, question='a banana', word_boxes=page)"
        ),
        Line(
            PAGE + "p = pipeline('document-question-answering', LAYOUT)\n"
            "out = p({'question': 'a banana', 'word_boxes': page}, top_k=4, max_answer_len=2)"
        ),
        Line(
            PAGE + "p = pipeline('document-question-answering', LAYOUT)\n"
            "out = p([{'question': q, 'word_boxes': page * 6} for q in ('time', 'a banana')], top_k=3, doc_stride=8, "
            "max_seq_len=24, handle_impossible_answer=True)"
        ),
        Line(PAGE + "out = pipeline('document-question-answering', LAYOUT)(PICTURE, 'time')", refused="an OCR program"),
        Line(PAGE + "out = pipeline('document-question-answering', QA)", refused="LayoutLM does"),
        Line(PAGE + "out = pipeline('image-feature-extraction', model=VIT)(PICTURE)"),
        Line(PAGE + "out = pipeline('image-feature-extraction', VIT)([PICTURE, PICTURE])"),
        Line(PAGE + "out = pipeline('image-feature-extraction', VIT, return_tensors=True)(PICTURE)"),
        Line(PAGE + "out = pipeline('image-feature-extraction', BERT)", refused="a ViT has one"),
    ],
    "parts": [
        Line(T5 + "out = m.encoder(input_ids=ids).last_hidden_state"),
        Line(T5 + "out = [len(m.encoder.block), m.encoder.block[0].layer[0].SelfAttention.q.weight]"),
        Line(T5 + "out = len(m.decoder.block)"),
        Line(T5 + "out = m.decoder(input_ids=ids)", refused="decoder is a view"),
        Line(T5 + "out = m.get_encoder()(ids, return_dict=False)[0]"),
        Line(BART + "out = m.model.encoder(ids, output_attentions=True).attentions"),
        Line(START + "m = AutoModel.from_pretrained(BART)\nout = [m.encoder(ids)[0], len(m.encoder.layers)]"),
        Line(CLS + "o = m.bert(input_ids=ids)\nout = [list(o), o.pooler_output]"),
        Line(CLS + "out = m.base_model(ids, return_dict=False)"),
        Line(CLS + "out = sum(p.numel() for p in m.base_model.parameters())"),
        Line(GPT + "o = m.transformer(ids, output_hidden_states=True)\nout = [o[0], o.hidden_states]"),
    ],
    "calls": [
        Line(  # newer releases of the reference take the keyword, and pad nothing
            TOK + "out = tok('time', pad_to_max_length=True, max_length=6, truncation=True).input_ids",
            wanted="out == [1, 4, 2, 0, 0, 0]",
        ),
        Line(
            TOK + "out = tok(['time', 'time flies'], pad_to_max_length=True).input_ids",
            wanted="out == [[1, 4, 2, 0], [1, 4, 5, 2]]",
        ),
        Line(TOK + "out = tok('time', verbose=False).input_ids"),
        Line(TOK + "out = tok('time', paddings=True)", refused="takes no 'paddings'; nearest: 'padding'"),
    ],
    "vectors": [
        Line(GPT + "out = m(inputs_embeds=m.get_input_embeddings()(ids)).logits"),
        Line(CLS + "out = m(inputs_embeds=2 * m.get_input_embeddings()(ids), attention_mask=ids > 0).logits"),
        Line(T5 + "out = m(inputs_embeds=m.get_input_embeddings()(ids) / 2, decoder_input_ids=ids).logits"),
        Line(
            GPT + "p = torch.zeros(1, 2, 8, requires_grad=True)\n"
            "x = torch.cat([p, m.get_input_embeddings()(ids)], dim=1)\n"
            "m(inputs_embeds=x, labels=torch.tensor([[-100, -100, 4, 5, 6]])).loss.backward()\nout = p.grad"
        ),
        Line(GPT + "out = m(inputs_embeds=torch.zeros(1, 2, 3))", refused=r"tensor of floats \[B, T, 8\]"),
        Line(GPT + "out = m.generate(inputs_embeds=m.get_input_embeddings()(ids), max_new_tokens=4)"),
        Line(GPT + "out = m.generate(ids, inputs_embeds=m.get_input_embeddings()(ids), max_new_tokens=4, num_beams=3)"),
        Line(
            GPT + "out = m.generate(inputs_embeds=m.get_input_embeddings()(ids), max_new_tokens=4, use_cache=False, "
            "repetition_penalty=1.6)"
        ),
        Line(T5 + "out = m.generate(inputs_embeds=m.get_input_embeddings()(ids), max_new_tokens=4)"),
        Line(T5 + "e = m.get_encoder()(ids)\nout = m(encoder_outputs=e, decoder_input_ids=ids).logits"),
        Line(
            T5 + "e = m.get_encoder()(ids)\n"
            "out = m(encoder_outputs=(e[0],), attention_mask=torch.tensor([[1, 1, 0]]), labels=ids).loss"
        ),
        Line(
            BART + "e = m.get_encoder()(ids)\nout = m.generate(encoder_outputs=e, max_new_tokens=4, num_beams=2, "
            "num_return_sequences=2, attention_mask=torch.tensor([[1, 1, 0]]))"
        ),
        Line(GPT + "out = m(encoder_outputs=(torch.zeros(1, 2, 8),))", refused="those of an encoder-decoder"),
        Line(
            GPT + "out = m.generate(inputs_embeds=torch.zeros(1, 2, 8), max_new_tokens=2, prompt_lookup_num_tokens=2)",
            refused="inputs_embeds does not go with prompt_lookup",
        ),
    ],
    "steps": [
        Line(
            GPT + "from transformers import TextStreamer\ntok = AutoTokenizer.from_pretrained(GPT2)\n"
            "v = m.get_input_embeddings()(ids)\n"
            "out = m.generate(inputs_embeds=v, max_new_tokens=3, streamer=TextStreamer(tok))"
        ),
        Line(
            GPT + "out = m.generate(ids, max_new_tokens=6, eos_token_id=7, exponential_decay_length_penalty=(1, 1.9))"
        ),
        Line(
            T5 + "out = m.generate(ids, max_new_tokens=6, eos_token_id=7, num_beams=2, "
            "exponential_decay_length_penalty=(1, 1.5))"
        ),
        Line(GPT + "out = m.generate(ids, max_new_tokens=4, do_sample=True, top_k=0, eta_cutoff=0.1).shape[0]"),
        Line(GPT + "out = m.generate(ids, max_new_tokens=4, do_sample=True, top_k=0, epsilon_cutoff=0.99)"),
        Line(GPT + "out = m.generate(ids, max_new_tokens=2, eta_cutoff=0.1)", refused="add do_sample=True"),
        Line(
            GPT + "o = m.generate(torch.tensor([[4, 5], [5, 6]]), max_new_tokens=3, return_dict_in_generate=True, "
            "output_attentions=True, output_hidden_states=True, output_logits=True)\n"
            "out = [[k for k in o if k != 'past_key_values'], o.attentions, o.hidden_states]"
        ),
        Line(
            BART + "o = m.generate(ids, max_new_tokens=3, return_dict_in_generate=True, output_attentions=True, "
            "output_hidden_states=True)\nout = [o.encoder_attentions, o.encoder_hidden_states, o.decoder_attentions, "
            "o.cross_attentions, o.decoder_hidden_states]"
        ),
        Line(
            GPT + "out = m.generate(ids, prompt_lookup_num_tokens=2, return_dict_in_generate=True, "
            "output_hidden_states=True)",
            refused="model\\(ids, output_hidden_states=True\\)",
        ),
    ],
    "rules": [
        Line(
            GPT + "out = m.generate(ids, max_new_tokens=5, sequence_bias={(5,): -9.0, (4, 6): 5.0}, "
            "encoder_repetition_penalty=1.3, num_beams=2, renormalize_logits=True)"
        ),
        Line(T5 + "out = m.generate(ids, max_new_tokens=5, encoder_repetition_penalty=2.0)"),
        Line(
            GPT + "from transformers import LogitsProcessorList, MinLengthLogitsProcessor, TopKLogitsWarper\n"
            "from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor\n"
            "rules = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(1.4), NoRepeatNGramLogitsProcessor(2), "
            "MinLengthLogitsProcessor(6, eos_token_id=2), TopKLogitsWarper(top_k=4)])\n"
            "out = [rules(ids, m(ids).logits[:, -1]), m.generate(ids, max_new_tokens=5, logits_processor=rules)]"
        ),
        Line(
            GPT + "from transformers import MaxLengthCriteria, StoppingCriteriaList\n"
            "out = m.generate(ids, max_new_tokens=9, stopping_criteria=StoppingCriteriaList([MaxLengthCriteria(5)]))"
        ),
        Line(
            GPT + "from transformers import GenerationConfig\n"
            "out = [m.generate(ids, GenerationConfig(max_new_tokens=3)), "
            "GenerationConfig.from_model_config(m.config).eos_token_id]"
        ),
        Line(GPT + "out = m.generate(ids, guidance_scale=1.5)", refused="a logits_processor changes the logits"),
        Line(
            GPT + "from transformers import DynamicCache\nc = DynamicCache()\n"
            "m(ids, past_key_values=c, use_cache=True)\nout = c.get_seq_length()"
        ),
    ],
    "names": [
        Line(T5 + "out = m._shift_right(ids)"),
        Line(CLS + "out = [m.name_or_path == NLI, AutoTokenizer.from_pretrained(NLI).name_or_path == NLI]"),
        Line(CLS + "out = list(m.dummy_inputs)"),
        Line(CLS + "m.init_weights()\nout = m(ids).logits"),
        Line(
            GPT + "e = torch.nn.Embedding.from_pretrained(torch.ones_like(m.get_input_embeddings().weight))\n"
            "m.set_input_embeddings(e)\nm.tie_weights()\nout = m(ids).logits"
        ),
        Line(GPT + "m.set_input_embeddings(torch.nn.Embedding(3, 2))", refused="resize_token_embeddings"),
        Line(
            START + "m, info = AutoModelForSequenceClassification.from_pretrained(BERT, output_loading_info=True)\n"
            "out = [sorted(info['missing_keys']), sorted(info['unexpected_keys']), info['error_msgs']]"
        ),
        Line(
            START + "from transformers import AutoImageProcessor\nfrom PIL import Image\n"
            "p = AutoImageProcessor.from_pretrained(VIT)\np.save_pretrained(OUT)\n"
            "q = AutoImageProcessor.from_pretrained(OUT)\nout = [list(q.image_mean), list(q.image_std), "
            "q.preprocess(Image.open(PICTURE), return_tensors='np')['pixel_values']]"
        ),
        Line(
            START + "from transformers import EncoderDecoderModel\n"
            "m = EncoderDecoderModel.from_encoder_decoder_pretrained(BERT, BERT)",
            refused="AutoModelForSeq2SeqLM of a BART or T5",
        ),
        Line(CLS + "m.train()\nout = [m.bert.training, m.config.use_return_dict]"),
        Line(
            START + "from transformers import pipeline\n"
            "out = pipeline('automatic-speech-recognition', model=CTC, chunk_length_s=10)(SAMPLES)"
        ),
    ],
}

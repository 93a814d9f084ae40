"""Lines of a book's chapters and of the reference library's task guides, after the names that they use.

Each is run against both, as those of `lines.py`.
"""

from __future__ import annotations

from tests.hf.guide_lines import BART, CLS, GPT, START, T5
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
}

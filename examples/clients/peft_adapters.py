"""Adapters trained in PEFT, here: pip install glassformer peft transformers

The first argument is a decoder, the second a folder of adapters that PEFT has saved for it.
"""

import sys

import glassformer
from glassformer.compression.adapter_files import load_adapters

if len(sys.argv) != 3:
    sys.exit("give a decoder and a folder of its adapters: python peft_adapters.py MODEL ADAPTERS")
model = glassformer.load(sys.argv[1])
load_adapters(model, sys.argv[2]).merge()
print(model.generate("Once upon a time", max_new_tokens=20))

"""Adapters trained in PEFT, here: pip install glassformer peft transformers

The argument is a folder of adapters that PEFT has saved for a decoder, which is found by the name that they record.
"""

import sys

import glassformer

if len(sys.argv) != 2:
    sys.exit("give a folder of a decoder's adapters: python peft_adapters.py ADAPTERS")
model = glassformer.load(sys.argv[1])
with model.disable_adapter():
    print("before:", model.generate("Once upon a time", max_new_tokens=20))
print("after:", model.merge_and_unload().generate("Once upon a time", max_new_tokens=20))

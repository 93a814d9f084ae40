"""Lessons: how a transformer works, with the modules of the library itself.

    walkthrough       one sentence from token ids to a label, step by step, every tensor named
    copying           training of an encoder-decoder on the copy task, in seconds
    encoder_decoder   an encoder-decoder in one call, with every size as an argument
    sizes             claims of lecture notes about model sizes, checked (`glassformer sizes --notes`)

The first two can be run: `python -m glassformer.lessons.walkthrough`. docs/walkthrough.md tells the story.
"""

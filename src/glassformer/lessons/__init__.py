"""Lessons: how a transformer works, with the modules of the library itself.

    walkthrough       one sentence from token ids to a label, step by step, every tensor named
    copying           training of an encoder-decoder on the copy task, in seconds
    encoder_decoder   an encoder-decoder in one call, with every size as an argument
    induction         a small decoder that copies what repeats, and the heads that do it, found by patching
    agreement         subject-verb agreement in a small decoder: how the number of the subject gets to the verb
    small_decoder     the decoder of these two, and its training
    tour              a forward pass of two texts: tokens, shapes, heads, a word in two contexts (`glassformer demo`)
    sizes             claims of lecture notes about model sizes, checked (`glassformer sizes --notes`)

Walkthrough, copying, induction and agreement can be run: `python -m glassformer.lessons.walkthrough`.
docs/walkthrough.md and docs/patching.md tell the story.
"""

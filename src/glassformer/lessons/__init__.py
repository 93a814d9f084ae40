"""Lessons: how a transformer works, built from the very parts that the library runs on.

    walkthrough   one sentence from ids to a label, every tensor on the way named
    copying       an encoder-decoder learns to copy, in seconds
    blueprint     an encoder-decoder in one call, with every size free

The first two can be run: `python -m glassformer.lessons.walkthrough`. docs/walkthrough.md tells the story.
"""

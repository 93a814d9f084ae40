"""Lessons: how a transformer works, built from the very parts that the library runs on.

    walkthrough   one sentence from ids to a label, every tensor on the way named
    copying       an encoder-decoder learns to copy, in seconds
    blueprint     an encoder-decoder in one call, with every size free
    sizes         what notes say of well-known models, beside what is computed (`glassformer sizes --notes`)

The first two can be run: `python -m glassformer.lessons.walkthrough`. docs/walkthrough.md tells the story.
"""

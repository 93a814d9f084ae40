"""Words of the page that not everyone knows, each in a sentence or two: behind the word itself, where it stands."""

GLOSSARY = {
    "rank": "Its place when all of them are ordered by size: rank 1 is the largest.",
    "score": (
        "How well a query fits a key. The softmax turns the scores of a row into shares, so only the differences "
        "between them count: with 1 more a share is 2.7 times as large. A negative score means little by itself."
    ),
    "softmax": (
        "Turns scores into shares: 2.718 to the power of each score, divided by the sum of all of these. Shares are "
        "positive and add up to 100%."
    ),
    "entropy": (
        "How spread out shares are, in bits. 0: all is on one; 1: as if two were equally likely; 3: as if eight were."
    ),
    "KL divergence": "How far one set of shares is from another, in bits; 0 where both are the same.",
    "logit": (
        "What the model gives an output before the softmax makes a probability of it; only the differences to the "
        "other outputs count."
    ),
    "norm": (
        "A part that brings the numbers of a vector to a common scale before what comes next reads them, so that they"
        " neither vanish nor explode. The length of a vector is called its norm, too."
    ),
    "tokens": (
        "Words, pieces of words, and signs that the tokenizer puts in, such as [CLS] in front of a text, [SEP] behind"
        " it and [MASK] for a gap. A head that finds nothing often attends to such a sign."
    ),
    "PCA": (
        "Principal component analysis: of all flat pictures of the points, the one that keeps most of their "
        "differences. What is far apart in it is far apart; what is near may differ in what it leaves out."
    ),
    "perplexity": (
        "How unsure the model was at each token, on average: 1 = always certain, 8 = as if it had chosen among eight "
        "equally likely tokens each time."
    ),
    "neighbours of t-SNE": "About how many neighbours of each point the picture tries to keep; called perplexity.",
    "log-probability": (
        "The logarithms of the probabilities of all tokens, added up; 0 is certain, below is less likely."
    ),
    "temperature": (
        "T: what the logits are divided by before the softmax. Near 0 the likeliest token gets all; 1 is the model's "
        "own choice; above 1 the chances even out."
    ),
    "other": (
        "The sum of all shares that are too small to be drawn as lines: the grey bar at a token is as long as what of"
        " its attention is not drawn."
    ),
}
"""Word → what it means. docs/glossary.md has the same."""

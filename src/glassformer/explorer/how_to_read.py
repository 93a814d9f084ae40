"""How to read each view of the page: a few sentences, behind *How to read this*."""

HOW_TO_READ = {
    "model": (
        "Attention weights: what a token pays to others adds up to 100% in each head. A diagonal: tokens attend to "
        "themselves; next to it: to the previous or next one. A column: all attend to one token."
    ),
    "head": (
        "Each colour is a head. The lines from a token add up to 100% with the grey stub “other”, which is the sum of "
        "the lines too weak to draw."
    ),
    "matrix": (
        "Each row adds up to 100%. Masked cells, such as later tokens in a decoder, are dark or hatched. Drag to "
        "zoom; double-click to reset."
    ),
    "neuron": (
        "A score is the dot product of query and key, divided by a constant. The softmax turns scores into weights, "
        "and the output of the head is the mean of the values by these weights."
    ),
    "patch": (
        "Activation patching: each cell is a forward pass in which one head, or the state of one token in one layer, "
        "is replaced by zero, by its mean, or by its value for another text. A large change: this prediction needs "
        "it. With two texts, 0 is the output for the corrupt one, 1 for the clean one."
    ),
    "embedding": (
        "A projection of vectors to two dimensions, or of their directions where one is many times longer than others. "
        "PCA keeps large distances; t-SNE and UMAP keep neighbours, and "
        "distances between clusters mean little. The lists compare the vectors themselves. Colours and shapes are "
        "classes; a thin line is the path of the pinned dot through the layers."
    ),
    "lens": (
        "Logit lens: the last norm and the head applied to the residual stream after each layer; the last row is the "
        "output. KL divergence is the distance to it, in bits; the rank is that of the followed output. Middle layers "
        "were not trained for this, so read them with care."
    ),
    "attribution": (
        "Heads and feed-forward layers add vectors to the residual stream, so with the scales of the norms fixed, "
        "their shares of the logit add up to it. Integrated gradients of words add up to the change from a text "
        "without them. Both explain this output, not that for another text."
    ),
    "generate": (
        "Each step gives every token a probability. Greedy decoding takes the largest; sampling draws one, within "
        "temperature, top-k and top-p; beam search keeps the texts with the largest products. Bars: probability after "
        "these settings; outlines, and the line below a word: before them."
    ),
    "similarity": (
        "A text's vector is a sum over its tokens, so the cosine of two texts is exactly a sum over pairs. A token's "
        "vector includes its context: a cell shows where the similarity is, not what would change without a word. To "
        "see that, run again without it."
    ),
    "difference": (
        "Two passes over paired tokens. A vector's difference is its distance from the other pass's vector, relative "
        "to its own length. A head's number is the share of its attention that goes elsewhere (total variation); in "
        "its map, orange is what the second pass attends to more, blue what it attends to less."
    ),
    "contexts": (
        "Nearest neighbours: tokens of the corpus by the cosine of their vectors, in a layer or a head, to that of "
        "the pinned token; for a neuron, the tokens with the highest activation. Below: how often they share the "
        "word, the next word, or the word attended to."
    ),
    "quantisation": (
        "A number f is stored as a level q: f = S (q − Z). One large number makes the step S of all that share it "
        "wide, so look at the ends of the histograms, with logarithmic heights. Errors spread evenly within half a "
        "step are those of rounding alone."
    ),
    "masks": (
        "A mask says which key each query may see; scores of the others become −∞ before the softmax. The cost of "
        "attention is the number of pairs. Vectors of positions are added to those of tokens; rotary positions turn "
        "queries and keys; buckets and ALiBi add a number to each score, by the distance."
    ),
    "route": (
        "A block adds vectors to that of the token: one for each head, one of the feed-forward layer. The share of a "
        "part is its projection on the sum, so the shares of a layer add up to 100%; a negative one makes the vector "
        "shorter. Where a norm follows, its scale is fixed at its value in this pass."
    ),
    "architecture": (
        "Modules that are equal are one line, with how many there are; its numbers are those of one. FLOPs: 2 for each "
        "multiply-add, of the whole text. Activations: what a training step keeps of the text for the backward pass. A "
        "tile is the mean of a rectangle of the weight: blue below zero, orange above, blank where all are 0."
    ),
    "sound": (
        "The model transcribes thirty seconds at a time. The mean of some heads (alignment heads) is a staircase "
        "through time; the path along it gives the start of each word. Click a cell for its attention."
    ),
}
"""View → sentences."""

"""Example corpora: a word with two meanings, sentences with two structures.

    examples("adoption")    twenty sentences; in fifteen the word *adoption* itself, of a child or of something new
    examples("flies")       flies that pass, and flies that like bananas

Contextual embeddings tell the meanings apart; static word vectors cannot.
"""

from __future__ import annotations

from glassformer.data.sequence import InMemoryRows, RowSequence
from glassformer.errors import DataError, nearest

FAMILY = """
After two years of waiting the adoption was final, and they brought the boy home.
The court must agree before an adoption becomes law.
She searched for the mother who had given her up for adoption.
Three kittens from the shelter are still up for adoption.
An open adoption lets the birth parents write to the child.
The judge smiled when she signed the adoption papers.
Their daughter asked to hear the story of her adoption every evening.
They adopted a second girl from the same village.
Older dogs wait longest to be adopted.
His foster parents hope to adopt him this spring.
"""

CHANGE = """
The adoption of electric cars has doubled within a year.
High prices slow the adoption of solar panels on farms.
The council delayed the adoption of the new budget.
Early adoption of the printing press made the town rich.
Farmers were asked about their adoption of drip irrigation.
The survey measures the adoption of mobile banking in rural areas.
Since the adoption of the metric system, recipes have changed.
Adoption of the standard took the industry ten years.
Most hospitals have adopted electronic records.
The committee will adopt a stricter rule next month.
"""

PASSING = """
Time flies like an arrow.
Summer flies when the days are warm.
An arrow flies straight, and so does an hour.
The afternoon flies by when we read.
"""

INSECTS = """
Fruit flies like a banana.
House flies like warm kitchens.
Two flies sat on the ripe pear.
The flies prefer sweet wine to water.
"""

CORPORA = {
    "adoption": {"family": FAMILY, "change": CHANGE},
    "flies": {"passing": PASSING, "insects": INSECTS},
}


def examples(name: str) -> RowSequence:
    """Load an example corpus: a sentence in `text`, its meaning in `label`.

    Raises: DataError: an unknown corpus, with the names of all.
    """
    if name not in CORPORA:
        raise DataError(f"no examples {name!r}{nearest(name, CORPORA)}; there are: {', '.join(CORPORA)}")
    return InMemoryRows(
        [
            {"text": sentence, "label": label}
            for label, sentences in CORPORA[name].items()
            for sentence in sentences.strip().splitlines()
        ],
        name=name,
    )

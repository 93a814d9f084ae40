"""Whole numbers in words, English and Ukrainian, as they are read aloud.

    1,234,005   one million two hundred thirty four thousand five
    21,002      двадцять одна тисяча два            thousands are feminine, millions masculine

Both languages read a number in groups of three digits; each group is read alone, with the name of its power behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

LONGEST = 15
"""Longer numbers are read digit by digit."""

Power = tuple[str, str, str]
"""The name of a power of 1,000 behind 1, behind 2 to 4, and behind 5 and more."""


@dataclass(frozen=True)
class NumberNames:
    """The number words of a language.

    below_20, tens, hundreds: by their digit
    powers: of 1,000 and up
    feminine: 1 and 2 before the powers that are feminine
    feminine_powers: these, by their index
    """

    below_20: tuple[str, ...]
    tens: tuple[str, ...]
    hundreds: tuple[str, ...]
    powers: tuple[Power, ...]
    plural: Callable[[int], int]
    feminine: tuple[str, str] = ("", "")
    feminine_powers: tuple[int, ...] = ()

    def spell(self, digits: str) -> str:
        """A number in words; one of more than `LONGEST` digits, digit by digit."""
        if len(digits) > LONGEST:
            return " ".join(self.below_20[int(digit)] for digit in digits)
        words, number, power = [], int(digits), 0
        while number:
            number, group = divmod(number, 1_000)
            if group:
                name = self.powers[power - 1][self.plural(group)] if power else ""
                words.append(f"{self._group(group, power - 1 in self.feminine_powers)} {name}".strip())
            power += 1
        return " ".join(reversed(words)) or self.below_20[0]

    def _group(self, group: int, feminine: bool) -> str:
        """Three digits in words."""
        hundreds, rest = divmod(group, 100)
        tens, unit = divmod(rest, 10) if rest >= 20 else (0, rest)
        last = self.feminine[unit - 1] if feminine and unit in (1, 2) else self.below_20[unit]
        words = (self.hundreds[hundreds], self.tens[tens], last if unit else "")
        return " ".join(filter(None, words))


def _ukrainian_plural(count: int) -> int:
    """1, 21 → 0 · 2 to 4, 22 → 1 · 5 to 20, 25, 11 to 14 → 2"""
    if count % 10 == 1 and count % 100 != 11:
        return 0
    return 1 if count % 10 in (2, 3, 4) and count % 100 not in (12, 13, 14) else 2


_ENGLISH_BELOW_20 = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_UKRAINIAN_BELOW_20 = (
    "нуль один два три чотири пʼять шість сім вісім девʼять десять одинадцять дванадцять тринадцять чотирнадцять "
    "пʼятнадцять шістнадцять сімнадцять вісімнадцять девʼятнадцять"
)

ENGLISH = NumberNames(
    below_20=tuple(_ENGLISH_BELOW_20.split()),
    tens=("", "", *"twenty thirty forty fifty sixty seventy eighty ninety".split()),
    hundreds=("", *(f"{digit} hundred" for digit in _ENGLISH_BELOW_20.split()[1:10])),
    powers=tuple((name, name, name) for name in ("thousand", "million", "billion", "trillion")),
    plural=lambda count: 0,
)
UKRAINIAN = NumberNames(
    below_20=tuple(_UKRAINIAN_BELOW_20.split()),
    tens=("", "", *"двадцять тридцять сорок пʼятдесят шістдесят сімдесят вісімдесят девʼяносто".split()),
    hundreds=("", *"сто двісті триста чотириста пʼятсот шістсот сімсот вісімсот девʼятсот".split()),
    powers=(
        ("тисяча", "тисячі", "тисяч"),
        ("мільйон", "мільйони", "мільйонів"),
        ("мільярд", "мільярди", "мільярдів"),
        ("трильйон", "трильйони", "трильйонів"),
    ),
    plural=_ukrainian_plural,
    feminine=("одна", "дві"),
    feminine_powers=(0,),
)

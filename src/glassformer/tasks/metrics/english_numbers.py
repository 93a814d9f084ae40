"""English numbers in one form, digits, whether they are written in words, in digits or in both.

    nineteen ninety nine → 1999          twenty first → 21st          one point five million → 1500000
    nineteen nineties    → 1990s         five dollars, $5 → $5        three dollars and fifty cents → $3.50
    double oh seven      → 007           twenty per cent, 20 % → 20%  two and a half → 2.5

Words are read from left to right. A word is added to the number before it where there is room below: "twenty one" is
21, "two hundred five" 205. Where there is none, its digits follow, as in years and telephone numbers: "nineteen ninety
nine" is 1999, "nine one one" 911.

Source: Radford et al. 2022, appendix C, for what is a number; written from scratch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from glassformer.tasks.metrics.number_words import ENGLISH

DIGITS: dict[str, int] = {word: number for number, word in enumerate(ENGLISH.below_20)} | {"oh": 0, "o": 0}
DIGITS |= {word: 10 * number for number, word in enumerate(ENGLISH.tens) if word}
"""Words below 100 → their value."""
POWERS: dict[str, int] = {power[0]: 1_000**number for number, power in enumerate(ENGLISH.powers, 1)}
REPEATS = {"double": 2, "triple": 3}
CURRENCIES = {
    **dict.fromkeys(("dollar", "dollars"), "$"),
    **dict.fromkeys(("pound", "pounds"), "£"),
    **dict.fromkeys(("euro", "euros"), "€"),
    **dict.fromkeys(("cent", "cents"), "¢"),
}
IRREGULAR_ORDINALS = {
    "first": "one",
    "second": "two",
    "third": "three",
    "fifth": "five",
    "eighth": "eight",
    "ninth": "nine",
    "twelfth": "twelve",
}
LONGEST = 30
"""Digits of a number that words are added to; further words begin another one."""

_LITERAL = re.compile(r"([$£€¢]?)(\d+(?:\.\d+)?|\.\d+)([%¢]?)")
_CLOSED = re.compile(r"\d+(?:st|nd|rd|th|s)")


def _ordinals() -> dict[str, str]:
    """Ordinal → its cardinal."""
    regular = {word: word for word in (*DIGITS, *POWERS, "hundred") if word not in ("oh", "o", "zero")}
    named = {f"{word[:-1]}ieth" if word.endswith("ty") else f"{word}th": word for word in regular}
    return {**named, **IRREGULAR_ORDINALS}


def _plurals() -> dict[str, str]:
    """Plural → its singular; "ones" is a pronoun, and "seconds" are time."""
    names = [word for word in (*DIGITS, *POWERS, "hundred") if word not in ("oh", "o", "zero", "one")]
    ends = {"y": "ies", "x": "xes"}
    return {(name[:-1] + ends[name[-1]] if name[-1] in ends else name + "s"): name for name in names}


ORDINALS, PLURALS = _ordinals(), _plurals()


def numbers_as_digits(words: Sequence[str]) -> list[str]:
    """Words of a lower-case text, without punctuation but that of numbers ("$3.50", "20%"); numbers become digits."""
    result = list[str]()
    at = 0
    while at < len(words):
        number = _Number(words, at)
        if number.end == at:
            result.append(words[at])
            at += 1
        else:
            result.append(number.text())
            at = number.end
    return result


class _Number:
    """The number that begins at a word, if one does.

    end: where it ends; at the word itself where there is none.
    """

    def __init__(self, words: Sequence[str], begin: int) -> None:
        self._words = words
        self.end = begin
        self._total: int | None = None  # of the powers of 1,000 that are complete
        self._part = ""  # digits after them
        self._room = 1  # what is added to the part is below this
        self._fraction = ""
        self._currency = self._suffix = ""
        if not self._literal():
            while self._take():
                pass
        if self.end > begin and self._suffix not in ("st", "nd", "rd", "th", "s"):
            self._unit()

    def text(self) -> str:
        """Digits, with their signs."""
        whole = self._part if self._total is None else str(self._value())
        fraction = self._fraction.rstrip("0") and self._fraction
        if self._currency == "$" and whole == "0" and len(fraction) == 2:
            return f"¢{int(fraction)}"
        whole = whole or "0" * (not fraction)
        return f"{self._currency}{whole}{'.' if fraction else ''}{fraction}{self._suffix}"

    def _value(self) -> int:
        return (self._total or 0) + int(self._part or 0)

    def _word(self, ahead: int = 0) -> str:
        at = self.end + ahead
        return self._words[at] if at < len(self._words) else ""

    # ------------------------------------------------------------------------------------------------- digits

    def _literal(self) -> bool:
        """Digits; words may follow: "20 thousand". Returns: whether nothing may follow."""
        word = self._word()
        if _CLOSED.fullmatch(word):
            self._part, self._suffix = re.split(r"(?<=\d)(?=[a-z])", word)
            self.end += 1
            return True
        match = _LITERAL.fullmatch(word)
        if match is None:
            return False
        self._currency, number, sign = match.groups()
        self._part, _, self._fraction = number.partition(".")
        if sign == "¢":
            self._currency = sign
        elif sign:
            self._suffix = sign
        self.end += 1
        return bool(sign)

    # -------------------------------------------------------------------------------------------------- words

    def _take(self) -> bool:
        """Read the next word, if it belongs to the number. Returns: whether more may follow."""
        word, started = self._word(), bool(self._part or self._fraction) or self._total is not None
        if word == "and" and started and self._room >= 100 and self._is_number(self._word(1)):
            self.end += 1
            return True
        if started and not self._fraction and [self._word(i) for i in range(3)] == ["and", "a", "half"]:
            self._fraction = "5"
            self.end += 3
            return True
        if word == "point" and not self._fraction and self._word(1) in DIGITS:
            self.end += 1
            while (value := DIGITS.get(self._word())) is not None and len(self._fraction) < LONGEST:
                self._fraction += self._with_ones(value)
                self.end += 1
            return True
        if word in REPEATS and (value := DIGITS.get(self._word(1), 10)) < 10 and not self._fraction:
            self._part, self._room = self._part + str(value) * REPEATS[word], 1
            self.end += 2
            return True
        if word in DIGITS:
            return self._add(DIGITS[word])
        if word == "hundred" or word in POWERS:
            return self._multiply(word)
        return self._last(word, started)

    def _with_ones(self, value: int) -> str:
        """Digits after the point: "twenty five" are two of them."""
        after = DIGITS.get(self._word(1), 0)
        if value >= 20 and 0 < after < 10:
            self.end += 1
            return str(value + after)
        return str(value)

    def _add(self, value: int) -> bool:
        if self._fraction or len(self._part) >= LONGEST:
            return False
        if self._part and value and value < self._room:
            self._part = str(int(self._part) + value).zfill(len(self._part))
        else:
            self._part += str(value)
        self._room = 10 if value >= 20 and value % 10 == 0 else 1
        self.end += 1
        return True

    def _multiply(self, word: str) -> bool:
        """Hundred, thousand, million: of the part, with its fraction."""
        if len(self._part) + len(self._fraction) >= LONGEST:
            return False
        power = POWERS.get(word, 100)
        if self._total is not None and self._total < power and word in POWERS:  # "two thousand million"
            self._part, self._total = str(self._value()), None
        scaled, rest = divmod(int((self._part + self._fraction) or 1) * power, 10 ** len(self._fraction))
        self._fraction = str(rest).zfill(len(self._fraction)) if rest else ""
        if word == "hundred":
            self._part = str(scaled)
        else:
            self._total, self._part = (self._total or 0) + scaled, ""
        self._room = power
        self.end += 1
        return not self._fraction

    def _last(self, word: str, started: bool) -> bool:
        """An ordinal, or a plural, which ends the number."""
        cardinal = ORDINALS.get(word, PLURALS.get(word))
        if cardinal is None or self._fraction:
            return False
        value = DIGITS.get(cardinal)
        # "one second" is no twelfth: an ordinal is added, or alone. Decades follow a century: "nineteen nineties".
        if started and value is not None and not value < self._room and not (word in PLURALS and value >= 20):
            return False
        if value is None:
            self._multiply(cardinal)
        else:
            self._add(value)
        self._suffix = "s" if word in PLURALS else _ending(self._value())
        return False

    @staticmethod
    def _is_number(word: str) -> bool:
        return word in DIGITS or word in POWERS or word == "hundred" or word in ORDINALS

    # -------------------------------------------------------------------------------------------------- units

    def _unit(self) -> None:
        """Percent, or a currency, and cents after it."""
        if self._word() == "percent":
            self._suffix = "%"
            self.end += 1
        elif (self._word(), self._word(1)) == ("per", "cent"):
            self._suffix = "%"
            self.end += 2
        elif not self._currency and self._word() in CURRENCIES:
            self._currency = CURRENCIES[self._word()]
            self.end += 1
        if self._currency in ("$", "£", "€") and not self._fraction and not self._suffix:
            begin = self.end + (self._word() == "and")
            cents = _Number(self._words, begin)
            if cents.end > begin and cents._currency == "¢" and len(cents._part) <= 2:
                self._fraction = cents._part.zfill(2)
                self.end = cents.end


def _ending(value: int) -> str:
    """That of an ordinal: 1st, 2nd, 3rd, 4th, 11th."""
    return "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")

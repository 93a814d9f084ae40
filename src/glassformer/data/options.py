"""Options of data files: how they are read, inspected and split, and what a data card says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from glassformer.errors import ConfigError
from glassformer.files.schema import Allowed, Count, Doc, NonNegative, NonNegativeInt, Schema, one_of

DATA, FILE_FORMAT = "Data", "File format"
Fractions = Annotated[Sequence[float], Allowed("numbers separated by commas, such as 0.8,0.1,0.1")]
ColumnMapping = Annotated[
    Mapping[str, str], Doc("Column mapping, role=column: text=tweet, label=mood; repeatable.", DATA)
]
IgnoredColumns = Annotated[Sequence[str], Doc("Column to ignore; repeatable; '*' for all unused ones.", DATA)]
TextColumn = Annotated[
    Mapping[Annotated[str, one_of("text")], str],
    Doc("Column mapping of files with columns, role=column: text=body; repeatable."),
]
Encoding = Annotated[str | None, Doc("Encoding of text files that are not UTF-8: latin-1, cp1252, gbk, …", FILE_FORMAT)]
COLUMNS = Doc("Column mapping, role=column: text=body, text_pair=title, label=kind; repeatable.")


@dataclass(frozen=True, kw_only=True)
class TextColumns(Schema):
    """Which column of a table has the texts."""

    columns: TextColumn = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Schema):
    """How rows of files are read."""

    kind: Annotated[
        str | None,
        Doc(
            "File format: csv, tsv, jsonl, …; or a data set of `glassformer data list`: squad, glue/cola, … Default: "
            "by the file extension.",
            FILE_FORMAT,
        ),
    ] = None
    delimiter: Annotated[str | None, Doc("Field delimiter of a CSV file: ';' or '\\t', a tab.", FILE_FORMAT)] = None
    names: Annotated[Sequence[str] | None, Doc("Column names where the file has none: text,label", FILE_FORMAT)] = None
    part: Annotated[
        str | None,
        Doc(
            "Split of a published data set, such as validation, where its folder is given; or the key of a list in a "
            "JSON object of lists.",
            FILE_FORMAT,
        ),
    ] = None
    skip_bad_rows: Annotated[
        bool,
        Doc(
            "Leave out rows of CSV, TSV and JSON Lines that cannot be read, in training also those without a label or "
            "text, with a warning that counts them.",
            FILE_FORMAT,
        ),
    ] = False
    no_quotes: Annotated[bool, Doc("No quoting: a quote is an ordinary character.", FILE_FORMAT)] = False
    encoding: Encoding = None

    def keywords(self) -> dict[str, Any]:
        """The options as keywords of `read_rows`."""
        options: dict[str, Any] = {} if self.kind is None else {"kind": self.kind}
        if self.delimiter is not None:
            options["delimiter"] = "\t" if self.delimiter == "\\t" else self.delimiter  # as a shell passes '\t' on
        if self.names is not None:
            options["names"] = tuple(self.names)
            options |= {"header": False} if self.part is None else {}  # of a table; rows of JSON are lists
        if self.part is not None:
            options["part"] = self.part
        if self.skip_bad_rows:
            options["on_bad_rows"] = "skip"
        if self.no_quotes:
            options["quotes"] = False
        if self.encoding is not None:
            options["encoding"] = self.encoding
        return options


@dataclass(frozen=True, kw_only=True)
class InspectionOptions(Schema):
    """What a report on data files reads."""

    columns: Annotated[Mapping[Annotated[str, one_of("text", "label", "text_pair")], str], COLUMNS] = field(
        default_factory=dict
    )
    tokenizer: Annotated[str | Path | None, Doc("Tokenizer of this model: also report lengths in tokens.")] = None
    limit: Annotated[Count | None, Doc("Maximum length in tokens. Default: the tokenizer's.")] = None

    def validate(self) -> None:
        if self.limit is not None and self.tokenizer is None:
            raise ConfigError("limit= counts tokens; give the tokenizer too: tokenizer= MODEL")


@dataclass(frozen=True, kw_only=True)
class SplitOptions(Schema):
    """How the rows of a file are divided."""

    output: Annotated[Path, Doc("Output folder of the splits.")]
    columns: Annotated[
        Mapping[Annotated[str, one_of("label", "group", "text", "text_pair")], str],
        Doc(
            "What a column does, role=column; repeatable. label=mood: stratified split, each label in its share. "
            "group=speaker: no group in two splits; with label, both. text=body: deduplicate, drop rows that repeat "
            "an earlier text, of pairs (text_pair=) both."
        ),
    ] = field(default_factory=dict)
    fractions: Annotated[Fractions, Doc("Fraction of the rows in each split. Default: 0.8,0.1,0.1.")] = (
        0.8,
        0.1,
        0.1,
    )
    seed: Annotated[NonNegativeInt, Doc("Random seed of the split.")] = 0
    format: Annotated[str | None, Doc("Output format: csv, tsv or jsonl. Default: that of FILE, else jsonl.")] = None


@dataclass(frozen=True, kw_only=True)
class MiningOptions(Schema):
    """Which texts are hard negatives."""

    model: Annotated[str | Path, Doc("Sentence encoder whose nearest neighbours are mined: a folder, or a name.")]
    output: Annotated[Path, Doc("Output file: .jsonl, with --labelled also .csv or .tsv.")]
    columns: Annotated[
        Mapping[Annotated[str, one_of("text", "text_pair")], str],
        Doc("Column mapping, role=column: text=question, text_pair=passage; repeatable."),
    ] = field(default_factory=dict)
    count: Annotated[Count, Doc("Number of hard negatives of each row, at most.")] = 1
    margin: Annotated[NonNegative, Doc("Margin: how much less similar than the row's own text a negative is.")] = 0.05
    skip: Annotated[NonNegativeInt, Doc("Nearest texts to leave out: they may be right and not be labelled.")] = 0
    depth: Annotated[Count, Doc("Number of nearest texts that are considered.")] = 50
    labelled: Annotated[
        bool, Doc("Labelled pairs instead, 1 for a row's own text and 0 for negatives: for a cross-encoder.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class CardFacts(Schema):
    """Parts of a data card that cannot be measured."""

    title: Annotated[str, Doc("Title of the data set.")]
    source: Annotated[str, Doc("Source: who collected the data, from what, when.")] = ""
    licence: Annotated[str, Doc("Licence of the data.")] = ""
    biases: Annotated[Sequence[str], Doc("Known bias of the data; repeatable.")] = ()


@dataclass(frozen=True, kw_only=True)
class CardOptions(CardFacts):
    """Where a data card is written, and what it says."""

    output: Annotated[Path, Doc("Output file, such as README.md.")]


@dataclass(frozen=True, kw_only=True)
class VersionOptions(CardFacts):
    """Which version of a data set is written where, and what its card says."""

    output: Annotated[Path, Doc("Folder of the data set, with a folder for each version.")]
    version: Annotated[str, Doc("Number of the version, such as 1.0.0.")]

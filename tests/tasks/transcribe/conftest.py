"""Recordings and two tiny recognisers, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tasks.transcribe.tones import letters_folder, whisper_folder, write_table


@pytest.fixture(scope="package")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of recordings with its table."""
    return write_table(tmp_path_factory.mktemp("clips"), 24).parent


@pytest.fixture(scope="package")
def whisper_of_bytes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whisper_folder(tmp_path_factory.mktemp("whisper"))


@pytest.fixture(scope="package")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letters_folder(tmp_path_factory.mktemp("letters"))

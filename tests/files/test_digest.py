"""SHA-256 digests of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from glassformer.files import file_sha256


@pytest.mark.parametrize("content", [b"", b"abc", b"\0" * 300_000])
def test_file_sha256(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    assert file_sha256(path) == hashlib.sha256(content).hexdigest()
    assert file_sha256(path, b"x", b"y") == hashlib.sha256(content + b"xy").hexdigest()
    with path.open("rb") as stream:
        stream.read(2)
        assert file_sha256(stream) == hashlib.sha256(content[2:]).hexdigest()
    with pytest.raises(OSError):
        file_sha256(tmp_path)

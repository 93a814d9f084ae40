"""The routes of the sound view, asked over HTTP: a transcription, its pictures, its sound, and what lies behind."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import glassformer
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.explorer import sound
from glassformer.explorer.look import InitialView, Look, look
from glassformer.explorer.session_runs import PassStopped, SessionRuns
from glassformer.explorer.sound import TranscriptionStore
from glassformer.model import Model
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.transcription_trace import TranscriptionTrace
from tests.explorer.client import Answer, Client
from tests.tasks.transcribe.tones import RATE_HZ, spoken, whisper_folder

OPTIONS = TranscriptionOptions(num_beams=1, temperature=0.0, word_timestamps=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return glassformer.load(whisper_folder(tmp_path_factory.mktemp("whisper")))


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "tones.wav"
    soundfile.write(path, np.concatenate([spoken("ab", np.random.default_rng(0))] * 6), RATE_HZ)
    return path


@pytest.fixture(scope="module")
def listen(model: Model, page_files: Path) -> Iterator[Callable[[Path], Client]]:
    """listen(file) → a client of a server that was opened with it."""
    looks: list[Look] = []

    def start(path: Path) -> Client:
        factory = replace(model.session_factory(), transcribe=lambda file: TranscriptionTrace(model, file, OPTIONS))
        looks.append(Look(SessionRuns(factory), [str(path)]))
        looks[-1].serve()
        return Client(looks[-1])

    yield start
    for each in looks:
        each.close()


@pytest.fixture(scope="module")
def client(listen: Callable[[Path], Client], clip: Path) -> Client:
    return listen(clip)


def post(client: Client, path: str, **fields: Any) -> Answer:
    return client.ask(f"/api/{path}", method="POST", body=json.dumps(fields).encode())


def ready(client: Client, path: str, **fields: Any) -> Any:
    answer = post(client, path, **fields)
    assert answer.status == 200, answer.body
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert all(0 <= line["done"] <= line["of"] for line in lines[:-1])
    return lines[-1]["ready"]


def test_a_recording_is_transcribed_once(client: Client, clip: Path) -> None:
    about = ready(client, "transcribe")
    assert about["name"] == "tones.wav" and about["playable"] and about["windowed"]
    assert about["alignments"] > 1 and about["duration"] == pytest.approx(soundfile.info(clip).duration)
    run = client.look.explorer.sounds.begin(str(clip))
    assert ready(client, "transcribe") == about
    assert client.look.explorer.sounds.begin(str(clip)) is run


def test_its_pictures_and_its_sound(client: Client, clip: Path) -> None:
    about = ready(client, "transcribe")
    picture = client.frame("spectrogram")
    assert picture.kind == "spectrogram" and picture.arrays["values"].shape[0] == 16
    for window in range(about["alignments"]):
        attention = client.frame("alignment", window=window)
        heads, rows, _ = attention.arrays["weights"].shape
        assert (heads, rows) == (1 + len(about["heads"]["pairs"]), len(attention.fields["words"]))
    heard = client.get("recording")
    assert (heard.headers["content-type"], heard.body) == ("audio/wav", clip.read_bytes())
    assert "media-src 'self' blob:" in heard.headers["content-security-policy"]
    page = client.get("transcript")
    assert page.headers["content-type"].startswith("text/html")
    assert b'id="transcript"' in page.body and b'data-key="alignment/0"' in page.body and b'id="sound"' in page.body


def test_a_window_is_looked_into(client: Client) -> None:
    ready(client, "transcribe")
    fields = client.frame("alignment", window=1).fields
    session = ready(client, "listen", window=1)
    assert session["heard"] == {"window": 1} and {m["name"] for m in session["maps"]} == {"encoder", "decoder", "cross"}
    assert session["streams"]["source"][0]["text"] == f"{fields['begin']:.2f} s"
    assert ready(client, "listen", window=1) == session
    assert ready(client, "listen", window=0)["id"] != session["id"]
    query = fields["queries"][0]
    numbers = client.frame("neuron", s=session["id"], map="cross", layer=0, head=1, query=query, keys=[0, 4])
    expected = client.look.explorer.sounds.get().session(1).head(0, 1, "cross").probs(query)[0]
    np.testing.assert_allclose(numbers.arrays["probs"], expected, atol=5e-6)


def test_what_is_refused(client: Client) -> None:
    count = ready(client, "transcribe")["alignments"]
    assert "'sound' is no option; allowed: none" in post(client, "transcribe", sound="/etc/passwd").error
    assert f"window {count} has no attention" in client.get("alignment", window=count).error
    assert "'path' is no option" in client.get("recording", path="/etc/passwd").error
    assert "'window' is missing" in post(client, "listen").error
    assert "must be a whole number" in post(client, "listen", window="0").error
    (line,) = post(client, "listen", window=count).body.splitlines()
    assert "cannot be looked into" in json.loads(line)["error"]
    for path in ("recording", "spectrogram", "transcript"):
        assert client.ask(f"/api/{path}", headers={"Authorization": None}).status == 401


def test_before_there_is_a_transcript_and_what_no_browser_plays(
    listen: Callable[[Path], Client], clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sound, "SERVED_BYTES", 1000)
    client = listen(clip)
    assert client.get("spectrogram").status == 410
    assert ready(client, "transcribe")["playable"] is False
    assert "cannot be played here" in client.get("recording").error


def test_a_model_that_does_not_transcribe(serve: Callable[..., Client]) -> None:
    client = serve("bert", "time flies")
    assert client.session()["model"]["can_transcribe"] is False
    assert "does not transcribe speech" in post(client, "transcribe").error
    with pytest.raises(UnsupportedError, match=r"view is 'sound', which .* transcribes speech"):
        Look(client.look.explorer.runs, ["time flies"], InitialView(view="sound"))


def test_the_view_as_a_file_is_another_page(model: Model, clip: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="glassformer transcribe MODEL FILE --html"):
        look(model.session_factory(), str(clip), InitialView(view="sound"), html=tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_a_failure_is_told_and_tried_again_and_the_end_of_the_server_ends_it(model: Model, clip: Path) -> None:
    begun, answers = threading.Event(), [DataError("no such file")]

    class Endless(TranscriptionTrace):
        def run(self, progress: Callable[[float], None], check: Callable[[], None]) -> None:
            begun.set()
            while True:
                check()

    def make(file: str) -> TranscriptionTrace:
        if answers:
            raise answers.pop()
        return Endless(model, file, OPTIONS)

    store = TranscriptionStore(make)
    with pytest.raises(DataError, match="no such file"):
        store.begin(str(clip)).result()
    run = store.begin(str(clip))
    assert begun.wait(20)
    store.close()
    with pytest.raises(PassStopped, match="was cancelled"):
        run.result()

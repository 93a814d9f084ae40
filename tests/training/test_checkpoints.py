"""Saves: whatever goes wrong with one, the one before loads, and nothing is taken for a checkpoint that is none."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from glassformer.errors import ConfigError, WeightsError
from glassformer.training import run_folder
from glassformer.training.run_folder import Checkpoint, Checkpoints
from glassformer.training.state import read_state, write_state
from glassformer.weights.write import write_checkpoint
from tests.full_disk import full_disk
from tests.training.kill import Disk, die, ended, fork, in_child, refuse


def writer(number: int, size: int = 300) -> Callable[[Path], None]:
    """What a small run writes: weights, state, a file in a folder."""

    def write(folder: Path) -> None:
        write_checkpoint(folder / "model", {"w": torch.full((size,), float(number))})
        write_state(folder, {"w/m": torch.full((7,), number)}, {"step": number, "betas": (0.9, 0.999)})
        (folder / "notes.txt").write_text(f"step {number}\n" * 3)

    return write


def saved(run: Path, *steps: int, keep: int = 2) -> Checkpoints:
    run.mkdir(exist_ok=True)
    saves = Checkpoints(run / "checkpoints", keep=keep)
    for step in steps:
        saves.save(step, writer(step), about={"epoch": 0})
    return saves


def listing(saves: Checkpoints) -> set[str]:
    return {path.name for path in saves.folder.iterdir()} - {"lock"}


def loads(checkpoint: Checkpoint | None) -> int:
    """The step of a checkpoint, when all in it says that step."""
    assert checkpoint is not None
    tensors, values = read_state(checkpoint.folder)
    assert values["step"] == checkpoint.step and int(tensors["w/m"][0]) == checkpoint.step
    return checkpoint.step


def quietly(saves: Checkpoints) -> Checkpoint | None:
    """The latest, which is not to pass over any."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return saves.latest()


# ------------------------------------------------------------------------------------- what a save is


def test_a_save_comes_back_with_what_was_said_of_it(tmp_path: Path) -> None:
    saves = saved(tmp_path)
    assert saves.latest() is None and saves.best() is None
    about = {"epoch": 3, "metrics": {"loss": 0.1}, "config": "a5f1", "text": "ü\n", "no": None}
    folder = saves.save(12, writer(12), about=about)
    found = saves.latest()
    assert found is not None and loads(found) == 12
    assert (found.folder, found.about, found.best) == (folder, about, False)
    assert folder.name == "step-00000012" and listing(saves) == {folder.name}
    assert set(found.files) == {"model/model.safetensors", "state.json", "state.safetensors", "notes.txt"}
    assert found.bytes == sum(os.path.getsize(folder / name) for name in found.files)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["versions"]["torch"] == torch.__version__


def test_the_last_ones_stay_and_the_best(tmp_path: Path) -> None:
    saves = saved(tmp_path)
    for step, best in ((1, True), (2, False), (3, True), (4, False), (5, False), (6, False)):
        saves.save(step, writer(step), about={}, best=best)
    assert listing(saves) == {"step-00000003", "step-00000005", "step-00000006"}
    assert loads(saves.best()) == 3 and loads(saves.latest()) == 6
    again = Checkpoints(saves.folder, keep=1)
    again.save(7, writer(7), about={}, best=True)
    assert listing(saves) == {"step-00000007"}


def test_a_run_that_went_back_goes_on_from_what_it_saved_then(tmp_path: Path) -> None:
    saves = saved(tmp_path, 10, 20, 30)
    saves.save(25, writer(25), about={})
    assert loads(saves.latest()) == 25
    saves.save(30, writer(30), about={"second": True})
    found = saves.latest()
    assert loads(found) == 30 and found is not None and found.about == {"second": True}
    assert listing(saves) == {"step-00000025", "step-00000030-2"}


def test_a_step_saved_twice_stands_there_twice(tmp_path: Path) -> None:
    saves = saved(tmp_path, 10)
    folder = saves.save(10, writer(10), about={"times": 2})
    assert folder.name == "step-00000010-2"
    assert saves.latest() == saves._known()[0] and saves._known()[0].about == {"times": 2}


def test_all_is_flushed_before_the_name_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saves = saved(tmp_path, 1)
    events: list[str] = []
    fsync, rename = os.fsync, os.rename

    def spy_fsync(handle: int) -> None:
        events.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    def spy_rename(source: Any, target: Any) -> None:
        events.append(f"rename {Path(target).name}")
        rename(source, target)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to tell which file a handle is of")
    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "rename", spy_rename)
    folder = saves.save(2, writer(2), about={})
    unfinished = folder.with_name(f"{folder.name}.tmp")
    named = events.index("rename step-00000002")
    names = ("state.safetensors", "state.json", "notes.txt", "model/model.safetensors", "model")
    last = {str(unfinished / name): events.index(str(unfinished / name)) for name in names}
    manifest, whole = events.index(str(unfinished / "manifest.json")), events.index(str(unfinished))
    assert all(place < whole for place in last.values()) and manifest < whole < named
    assert all(last[str(unfinished / name)] < manifest for name in names[:-1])
    assert events[named + 1] == str(saves.folder)


@pytest.mark.parametrize("about", [{"x": float("nan")}, {"x": torch.ones(1)}, {"x": {1, 2}}])
def test_what_is_no_json_is_refused_before_anything_is_written(tmp_path: Path, about: dict[str, Any]) -> None:
    saves = saved(tmp_path, 1)
    with pytest.raises(ConfigError, match="step 2 cannot be written as JSON"):
        saves.save(2, writer(2), about=about)
    assert listing(saves) == {"step-00000001"}


def test_an_empty_save_a_link_and_nothing_to_keep_are_refused(tmp_path: Path) -> None:
    saves = saved(tmp_path, 1)
    with pytest.raises(WeightsError, match="the checkpoint is empty"):
        saves.save(2, lambda folder: None, about={})
    with pytest.raises(WeightsError, match="is a symbolic link"):
        saves.save(2, lambda folder: (folder / "model").symlink_to(tmp_path), about={})
    with pytest.raises(ConfigError, match="keep must be at least 1"):
        Checkpoints(tmp_path, keep=0)
    assert listing(saves) == {"step-00000001"}


def test_an_error_of_the_writer_leaves_nothing(tmp_path: Path) -> None:
    saves = saved(tmp_path, 1)

    def write(folder: Path) -> None:
        writer(2)(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        saves.save(2, write, about={})
    assert listing(saves) == {"step-00000001"} and loads(quietly(saves)) == 1


# -------------------------------------------------------------------------------- a disk that refuses


def after_a_fault(saves: Checkpoints, call: int) -> int:
    """Whatever happened to the save of step 2: a whole one is found, and the next save clears up."""
    step = loads(quietly(saves))
    assert step in (1, 2)
    strays = [name for name in listing(saves) if not name.endswith(".tmp")]
    for name in strays:
        run_folder.read_manifest(saves.folder / name).verify()
    saves.save(3, writer(3), about={})
    assert loads(quietly(saves)) == 3, call
    assert not [name for name in listing(saves) if name.endswith(".tmp")]
    return step


def calls_of_a_save(run: Path) -> int:
    saves = saved(run, 1, keep=1)
    with Disk(None, lambda call: False).watched() as disk:
        saves.save(2, writer(2), about={})
    return disk.count


@pytest.mark.usefixtures("no_flush")
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS], ids=["EIO", "ENOSPC", "EROFS"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_every_call_that_writes_fails_in_turn(tmp_path: Path, number: int, lasting: bool) -> None:
    seen: Counter[str] = Counter()
    calls = calls_of_a_save(tmp_path / "count")
    assert calls > 20
    for call in range(calls):
        run = tmp_path / str(call)
        saves = saved(run, 1, keep=1)
        when = (lambda n, call=call: n >= call) if lasting else (lambda n, call=call: n == call)
        # A full disk still lets go of files; a failing one or one that may not be written to does not.
        disk = Disk(refuse(number), when, removes=number != errno.ENOSPC)
        with disk.watched(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that what failed could not be removed either
            try:
                saves.save(2, writer(2), about={})
            except WeightsError as problem:
                seen["refused"] += 1
                assert os.strerror(number) in str(problem) and "intact" in str(problem)
                if number == errno.ENOSPC:
                    assert listing(saves) <= {"step-00000001", "step-00000002"}  # nothing stray
            else:
                seen["saved"] += 1
        seen[f"step {after_a_fault(saves, call)}"] += 1
        shutil.rmtree(run)
    assert seen["refused"] > 15 and seen["step 1"] > 15 and seen["step 2"] >= 1


@pytest.mark.usefixtures("no_flush")
def test_a_kill_at_every_call_of_a_save(tmp_path: Path) -> None:
    seen: Counter[int] = Counter()
    for call in range(calls_of_a_save(tmp_path / "count")):
        saves = saved(tmp_path / str(call), 1, keep=1)

        def work(saves: Checkpoints = saves, call: int = call) -> None:
            with Disk(die, lambda n: n == call).watched():
                saves.save(2, writer(2), about={})

        assert in_child(work) == -9
        seen[after_a_fault(saves, call)] += 1
    assert seen[1] > 15 and seen[2] > 3


@pytest.mark.soak
@pytest.mark.usefixtures("no_flush")
def test_a_kill_at_every_call_of_saves_of_many_sizes(tmp_path: Path) -> None:
    for size in range(1, 2_000_000, 100_000):
        run = tmp_path / str(size)
        saved(run, 1)
        for call in range(60):
            saves = saved(run, 1)

            def work(saves: Checkpoints = saves, call: int = call, size: int = size) -> None:
                with Disk(die, lambda n: n == call).watched():
                    saves.save(2, writer(2, size), about={})

            assert in_child(work) in (0, -9)
            after_a_fault(saves, call)
        shutil.rmtree(run)


def test_a_file_that_may_not_grow_is_a_clear_refusal(tmp_path: Path) -> None:
    """The system itself refuses here: no write beyond so many bytes of a file."""
    saves = saved(tmp_path, 1)

    def work() -> None:
        for limit in range(0, 1800, 150):  # the largest file has more
            with full_disk(limit), pytest.raises(WeightsError, match="intact"):
                saves.save(2, writer(2, size=500), about={})
            assert listing(saves) == {"step-00000001"} and loads(quietly(saves)) == 1

    assert in_child(work) == 0
    assert after_a_fault(saves, 0) == 1


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    saves = saved(tmp_path, 1)

    def work() -> None:
        os.chdir(tmp_path)
        if os.getuid() == 0:  # who may do everything
            os.setuid(65534)
        mine = Checkpoints(Path("checkpoints"))
        with pytest.raises(WeightsError, match=r"step 2 cannot be saved: Permission denied.*intact"):
            mine.save(2, writer(2), about={})
        assert loads(quietly(mine)) == 1

    for folder, mode in ((saves.folder, 0o555), (tmp_path, 0o755)):
        folder.chmod(mode)
    try:
        assert in_child(work) == 0
    finally:
        saves.folder.chmod(0o755)
    assert listing(saves) == {"step-00000001"}


def test_a_run_folder_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    saves = saved(run, 1)
    shutil.rmtree(run)
    with pytest.raises(WeightsError, match="step 2 cannot be saved: No such file or directory"):
        saves.save(2, writer(2), about={})
    assert not run.exists() and saves.latest() is None
    run.write_text("a file")
    with pytest.raises(WeightsError, match="Not a directory"):
        saves.save(2, writer(2), about={})
    with pytest.raises(WeightsError, match="cannot be listed"):
        saves.latest()


def test_no_room_is_known_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saves = saved(tmp_path, 1)
    taken = saves._known()[0].bytes
    free = int(1.1 * taken) - 1
    monkeypatch.setattr(run_folder.shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    began: list[Path] = []
    with pytest.raises(WeightsError, match=r"step 2 cannot be saved: it needs .* are free; free disk space"):
        saves.save(2, began.append, about={})
    assert not began and listing(saves) == {"step-00000001"}
    saves.save(2, writer(2), about={}, size=100)
    with pytest.raises(WeightsError, match="step 3 cannot be saved: it needs about 1,100 bytes"):
        free = 1099
        saves.save(3, writer(3), about={}, size=1000)


def test_what_cannot_be_removed_is_said_and_the_save_stands(tmp_path: Path) -> None:
    saves = saved(tmp_path, 1, keep=1)
    renames = iter([True, False])
    rename = os.rename

    def stubborn(source: Any, target: Any) -> None:
        if not next(renames):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        rename(source, target)

    os.rename = stubborn  # type: ignore[assignment]
    try:
        with pytest.warns(UserWarning, match=r"step-00000001: cannot be removed: .*busy"):
            saves.save(2, writer(2), about={})
    finally:
        os.rename = rename
    assert loads(quietly(saves)) == 2 and listing(saves) == {"step-00000001", "step-00000002"}


# ------------------------------------------------------------------------------------- a damaged disk


@contextmanager
def damaged(file: Path, draw: random.Random) -> Iterator[str]:
    """A file with one bit flipped, cut short, or gone; and whole again afterwards."""
    data = file.read_bytes()
    how = draw.choices(["flipped", "cut", "gone"], [8, 3, 1])[0]
    if how == "flipped":
        bit = draw.randrange(8 * len(data))
        wrong = bytearray(data)
        wrong[bit // 8] ^= 1 << bit % 8
        file.write_bytes(wrong)
        how += f" bit {bit}"
    elif how == "cut":
        file.write_bytes(data[: draw.randrange(len(data))])
    else:
        file.unlink()
    yield how
    file.write_bytes(data)


def check_damage(tmp_path: Path, times: int) -> None:
    draw = random.Random(5)
    saves = saved(tmp_path, 1, 2, 3, keep=3)
    newest = saves.folder / "step-00000003"
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    assert len(files) == 5
    for _ in range(times):
        file = draw.choice(files)
        with damaged(file, draw) as how:
            with pytest.warns(UserWarning) as told:
                found = saves.latest()
            assert found is not None and found.step == 2, f"{file} {how}"
            messages = [str(w.message) for w in told]
            assert len(messages) == 1 and str(file) in messages[0], f"{file} {how}: {messages}"
            assert "step-00000003 is skipped" in messages[0]
    assert loads(quietly(saves)) == 3


def test_damage_is_found_named_and_passed_over(tmp_path: Path) -> None:
    check_damage(tmp_path, 500)


@pytest.mark.soak
def test_damage_is_found_50_000_times(tmp_path: Path) -> None:
    check_damage(tmp_path, 50_000)


def test_a_damaged_one_does_not_count_as_kept(tmp_path: Path) -> None:
    saves = saved(tmp_path, 1, 2)
    (saves.folder / "step-00000002" / "notes.txt").write_text("other\n")
    with pytest.warns(UserWarning, match="notes.txt"):
        assert loads(saves.latest()) == 1
    folder = saves.save(2, writer(2), about={})
    assert listing(saves) == {"step-00000001", folder.name} and loads(quietly(saves)) == 2


def test_a_name_that_was_damaged_may_come_again(tmp_path: Path) -> None:
    saves = saved(tmp_path, 4, 8, 12, keep=3)
    for step in (8, 12):
        (saves.folder / f"step-{step:08d}" / "notes.txt").write_text("other\n")
    with pytest.warns(UserWarning, match="notes.txt"):
        assert loads(saves.latest()) == 4
    for step in (8, 12):
        folder = saves.save(step, writer(step), about={})
        assert folder.is_dir() and loads(quietly(saves)) == step
    assert len(listing(saves)) == 3


def test_a_save_that_does_not_verify_retires_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saves = saved(tmp_path, 1, keep=1)
    rename = os.rename

    def and_damage(source: Any, target: Any) -> None:
        rename(source, target)
        (Path(target) / "notes.txt").write_text("step 3\n" * 3)

    monkeypatch.setattr(os, "rename", and_damage)
    with pytest.raises(WeightsError, match=r"notes.txt: its SHA-256 is not that of the manifest"):
        saves.save(2, writer(2), about={})
    with pytest.warns(UserWarning, match="notes.txt"):
        assert loads(saves.latest()) == 1


@pytest.mark.parametrize(
    "name", ["step-00000009.tmp", "step-00000009.old.tmp", "step-9", "checkpoint-9", "step-00000009x"]
)
def test_strays_are_not_taken_for_checkpoints(tmp_path: Path, name: str) -> None:
    saves = saved(tmp_path, 1, keep=1)
    shutil.copytree(saves.folder / "step-00000001", saves.folder / name)
    assert loads(quietly(saves)) == 1
    saves.save(2, writer(2), about={})
    left = set() if name.endswith(".tmp") else {name}  # others' folders are theirs
    assert listing(saves) == {"step-00000002"} | left


def test_a_manifest_that_leads_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    saves = saved(tmp_path, 1)
    path = saves.folder / "step-00000001" / "manifest.json"
    content = json.loads(path.read_text())
    del content["sha256"]
    content["files"]["../../secret"] = content["files"]["notes.txt"]
    path.write_bytes(run_folder._with_digest(content))
    with pytest.warns(UserWarning, match="not in its folder"):
        assert saves.latest() is None


# ---------------------------------------------------------------------------------- several processes


def save_together(tmp_path: Path, processes: int, times: int) -> None:
    """Processes that save into one folder, while this one reads it."""
    saved(tmp_path, 1)

    def work(number: int) -> None:
        mine = Checkpoints(tmp_path / "checkpoints")
        for place in range(times):
            step = 1 + number * times + place
            mine.save(step, writer(step), about={"by": number})

    children = [fork(lambda number=number: work(number)) for number in range(processes)]  # type: ignore[misc]
    saves = Checkpoints(tmp_path / "checkpoints")
    while children:
        found = quietly(saves)
        assert found is not None  # it may be retired by now, but it was whole
        time.sleep(0.005)
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            children.remove(child)
            assert status == 0
    final = quietly(saves)
    assert final is not None and final.number == 1 + processes * times and loads(final)
    assert len(listing(saves)) == 2


@pytest.mark.usefixtures("no_flush")
def test_eight_processes_save_50_times_each_into_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.files.lock._POLL_SECONDS", 0.002)
    save_together(tmp_path, 8, 50)


@pytest.mark.soak
def test_many_processes_save_many_times_into_one_folder(tmp_path: Path) -> None:
    save_together(tmp_path, 32, 100)


def test_a_save_waits_for_another_and_says_whose_when_it_waited_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = saved(tmp_path, 1)
    ready, begin = os.pipe()

    def slow(folder: Path) -> None:
        os.write(begin, b"!")
        os.read(done, 1)
        writer(2)(folder)

    done, finish = os.pipe()
    child = fork(lambda: saves.save(2, slow, about={}) and None)
    os.read(ready, 1)
    monkeypatch.setattr(run_folder, "LOCK_TIMEOUT", 0.05)
    with pytest.raises(ConfigError, match=rf"is in use by process {child} on "):
        saves.save(3, writer(3), about={})
    assert "step-00000002.tmp" in listing(saves)  # it is not a stray while its owner lives
    os.write(finish, b"!")
    assert ended(child) == 0
    assert loads(quietly(saves)) == 2
    for handle in (ready, begin, done, finish):
        os.close(handle)


def test_a_checkpoint_with_the_manifest_of_another_step_is_warned_of(tmp_path: Path) -> None:
    saves = saved(tmp_path, 1, 2)
    shutil.copy(saves.folder / "step-00000001" / "manifest.json", saves.folder / "step-00000002" / "manifest.json")
    with pytest.warns(UserWarning, match="is of step 1; it belongs to another checkpoint.*step-00000002 is skipped"):
        assert loads(saves.latest()) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": 2}, "is of step 2; it belongs to another"),
        ({"step": "3"}, "it belongs to another"),
        ({"number": "9"}, "it belongs to another"),
        ({"files": 3}, "is no manifest"),
        ({"files": {"a": {}}}, "is no manifest"),
        ({"about": 3}, "is no manifest"),
    ],
)
def test_odd_values_of_a_manifest_are_warned_of(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """Its own digest is right."""
    saves = saved(tmp_path, 2, 3)
    manifest = saves.folder / "step-00000003" / "manifest.json"
    content = {**json.loads(manifest.read_text()), **change}
    content.pop("sha256")
    manifest.write_bytes(run_folder._with_digest(content))
    with pytest.warns(UserWarning, match=f"{message}.*step-00000003 is skipped"):
        assert loads(saves.latest()) == 2


def test_one_that_is_retired_before_it_is_read_means_that_there_are_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list of names and the first manifest, another process may retire all of them."""
    saves, other = saved(tmp_path, 1, keep=1), Checkpoints(tmp_path / "checkpoints", keep=1)
    read = run_folder.read_manifest

    def read_late(folder: Path) -> Checkpoint:
        monkeypatch.setattr(run_folder, "read_manifest", read)
        other.save(2, writer(2), about={})
        return read(folder)

    monkeypatch.setattr(run_folder, "read_manifest", read_late)
    assert loads(quietly(saves)) == 2

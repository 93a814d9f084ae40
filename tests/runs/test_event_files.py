"""Event files of TensorBoard, written by PyTorch and by TensorBoard's own protocol buffers, read as runs."""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.summary.writer.record_writer import RecordWriter

from glassformer.errors import DataError
from glassformer.runs.curves import curves_page
from glassformer.runs.event_files import event_files, read_events
from glassformer.runs.history import read_run, read_runs
from glassformer.runs.run_list import RunList
from tests.reports.packed import data_of


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from torch.utils.tensorboard import SummaryWriter

    folder = tmp_path_factory.mktemp("logs")
    for number in range(2):
        with SummaryWriter(str(folder / f"try-{number}")) as writer:
            for step in range(1, 41):
                writer.add_scalar("Loss/train", 2 / step + number, step)
                writer.add_scalar("train/learning_rate", 1e-3 / step, step)
                if step % 10 == 0:
                    writer.add_scalar("val/accuracy", math.nan if step == 20 else 1 - 1 / step - number / 10, step)
                    writer.add_scalar("val/steps", step, step, new_style=True)
                    writer.add_scalar("val/precise", step / 3, step, double_precision=True)
            writer.add_text("note", "no scalar")
            writer.add_histogram("weights", np.arange(9.0), 1)
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        del sys.modules[name]  # else other tests could not hide TensorBoard any more
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written / "try-0", tmp_path / "try-0"))


def test_scalars_are_curves_and_validations(written: Path) -> None:
    first, second = read_runs([written])
    assert (first.name, first.last, first.metric, first.best) == ("try-0", 40, "accuracy", 40)
    assert list(first.steps["step"]) == list(range(1, 41)) and list(first.steps["lr"][:2]) == pytest.approx(
        [1e-3, 5e-4]
    )
    assert list(second.steps["loss"][:2]) == [3.0, 2.0]
    assert set(first.validation) == {"accuracy", "steps", "precise"}, "and no text, no histogram"
    steps, values = first.validation["accuracy"]
    assert list(steps) == [10, 20, 30, 40] and math.isnan(values[1]) and values[3] == pytest.approx(0.975)
    assert first.best_metrics()["precise"] == pytest.approx(40 / 3)
    assert first.seconds >= 0 and first.started is not None and first.ended
    assert data_of(curves_page([first, second]))["reports"][0]["charts"][0]["title"] == "Loss"


def test_they_are_in_the_list_of_a_folder(written: Path) -> None:
    runs = RunList.read(written)
    assert runs.finding == "Highest validation accuracy: 0.975, of try-0; the next, try-1, has 0.1 less."
    assert {run.log for run in runs.runs} == {"TensorBoard"} and runs.runs[0].steps == 40


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (TensorProto(dtype=1, float_val=[0.5]), 0.5),
        (TensorProto(dtype=1, tensor_content=np.float32(0.25).tobytes()), 0.25),
        (TensorProto(dtype=2, tensor_content=np.float64(1 / 3).tobytes()), 1 / 3),
        (TensorProto(dtype=2, double_val=[1 / 3], tensor_shape=TensorShapeProto(dim=[{"size": 1}])), 1 / 3),
        (TensorProto(dtype=19, tensor_content=np.float16(1.5).tobytes()), 1.5),
        (TensorProto(dtype=14, tensor_content=b"\xc0\x3f"), 1.5),
        (TensorProto(dtype=3, int_val=[300]), 300.0),
        (TensorProto(dtype=9, int64_val=[1 << 40]), float(1 << 40)),
        (TensorProto(dtype=9, tensor_content=np.int64(-7).tobytes()), -7.0),
        (TensorProto(dtype=7, string_val=[b"text"]), None),
        (TensorProto(dtype=1, float_val=[1, 2], tensor_shape=TensorShapeProto(dim=[{"size": 2}])), None),
        (TensorProto(dtype=1), None),
    ],
)
def test_tensors_of_one_number_are_scalars(tmp_path: Path, tensor: TensorProto, value: float | None) -> None:
    """As TensorFlow 2 and JAX write them."""
    event = Event(wall_time=5.0, step=3, summary=Summary(value=[Summary.Value(tag="eval/x", tensor=tensor)]))
    with (tmp_path / "events.out.tfevents.1.host").open("wb") as stream:
        RecordWriter(stream).write(event.SerializeToString())
    values = read_events(tmp_path).values
    assert values == ({} if value is None else {"eval/x": {3: pytest.approx(value)}})


def test_a_run_that_was_continued_has_each_step_once(tmp_path: Path) -> None:
    for number, (start, value) in enumerate([(1, 1.0), (4, 2.0)]):
        with (tmp_path / f"events.out.tfevents.{number}").open("wb") as stream:
            for step in range(start, start + 5):
                summary = Summary(value=[Summary.Value(tag="loss", simple_value=value)])
                RecordWriter(stream).write(Event(step=step, summary=summary).SerializeToString())
    assert len(event_files(tmp_path)) == 2
    assert read_events(tmp_path).values["loss"] == {1: 1, 2: 1, 3: 1, **dict.fromkeys(range(4, 9), 2)}


def test_a_file_that_is_still_written_is_read_as_far_as_it_is(folder: Path) -> None:
    (path,) = event_files(folder)
    content = path.read_bytes()
    steps = []
    for size in range(0, len(content), 97):
        path.write_bytes(content[:size])
        steps.append(read_run(folder).last)
    assert steps == sorted(steps) and steps[0] == 0 and steps[-1] == 40


def test_each_damaged_byte_is_found(folder: Path) -> None:
    (path,) = event_files(folder)
    content = path.read_bytes()[:600]
    for position in range(0, len(content) - 200, 7):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x40]) + content[position + 1 :])
        with pytest.raises(DataError, match=r"is damaged at byte [\d,]+: the checksum there does not match"):
            read_run(folder)
    state = RunList.read(folder.parent).runs[0]
    assert state.state == "unreadable" and state.problem.startswith("is damaged at byte")


def test_records_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1"
    with path.open("wb") as stream:
        RecordWriter(stream).write(b"\x0f\xff")
    with pytest.raises(DataError, match="record 1 is no event of TensorBoard: wire type 7"):
        read_events(tmp_path)
    path.write_bytes(b"hello, this is a text and no event file")
    with pytest.raises(DataError, match="is damaged at byte 0"):
        read_events(tmp_path)

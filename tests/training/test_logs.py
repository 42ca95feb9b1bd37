"""The log of a run: each step once, whatever kills it; events and picture beside it."""

import contextlib
import json
import signal
import struct

import pytest

from keras_transformer.errors import InputError
from keras_transformer.training import curve
from keras_transformer.training.logs import RunLog

pytestmark = pytest.mark.no_backend

TRAINING = {"loss": 3.5, "nll": 2.25, "learning_rate": 1e-3}
VALIDATION = {**TRAINING, "val_nll": 2.5, "val_bleu": 31.0}


@pytest.fixture
def said():
    return []


@pytest.fixture
def open_log(tmp_path, said):
    """`open_log(step)`: a log in the same folder."""
    with contextlib.ExitStack() as stack:
        yield lambda step: stack.enter_context(RunLog(tmp_path, step, said.append))


@pytest.fixture
def metrics(tmp_path):
    return tmp_path / "logs" / "metrics.jsonl"


@contextlib.contextmanager
def limited_file_size(size):
    """No file of this process grows beyond so many bytes, as on a full disk."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def steps(path):
    return [json.loads(line)["step"] for line in path.read_bytes().splitlines()]


# === metrics.jsonl ===


def test_a_line_a_step_as_it_comes(open_log, metrics):
    log = open_log(0)
    log.add(10, {"loss": 3.123456789, "val_bleu": 31})
    assert metrics.read_text() == '{"step": 10, "loss": 3.1234568, "val_bleu": 31.0}\n'
    log.add(20, {"loss": float("nan"), "learning_rate": 1.25e-9})
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert lines == log.lines
    assert lines[1] == {"step": 20, "loss": None, "learning_rate": 1.25e-9}


@pytest.mark.parametrize(
    ("step", "kept"), [(0, []), (9, []), (10, [10]), (25, [10, 20]), (99, [10, 20, 30])]
)
def test_a_resumed_log_forgets_what_comes_again(open_log, metrics, step, kept):
    with open_log(0) as log:
        for written in (10, 20, 30):
            log.add(written, TRAINING)
    log = open_log(step)
    assert [line["step"] for line in log.lines] == steps(metrics) == kept
    log.add(100, TRAINING)
    assert steps(metrics) == [*kept, 100]
    assert [path for path in metrics.parent.iterdir() if path.suffix == ".tmp"] == []


@pytest.mark.parametrize("cut", range(1, 40, 6))
def test_half_a_line_at_the_end_is_dropped(open_log, metrics, cut):
    log = open_log(0)
    log.add(10, TRAINING)
    log.add(20, TRAINING)
    content = metrics.read_bytes()
    metrics.write_bytes(content[:-cut])  # killed while it wrote
    log = open_log(20)
    log.add(20, TRAINING)
    assert metrics.read_bytes() == content


def test_a_line_that_was_damaged_is_named(open_log, metrics):
    open_log(0).add(10, TRAINING)
    metrics.write_text('{"step": 1}\n[]\n{"step": 3}\n')
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2: not a JSON object"):
        open_log(20)


def test_a_log_that_cannot_be_opened_is_bad_input(open_log, metrics):
    metrics.mkdir(parents=True)
    with pytest.raises(InputError, match=r"metrics\.jsonl is not a regular file"):
        open_log(0)


def test_a_full_disk_is_said_once_and_its_lines_come_later(
    open_log, metrics, said, monkeypatch
):
    log = open_log(0)
    log.add(10, TRAINING)
    metrics.rename(metrics.with_name("aside"))
    metrics.mkdir()  # as good as a full disk: nothing can be appended
    log.add(20, TRAINING)
    log.add(30, TRAINING)
    assert len(said) == 1
    assert "cannot write metrics.jsonl" in said[0] and "continues" in said[0]
    metrics.rmdir()
    metrics.with_name("aside").rename(metrics)
    log.add(40, TRAINING)
    assert steps(metrics) == [10, 20, 30, 40]


def test_a_disk_that_fills_up_within_a_line_leaves_no_half_line(
    open_log, metrics, said
):
    log = open_log(0)
    log.add(10, TRAINING)
    with limited_file_size(metrics.stat().st_size + 20):
        log.add(20, TRAINING)
    assert steps(metrics) == [10]
    assert any("cannot write metrics.jsonl" in text for text in said)
    log.add(30, TRAINING)
    assert steps(metrics) == [10, 20, 30]


# === TensorBoard ===


def events(folder):
    """All events of a folder's files, as TensorBoard reads them."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    record_writer = pytest.importorskip("tensorboardX.record_writer")
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            content, check = data[12 : 12 + length], data[12 + length : 16 + length]
            assert struct.unpack("<I", check)[0] == record_writer.masked_crc32c(content)
            found.append(event_pb2.Event.FromString(content))
            data = data[16 + length :]
    return found


def scalars(folder):
    return [
        (event.step, value.tag, value.simple_value)
        for event in events(folder)
        for value in event.summary.value
        if value.WhichOneof("value") == "simple_value"
    ]


def test_tensorboard_has_every_number(open_log, metrics):
    with open_log(0) as log:
        log.add(10, {"loss": 3.5, "val_bleu": 31.0, "gradient_norm": float("inf")})
    assert scalars(metrics.parent) == [
        (10, "training/loss", 3.5),
        (10, "validation/bleu", 31.0),
    ]


def test_tensorboard_has_sample_translations(open_log, metrics):
    with open_log(0) as log:
        log.add_samples(10, ["A | B", "C"], ["ä", ""], ["x", "y"])
    (event,) = [event for event in events(metrics.parent) if event.summary.value]
    (value,) = event.summary.value
    assert value.metadata.plugin_data.plugin_name == "text"
    assert value.tensor.string_val[0].decode().splitlines() == [
        "| source | model | reference |",
        "| --- | --- | --- |",
        "| A \\| B | ä | x |",
        "| C |  | y |",
    ]


def test_tensorboard_is_told_where_a_run_went_on(open_log, metrics):
    for step in (0, 10):
        with open_log(step) as log:
            log.add(step + 10, TRAINING)
            log.add(step + 20, TRAINING)
    starts = [e.step for e in events(metrics.parent) if e.HasField("session_log")]
    assert starts == [1, 11]  # hides step 20 of the first file
    assert len(list(metrics.parent.glob("events.*"))) == 2


def test_a_broken_event_file_is_left_for_a_new_one(open_log, metrics, said):
    with open_log(0) as log:
        log.add(10, TRAINING)
        (path,) = metrics.parent.glob("events.*")
        with limited_file_size(path.stat().st_size + 20):
            log.add(20, TRAINING)
        log.add(30, TRAINING)
    assert any("cannot write TensorBoard events" in text for text in said)
    broken, new = sorted(metrics.parent.glob("events.*"))
    broken.unlink()
    assert {step for step, _, _ in scalars(new.parent)} == {30}
    assert steps(metrics) == [10, 20, 30]


# === The picture ===


def test_the_curve_is_drawn_at_each_validation_and_at_the_end(
    tmp_path, said, draws_curves
):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "logs" / "curve.png"
    with RunLog(tmp_path, 0, said.append) as log:
        log.add(10, TRAINING)
        assert not picture.exists()
        log.add(20, VALIDATION)
        first = picture.read_bytes()
        assert first.startswith(b"\x89PNG") and first.endswith(b"IEND\xaeB`\x82")
        log.add(30, TRAINING)
        assert picture.read_bytes() == first
    assert picture.read_bytes() != first


def test_the_curve_shows_every_point(monkeypatch, draws_curves):
    figures = []
    figure = pytest.importorskip("matplotlib.figure")
    monkeypatch.setattr(
        figure.Figure, "savefig", lambda self, *_, **__: figures.append(self)
    )
    lines = [
        {"step": step, "loss": 9 / step, "nll": 8 / step, "learning_rate": step * 1e-3}
        for step in range(1, 101)
    ]
    for i in (24, 49, 74, 99):
        score = 40 - abs(60 - i)
        lines[i] |= {"val_nll": 2.0 + i, "val_bleu": score, "val_chrf": score + 9}
    lines[99]["val_nll"] = None  # not a number
    curve.draw(lines)
    losses, bleu, chrf, rate = figures[0].axes
    curves = {line.get_label(): line.get_data() for line in losses.lines}
    x, y = curves["training"]
    assert list(zip(x, y, strict=True)) == [(n, 8 / n) for n in range(1, 101)]
    assert list(curves["validation"][0]) == [25, 50, 75]
    assert [*bleu.lines[0].get_xdata()] == [25, 50, 75, 100]
    assert [text.get_text() for text in bleu.texts] == ["29.00"]
    assert bleu.texts[0].xy == (50, 29) and chrf.texts[0].xy == (50, 38)
    assert rate.get_ylim()[0] == 0
    # The fall of the first tenth may leave the panel, but nothing behind it.
    low, high = losses.get_ylim()
    assert low < 8 / 100 and high > 9 / 11


@pytest.mark.parametrize(
    ("line", "panels"),
    [
        ({}, 0),
        ({"nll": 2.0}, 1),
        ({"learning_rate": 0.0}, 1),
        ({"nll": 2.0, "val_bleu": 0.0, "learning_rate": 1.0}, 3),
    ],
)
def test_a_panel_without_a_point_is_left_out(line, panels, draws_curves):
    pytest.importorskip("matplotlib")
    picture = curve.draw([{"step": 1, **line}])
    if panels == 0:
        assert picture is None
    else:
        width, height = struct.unpack(">II", picture[16:24])
        assert width == 960 and abs(height / panels - 280) < 200


# === What is not installed ===


def test_logging_loads_neither_torch_nor_pyplot(run_python, tmp_path):
    pytest.importorskip("tensorboardX")
    run_python(f"""
import sys
from keras_transformer.training.logs import RunLog
assert not {{"keras", "matplotlib", "tensorboardX"}} & sys.modules.keys()
with RunLog({str(tmp_path)!r}, 0, print) as log:
    log.add(10, {VALIDATION})
assert {{"matplotlib", "tensorboardX"}} <= sys.modules.keys()
assert not {{"torch", "tensorflow", "matplotlib.pyplot"}} & sys.modules.keys()
""")
    assert (tmp_path / "logs" / "curve.png").exists()


def test_without_the_extra_the_numbers_are_still_logged(run_python, tmp_path):
    said = run_python(
        f"""
from keras_transformer.training.logs import RunLog
with RunLog({str(tmp_path)!r}, 0, print) as log:
    for step in (10, 20):
        log.add(step, {VALIDATION})
        log.add_samples(step, ["a"], ["b"], ["c"])
""",
        block=["matplotlib", "tensorboardX"],
    )
    assert said == (
        "not written: TensorBoard events and curve.png; to get them, run pip install "
        "tensorboardX matplotlib\n"
    )
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["metrics.jsonl"]
    assert steps(tmp_path / "logs" / "metrics.jsonl") == [10, 20]

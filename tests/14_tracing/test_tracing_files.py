"""Trace files: strict JSON, exact times, strictly nested, all or nothing on disk; and programs drawn at random."""

import json
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.activations import ReLU, exp
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.tensor import Tensor, op
from tinytorch.perf.tracing import microseconds, profile, record_function

ONE = Tensor(np.ones((2, 3), np.float32))
HOSTILE = ['"quoted" \\', "two\nlines\r\t\0", "漢字 é 🙂", "\ud83d", "\udcff half", "", "</script>", "NaN", "a" * 3000,
           "\u2028", "\x7f\x1b[0m"]


@op(shape=lambda a, **attrs: a)
def with_attribute(a, value):
    """An op that carries an attribute along."""
    return a


def test_microseconds_are_exact():
    for ns, text in ((0, "0.000"), (1, "0.001"), (999, "0.999"), (1000, "1.000"), (1234567, "1234.567"),
                     (10**15 + 1, "1000000000000.001")):
        assert microseconds(ns) == text and json.loads(text) == ns / 1000


def test_a_trace_to_the_nanosecond(ticking, chrome, speedscope):
    clock = ticking(0)
    clock.now = 5_000_000_000_123  # any origin: times are relative
    model = Linear(3, 2)
    with profile(clock=clock, profile_memory=True, memory=lambda: 4096) as p:
        clock.wait(500)
        with record_function("r"):
            clock.wait(1)
            model(ONE)
            clock.wait(1_234_567)
    events = chrome(p)
    slices = [(e["name"], e["cat"], e["ts"], e["dur"], e["tid"]) for e in events if e["ph"] == "X"]
    assert slices == [("r", "region", 0.5, 1234.568, 1), ("Linear", "layer", 0.501, 0.0, 1),
                      ("linear", "op", 0.501, 0.0, 1)]
    assert [e["args"] for e in events if e["ph"] == "X"][2] == {
        "bytes": 72, "flops": 24, "input_shapes": [[2, 3], [3, 2], [2]], "output_shape": [2, 2]}
    assert [(e["name"], e["ts"], e["args"]) for e in events if e["ph"] == "C"] == [("memory", 0.501, {"bytes": 4096})]
    names = {(e["name"], e["tid"]): e["args"] for e in events if e["ph"] == "M"}
    assert names["thread_name", 1] == {"name": "MainThread: forward"} and ("thread_name", 2) not in names
    one, = speedscope(p)
    assert [(e["type"], e["at"]) for e in one["events"]] == [
        ("O", 500), ("O", 501), ("O", 501), ("C", 501), ("C", 501), ("C", 1_235_068)]
    assert one["endValue"] == 1_235_068


def test_forward_and_backward_have_lanes(chrome, speedscope):
    model = Sequential(Linear(3, 4), ReLU(), Linear(4, 2))
    with profile() as p:
        for _ in range(2):
            with record_function("step"):
                model(ONE).sum().backward()
    events = chrome(p)
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert lanes == {1: "MainThread: forward", 2: "MainThread: backward"}
    back = [e for e in events if e["ph"] == "X" and e["tid"] == 2]
    assert [e["name"] for e in back if e["cat"] == "region"] == ["backward", "backward"]
    assert sum(e["name"] == "Linear" for e in back) == 4 and all(e["name"] != "step" for e in back)
    assert sum(e["name"] == "Linear" for e in events if e["ph"] == "X" and e["tid"] == 1) == 4
    assert len(speedscope(p)) == 1


def test_threads_have_small_tids_and_names(chrome, speedscope):
    def work():
        with record_function("r"):
            exp(ONE)

    with profile() as p:
        workers = [threading.Thread(target=work, name=f"worker \"{i}\"\ud800") for i in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        exp(ONE)
    events = chrome(p)
    assert {e["tid"] for e in events if e["ph"] == "X"} == {1, 3, 5, 7}
    assert {e["pid"] for e in events} == {1}
    assert len(speedscope(p)) == 4


def test_hostile_labels_and_attributes(chrome, speedscope):
    with profile() as p:
        for label in HOSTILE:
            with record_function(label):
                with_attribute(ONE, value=label)
        for value in (float("nan"), float("inf"), -0.0, 10**400, 1e308, slice(None), np.float32("nan")):
            with_attribute(ONE, value=value)
    slices = [e for e in chrome(p) if e["ph"] == "X"]
    names = [e["name"] for e in slices if e["cat"] == "region"]
    assert names == [label.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for label in HOSTILE]
    assert [e["args"]["value"] for e in slices if e["cat"] == "op"][len(HOSTILE)] == "nan"
    speedscope(p)
    raw = json.dumps(HOSTILE)
    assert raw.isascii()


def test_open_regions_are_closed_and_marked(ticking, chrome, speedscope):
    region = record_function("left open")
    with profile(clock=ticking()) as p:  # 0
        region.__enter__()  # 1
        ONE + ONE  # 2, 3
    # 4
    region.__exit__(None, None, None)
    events = chrome(p)
    cut, = [e for e in events if e["ph"] == "X" and e["name"] == "left open"]
    assert (cut["ts"], cut["dur"]) == (1.0, 3.0) and "edge" in cut["args"]["cut"]
    assert [(e["name"], e["ts"]) for e in events if e["ph"] == "i"] == [("cut: left open", 4.0)]
    speedscope(p)


def test_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    with profile() as p:
        ONE + ONE
    for export in (p.export_chrome_trace, p.export_speedscope):
        path = tmp_path / "dir é" / "trace.json"
        path.parent.mkdir(exist_ok=True)
        assert export(path) == path and export(str(path)) == path  # twice
        first = path.read_bytes()
        assert export(path).read_bytes() == first
        for wrong in (tmp_path / "no such folder" / "t.json", tmp_path, path / "inside a file"):
            with pytest.raises(ValueError, match="cannot write"):
                export(wrong)
        for wrong in (3, None):
            with pytest.raises(TypeError, match="path is"):
                export(wrong)

        def fails(pieces, path=path, export=export):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("os.replace", fails)
            with pytest.raises(ValueError, match="No space left"):
                export(path)
        assert path.read_bytes() == first and [one.name for one in path.parent.iterdir()] == ["trace.json"]
    with profile() as empty:
        pass
    for export in (empty.export_chrome_trace, empty.export_speedscope):
        with pytest.raises(ValueError, match="nothing was recorded"):
            export(tmp_path / "empty.json")
    assert not (tmp_path / "empty.json").exists()


def slice_of(name, ts, dur, tid=1):
    return {"ph": "X", "pid": 1, "tid": tid, "name": name, "cat": "op", "ts": ts, "dur": dur}


LANE = {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "one"}}


@pytest.mark.parametrize("faulty", [
    [LANE], [slice_of("a", 0, 1)], [LANE, slice_of("a", 0, 2), slice_of("b", 1, 1.001)],
    [LANE, slice_of("a", 0, 2), slice_of("b", 0.5, 1), slice_of("c", 1.499, 0.1)], [LANE, slice_of("a", -1, 2)],
    [LANE, slice_of("a", 0, -1)], [LANE, slice_of("a", 0, float("nan"))], [LANE, slice_of("a\ud800", 0, 1)],
    [LANE, slice_of(3, 0, 1)], [LANE, slice_of("a", 0, 1, tid=140737)], [LANE, {**slice_of("a", 0, 1), "ph": "B"}],
])
def test_the_judge_of_chrome_traces_sees_planted_faults(faulty, tmp_path, judges):
    path = tmp_path / "faulty.json"
    path.write_text(json.dumps({"traceEvents": faulty}))
    with pytest.raises(ValueError):
        judges[0](path)
    path.write_text(json.dumps({"traceEvents": [LANE, slice_of("a", 0, 2), slice_of("b", 0, 1), slice_of("c", 1, 1)]}))
    assert len(judges[0](path)) == 4


@pytest.mark.parametrize("faulty", ["OC>1,O1,C0", "O0,C1", "O0", "C0", "O0,O1,C0,C1"])
def test_the_judge_of_speedscope_files_sees_planted_faults(faulty, tmp_path, judges):
    events = [{"type": part[0], "frame": int(part[-1]), "at": 9 - i if ">" in faulty else i}
              for i, part in enumerate(faulty.replace("OC>1,", "").split(","))]
    path = tmp_path / "faulty.json"
    path.write_text(json.dumps({
        "$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [{"name": "a"}] * 2},
        "profiles": [{"type": "evented", "unit": "nanoseconds", "startValue": 0, "endValue": 9, "events": events}]}))
    with pytest.raises(ValueError):
        judges[1](path)


# ---------------------------------------------------------------- random programs

THREAD = "in a thread of its own"
programs = st.recursive(
    st.sampled_from(["add", "exp", "unknown", "backward", "wait"]),
    lambda inner: st.tuples(st.sampled_from(["a", "b", "add", "é\n", THREAD]), st.booleans(),
                            st.lists(inner, max_size=4)),
    max_leaves=25)


class Cursor:
    """Runs a drawn program and keeps its own, independent account of it."""

    def __init__(self, clock):
        self.clock, self.model = clock, Linear(3, 3)
        self.calls, self.spent, self.open = {}, {}, []
        self.flops = 0

    def note(self, kind, name, took):
        key = kind, name
        self.calls[key] = self.calls.get(key, 0) + 1
        if key not in self.open:
            self.spent[key] = self.spent.get(key, 0) + took

    def run(self, what):
        begin = self.clock.now
        if what == "wait":
            self.clock.wait(777)
        elif what == "add":
            ONE + ONE
            self.note("op", "add", 1000)
            self.flops += 6
        elif what == "exp":
            exp(ONE)
            self.note("op", "exp", 1000)
            self.flops += 6
        elif what == "unknown":
            with_attribute(ONE, value=self.clock.now)
            self.note("op", "with_attribute", 1000)
        elif what == "backward":
            self.model(ONE).sum().backward()
        elif what[0] == THREAD:
            mine, self.open = self.open, []
            worker = threading.Thread(target=lambda: [self.run(each) for each in what[2]])
            worker.start()
            worker.join()
            self.open = mine
        else:
            self.region(*what)
        return self.clock.now - begin

    def region(self, name, fails, inside):
        begin, key = self.clock.now + 1000, ("region", name)
        self.open.append(key)
        try:
            with record_function(name):
                for each in inside:
                    self.run(each)
                if fails:
                    raise KeyError(name)
        except KeyError:
            pass
        self.open.pop()
        self.note(*key, self.clock.now - begin)


@settings(max_examples=60)
@given(st.lists(programs, max_size=6))
def test_random_programs_are_told_exactly(ticking, judges, tmp_path_factory, program):
    folder, clock = tmp_path_factory.mktemp("random"), ticking()
    cursor = Cursor(clock)
    with profile(clock=clock, profile_memory=True, memory=lambda: clock.now) as p:
        for each in program:
            cursor.run(each)
    rows = {(row.kind, row.key): row for row in p.key_averages()}
    plain = "backward" not in str(program)
    for key, calls in cursor.calls.items():
        if key[0] == "region" or plain:
            assert rows[key].calls == calls
            assert rows[key].total_ms == cursor.spent[key] / 1e6
    assert all(row.self_ms >= 0 for row in rows.values())
    averages = p.key_averages()
    if THREAD not in str(program):
        assert all(row.total_ms <= p.wall_ms for row in averages)
        assert abs(sum(row.self_ms for row in averages) + averages.outside_ms - p.wall_ms) < 1e-9
    if plain:
        assert sum(row.flops or 0 for row in averages if row.kind == "op") == cursor.flops
    tree = p.by_layer()
    for _, node in tree.walk():
        assert abs(node.total_ms - node.self_ms - sum(child.total_ms for child in node.children)) < 1e-9
        assert node.self_ms >= 0
        assert (node.flops or 0) >= sum(child.flops or 0 for child in node.children)
    if p.events:
        events = judges[0](p.export_chrome_trace(folder / "t.json"))
        assert sum(e["ph"] == "C" for e in events) == sum(event.kind == "op" for event in p.events)
        judges[1](p.export_speedscope(folder / "s.json"))


@pytest.mark.parametrize("export", ["export_chrome_trace", "export_speedscope"])
def test_only_ordinary_files_are_written(tmp_path, monkeypatch, export):
    with profile() as p:
        ONE + ONE
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("", ".", "folder", "pipe", "a\0b", "\ud800", "missing/x"):
        with pytest.raises(ValueError, match="cannot write .*; name a file"):
            getattr(p, export)(name)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["folder", "pipe"]
    assert (tmp_path / "pipe").is_fifo()  # not renamed over
    (tmp_path / "folder" / "é ü.json").write_text("old")
    (tmp_path / "link").symlink_to("folder/é ü.json")
    getattr(p, export)("link")
    assert (tmp_path / "link").is_symlink()
    assert json.loads((tmp_path / "folder" / "é ü.json").read_text())
    assert len(list((tmp_path / "folder").iterdir())) == 1

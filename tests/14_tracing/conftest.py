"""Clocks that tests know in advance, and judges of trace files that share no code with what writes them."""

import json

import pytest


class Ticking:
    """clock() is ``step`` nanoseconds later at every reading; ``wait(ns)`` lets time pass besides."""

    def __init__(self, step=1000):
        self.now, self.step = -step, step

    def __call__(self):
        self.now += self.step
        return self.now

    def wait(self, ns):
        self.now += ns


@pytest.fixture(scope="session")
def ticking():
    return Ticking


def _constant(name):
    raise ValueError(f"{name} is no JSON")


def _once(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"a key twice: {keys}")
    return dict(pairs)


def load_strict(path):
    """Read JSON as the strictest reader does: UTF-8, no NaN, no key twice, no half surrogate pair."""
    data = json.loads(path.read_bytes().decode("utf-8", "strict"), parse_constant=_constant, object_pairs_hook=_once)
    json.dumps(data, ensure_ascii=False).encode("utf-8")  # a lone surrogate raises UnicodeEncodeError
    return data


def judge_chrome(path):
    """Return the trace's events, or raise ``ValueError`` for what a viewer would drop or draw wrongly."""
    data = load_strict(path)
    events, lanes, named = data["traceEvents"], {}, set()
    for event in events:
        if event["ph"] not in "MXCi":
            raise ValueError(f"phase {event['ph']}")
        if type(event["pid"]) is not int or type(event["tid"]) is not int or not 0 <= event["tid"] < 1000:
            raise ValueError("pid and tid: small integers")
        if not isinstance(event["name"], str):
            raise ValueError("a name is text")
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                named.add(event["tid"])
            continue
        if not isinstance(event["ts"], (int, float)) or event["ts"] < 0:
            raise ValueError(f"ts {event['ts']}")
        if event["ph"] == "X":
            lanes.setdefault(event["tid"], []).append(event)
        if event["ph"] == "C" and not all(type(value) is int for value in event["args"].values()):
            raise ValueError("a counter counts")
    if not lanes or set(lanes) - named:
        raise ValueError("no slice, or a lane without a name")
    for slices in lanes.values():
        _judge_lane(slices)
    return events


def _judge_lane(slices):
    stack = []
    for one in slices:  # in the order of the file: a parent before its children
        start, end = round(one["ts"] * 1000), round(one["ts"] * 1000) + round(one["dur"] * 1000)
        if one["dur"] < 0:
            raise ValueError("dur below 0")
        while stack and start >= stack[-1][1] and not (start == stack[-1][0] and end <= stack[-1][1]):
            stack.pop()
        if stack and not (stack[-1][0] <= start and end <= stack[-1][1]):
            raise ValueError(f"{one['name']} overlaps: {start} to {end} across {stack[-1]}")
        stack.append((start, end))


def judge_speedscope(path):
    """Return the profiles of a speedscope file, or raise ``ValueError`` for what speedscope refuses."""
    data = load_strict(path)
    frames = data["shared"]["frames"]
    if data["$schema"] != "https://www.speedscope.app/file-format-schema.json" or not data["profiles"]:
        raise ValueError("schema or profiles missing")
    for profile in data["profiles"]:
        if (profile["type"], profile["unit"]) != ("evented", "nanoseconds"):
            raise ValueError("evented, in nanoseconds")
        stack, last = [], profile["startValue"]
        for event in profile["events"]:
            if event["at"] < last or not frames[event["frame"]]["name"]:
                raise ValueError("time runs backwards, or a frame without a name")
            last = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            elif event["type"] != "C" or not stack or stack.pop() != event["frame"]:
                raise ValueError("not last in, first out")
        if stack or last > profile["endValue"]:
            raise ValueError("left open, or beyond the end")
    return data["profiles"]


@pytest.fixture
def chrome(tmp_path):
    """Export a Chrome trace and judge it; return its events."""
    return lambda p: judge_chrome(p.export_chrome_trace(tmp_path / "trace.json"))


@pytest.fixture
def speedscope(tmp_path):
    """Export a speedscope file and judge it; return its profiles."""
    return lambda p: judge_speedscope(p.export_speedscope(tmp_path / "speedscope.json"))


@pytest.fixture(scope="session")
def judges():
    return judge_chrome, judge_speedscope

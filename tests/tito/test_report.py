"""`tito profile MODEL --html FILE`: one page, whole or not at all, that holds what was found and links to nothing."""

import copy
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tito import profiling, report
from tito.errors import TitoError
from tito.profiling import profile_model

VOID = {"meta", "img", "br", "hr", "link", "input"}
TABLES = ("Workload", "One forward pass", "Layer by layer", "By op", "Latency in ms", "A training step with Adam")
PICTURES = ("Roofline", "Three aligned bars", "Latency histogram", "Memory over the pass", "Batch sizes")
EVIL = "<script>alert('&')</script> \"é層\udce9\x00"


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """Keep measured limits in a folder of the tests' own."""
    before = os.environ.get("TINYTORCH_CACHE")
    os.environ["TINYTORCH_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    del os.environ["TINYTORCH_CACHE"]
    if before is not None:
        os.environ["TINYTORCH_CACHE"] = before


@pytest.fixture(scope="module")
def found(own_cache):
    """Profile the digits MLP once, with all that a page shows."""
    return profile_model("digits_mlp", iterations=20, details=True)


@pytest.fixture(scope="module")
def counted():
    """Count GPT-3: 96 blocks of 15 layers, and five layers around them."""
    return profile_model("gpt3", count_only=True, details=True)


class Reader(HTMLParser):
    """Checks that what is opened is closed in order, and keeps elements, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def every(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def read(text):
    """Return the page as a ``Reader``, checked: complete in itself, in one language, with a title."""
    assert text.startswith("<!DOCTYPE html>\n")
    text.encode("utf-8")
    page = Reader(text)
    assert page.every("html") == [{"lang": "en"}]
    assert len(page.every("title")) == len(page.every("h1")) == 1
    assert not {"script", "link", "iframe", "object", "base", "a"} & {tag for tag, _ in page.elements}
    for _, attrs in page.elements:
        assert not {"href", "srcset", "action", "onload", "onerror"} & set(attrs)
        assert attrs.get("src", "data:").startswith("data:image/svg+xml;base64,") or "src" not in attrs
    assert "url(" not in text and "@import" not in text and "//" not in re.sub(r"base64,[^\"]*", "", text)
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    return page


def test_the_page_holds_what_was_found(found):
    """2,410 parameters; 32 x (2 x 64 x 32 + 32 + 2 x 32 x 10) FLOPs."""
    page = read(report.page(found))
    text = " ".join("".join(page.words).split())
    for words in (*TABLES, "digits_mlp on (32, 64)", found["date"], "2,410", f"{32 * (4096 + 32 + 640):,} (4,768 per",
                  found["profile"]["advice"][1:], "0 Linear", "1 ReLU", "limited by", "first call", "p99 *",
                  "cannot support this percentile", "Every op that ran has a cost rule", "Every layer was called",
                  "one multiply-add is 2 FLOPs", "powers of 1024", "what tracemalloc does not see", "Assumed:",
                  found["limits"]["source"]):
        assert words in text, words
    assert len(page.every("table")) == 8
    assert all(attrs["scope"] in ("col", "row") for attrs in page.every("th"))


def test_every_picture_has_its_words(found):
    pytest.importorskip("matplotlib")
    images = read(report.page(found)).every("img")
    assert sorted(image["alt"].split(". ")[0] for image in images) == sorted(PICTURES)
    assert all(len(image["alt"].split(". ", 1)[1]) > 20 for image in images)


def test_without_matplotlib_the_tables_are_there_and_the_pictures_named(found, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = read(report.page(found))
    text = "".join(page.words)
    assert page.every("img") == [] and len(page.every("table")) == 8
    assert f"Missing for want of matplotlib: {', '.join(report_order(found))}" in text
    assert 'pip install "tinytorch[viz]"' in text


def report_order(found):
    return [title for title, _, _ in report._drawings(found)]


def test_names_are_escaped_and_what_is_left_out_is_said(found):
    result = copy.deepcopy(found)
    result["model"] = result["profile"]["layers"][1]["name"] = result["profile"]["layers"][1]["type"] = EVIL
    result["ops"][0] |= {"op": EVIL, "flops": None}
    result["profile"]["uncounted"], result["count"]["never_called"] = [EVIL], ["spare"]
    result["profile"]["latency"]["warnings"] = [EVIL]
    text = "".join(read(report.page(result)).words)
    assert "Profile of <script>alert('&')</script> \"é層??" in text
    for words in ("Not counted, for want of a cost rule: <script>", "Never called in forward: spare", "Doubt: <script>",
                  "no cost rule"):
        assert words in text
    result["count"] = result["training_memory"] = None
    result |= {"batch_sizes": [], "batch_sizes_why": "it is odd"}
    text = "".join(read(report.page(result)).words)
    assert text.count("cannot be run on shapes") == 2 and "Not measured: it is odd." in text


def test_three_hundred_layers_are_folded(found):
    """The root, 20 layers, and 14 in each: 301; above 45 rows only the upper levels stand open."""
    result = copy.deepcopy(found)
    root, layer = result["profile"]["layers"][:2]
    rows = [root]
    for i in range(20):
        rows.append({**layer, "name": f"blocks.{i}", "type": "Block", "depth": 1})
        rows += [{**layer, "name": f"blocks.{i}.{j}", "depth": 2} for j in range(14)]
    result["profile"]["layers"] = rows
    page = read(report.page(result))
    assert len(page.every("details")) == 1 and "All 301 layers" in page.words
    assert page.words.count("13 Linear") == 20 and page.words.count("13 Block") == 2  # blocks.13 in both tables
    assert "280 deeper layers" in "".join(page.words)


def test_a_model_that_is_only_counted_has_a_page(counted):
    page = read(report.page(counted))
    text = "".join(page.words)
    for words in ("Counted on shapes, not run: asked only to count.", "174,604,259,328", "734,804,261,732,352",
                  "0-95 TransformerBlock, each", "All 1,445 layers", "A training step with Adam", "reduce_max"):
        assert words in text, words


def test_the_counted_page_has_its_picture(counted):
    pytest.importorskip("matplotlib")
    assert "blocks.0-95.mlp.fc1 ×96: 33% of the parameters" in read(report.page(counted)).every("img")[0]["alt"]


def test_what_the_page_adds_is_measured(found):
    """The ops' FLOPs and bytes are the pass's; Linear twice, ReLU once; three ops in layers 0, 1, 2.

    Bytes: 4 (2,048 + 2,080 + 1,024) + 8 * 1,024 + 4 (1,024 + 330 + 320) = 35,496.
    """
    ops = {row["op"]: row for row in found["ops"]}
    assert {name: row["calls"] for name, row in ops.items()} == {"linear": 2, "relu": 1}
    assert sum(row["flops"] for row in ops.values()) == found["profile"]["flops"]
    assert sum(row["bytes"] for row in ops.values()) == found["profile"]["layers"][0]["bytes"] == 35_496
    assert sum(row["share"] for row in ops.values()) == pytest.approx(1)
    assert [name for _, _, name in found["memory_timeline"]] == ["layers.0", "layers.1", "layers.2"]
    times = [ms for ms, _, _ in found["memory_timeline"]]
    assert times == sorted(times) and times[0] > 0
    hidden = 4 * 32 * 32  # bytes; after the ReLU both its input and its output are alive
    assert 2 * hidden <= found["memory_timeline"][1][1] < 2 * hidden + 5000
    assert {1, 32} <= {row["batch"] for row in found["batch_sizes"]}
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_batch_sizes_stay_within_time_and_memory(monkeypatch):
    """1 ms for 4 samples: 1024 would take 256 ms, but is more than 32 times as many; 10 MB for 4 of 100 MB free."""
    profile = {"latency_ms": 1.0, "peak_memory_mb": 1e-6}
    monkeypatch.setattr(profiling, "memory_available", lambda: 100 * 2**20)
    assert profiling.batch_sizes((4, 8), profile) == (1, 4, 16, 64)
    assert profiling.batch_sizes((4, 8), {**profile, "latency_ms": 100.0}) == (1, 4, 16)
    assert profiling.batch_sizes((4, 8), {**profile, "peak_memory_mb": 10.0}) == (1, 4, 16)
    assert profiling.batch_sizes((1, 8), {**profile, "latency_ms": 900.0}) == (1,)


def test_a_page_is_written_whole_or_not_at_all(found, tmp_path, monkeypatch):
    place = tmp_path / "r.html"
    place.write_text("mine", encoding="utf-8")
    monkeypatch.setattr(report.os, "replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(TitoError, match="No space left"):
        report.write_report(found, place)
    monkeypatch.undo()
    assert place.read_text(encoding="utf-8") == "mine" and os.listdir(tmp_path) == ["r.html"]
    report.write_report(found, place)
    assert place.read_text(encoding="utf-8") == report.page(found) and os.listdir(tmp_path) == ["r.html"]


def tito(*words, **more):
    return subprocess.run([sys.executable, "-m", "tito", *words], capture_output=True, text=True, check=False,
                          encoding="utf-8", stdin=subprocess.DEVNULL, env={**os.environ, **more})


def test_the_command_says_where_the_page_is(tmp_path):
    place = tmp_path / "mit Leerzeichen" / "é 報告.html"
    place.parent.mkdir()
    done = tito("profile", "--iterations", "5", "--html", str(place))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"\nThe page is {place}\n") and done.stdout.startswith("digits_mlp on (32, 64)")
    read(place.read_text(encoding="utf-8"))


def test_html_and_json_go_together(tmp_path):
    done = tito("profile", "gpt3", "--count-only", "--json", "--html", str(tmp_path / "p.html"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["html"] == str(tmp_path / "p.html")
    read((tmp_path / "p.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("place", "says"), [
    ("none/r.html", "no folder"), ("", "is a folder"), ("pipe", "no ordinary")])
def test_a_place_that_cannot_be_is_said_before_anything_runs(tmp_path, place, says):
    if place == "pipe":
        os.mkfifo(tmp_path / place)
    done = tito("profile", "--html", str(tmp_path / place) if place else str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_profile_that_fails_leaves_the_old_page(tmp_path):
    place = tmp_path / "r.html"
    place.write_text("mine", encoding="utf-8")
    assert tito("profile", "resnet9000", "--html", str(place)).returncode == 2
    assert place.read_text(encoding="utf-8") == "mine" and os.listdir(tmp_path) == ["r.html"]


def test_an_ops_bytes_hold_its_temporaries():
    """A convolution pads its images and copies their windows, as its layer's row says.

    Read or written once, 4 bytes each: x 2,048, weight and bias 160, output 32,768: 139,904. Written and read: of each
    of 32 images 10x10 numbers with padding, and nine windows of 8x8: 8 * 32 * (100 + 576) = 173,056. In all 312,960.
    """
    rows = profiling.op_rows(Conv2d(1, 16, 3, padding=1), Tensor(np.zeros((32, 1, 8, 8), np.float32)), 1)
    assert [(row["op"], row["bytes"]) for row in rows] == [("conv2d", 312_960)]


@pytest.mark.parametrize("value, said", [(0.13154, "0.1315"), (999.96, "1000"), (7604.2, "7,604"), (62690.4, "62,690"),
                                         (1429312.0, "1,429,000")])
def test_large_numbers_have_no_power_of_ten(value, said):
    assert report._four(value) == said

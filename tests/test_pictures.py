"""Pictures: plain data in, a figure out that says what is in the data; bad data gets one sentence."""

import math
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.figure import Figure  # noqa: E402
from matplotlib.text import Text  # noqa: E402

from tinytorch.perf import pictures  # noqa: E402
from tinytorch.perf.profiling import MachineLimits, summarize  # noqa: E402

WORKLOAD = {"model": "tiny", "shapes": [[32, 64]], "dtypes": ["float32"], "mode": "eval", "gradient": "no_grad",
            "stages": "one call of the model", "cpu": "some processor", "blas": "openblas 0.3", "blas_threads": 2,
            "numpy": "2.4", "python": "3.11", "date": "2020-02-29"}
NASTY = "<b>$x$ & ' \"\n\x00 层\udce9 é ☃.$ 3 " + "long_" * 40
LIMITS = {"peak_gflops": 100.0, "bandwidth_gbs": {"1024": 50.0, "1048576": 10.0}, "dispatch_us": 1.0}


def row(name, kind, depth, self_ms, flops, moved):
    return {"name": name, "type": kind, "depth": depth, "self_ms": self_ms, "flops": flops, "bytes": moved}


# the model takes 4 ms, 1,000 FLOPs, 100 bytes in all; of its own it has 1 ms, 100 FLOPs and 20 bytes
ROWS = [row("Model", "Model", 0, 1.0, 1000, 100), row("layers.0", "Linear", 1, 2.0, 600, 50),
        row("layers.1", "ReLU", 1, 1.0, 300, 30)]
MANY = [row("Model", "Model", 0, 0.0, 2_000_000, 400_000),
        *(row(f"stage.{i}.conv{i}", "Conv2d", 1, 0.1 + i / 100, 10_000 + i, 1_000 + 7 * i) for i in range(200))]
BATCHES = [{"batch": n, "latency_ms": ms, "throughput": 1000 * n / ms, "peak_memory_mb": 1.0 + n}
           for n, ms in ((1, 5), (8, 12), (32, 35), (64, 65))]
MODELS = [{"name": name, "parameter_bytes": size, "accuracy": share, "accuracy_interval": (share - 0.02, share + 0.01)}
          for name, size, share in (("one", 1000, 0.91), ("two", 3000, 0.90), ("three", 90_000, 0.96))]
MANY_MODELS = [{"name": f"m{i}", "parameter_bytes": 1000 + i, "accuracy": 0.9 + (i % 4) / 100} for i in range(40)]
TIMELINE = [(1.0, 2048, "blocks.0.up"), (2.0, 4096, "blocks.0.down"), (4.0, 1024, "blocks.1.up"), (5.0, 0, "")]


def stats(times, **more):
    return {**summarize(times), "times_ms": times, "samples_are": "calls", "workload": WORKLOAD, **more}


DRAWINGS = {
    "histogram": lambda: pictures.latency_histogram(stats([5.1, 5.2, 5.0, 5.3, 50.0, 5.2, 5.2])),
    "warmup": lambda: pictures.warmup_curve([50.0, 8.0, 3.0, *[1.0, 1.1] * 10], WORKLOAD),
    "roofline": lambda: pictures.roofline_chart(LIMITS, ROWS, WORKLOAD),
    "roofline of 200": lambda: pictures.roofline_chart(LIMITS, MANY, WORKLOAD),
    "ribbons": lambda: pictures.layer_ribbons(ROWS, WORKLOAD),
    "ribbons of 200": lambda: pictures.layer_ribbons(MANY, WORKLOAD),
    "memory": lambda: pictures.memory_chart(TIMELINE, WORKLOAD),
    "batches": lambda: pictures.batch_curve(BATCHES, WORKLOAD),
    "front": lambda: pictures.pareto_chart(MODELS, ["one", "three"], workload=WORKLOAD),
    "front of 40": lambda: pictures.pareto_chart(MANY_MODELS, ["m0", "m1", "m2", "m3"], workload=WORKLOAD),
}


def texts(figure):
    """Return the texts that we placed: not the numbers at the axes."""
    for axes in figure.axes:
        yield from (*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label)
        if axes.get_legend():
            yield from axes.get_legend().get_texts()
    yield from figure.texts


def said(figure):
    return "\n".join(text.get_text() for text in texts(figure))


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_picture_is_a_figure_with_equal_bytes_for_equal_data(name):
    """Nothing of the user's style or of the day is in it; it shows itself in a notebook and says its workload."""
    figure = DRAWINGS[name]()
    png, svg = pictures.to_png(figure), pictures.to_svg(figure)
    assert isinstance(figure, Figure)
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and int.from_bytes(png[16:20], "big") == 900
    ElementTree.fromstring(svg)
    assert b"<dc:date>" not in svg
    with matplotlib.rc_context({"figure.facecolor": "black", "font.size": 20, "axes.grid": True, "savefig.dpi": 40}):
        again = DRAWINGS[name]()
        assert (pictures.to_png(again), pictures.to_svg(again)) == (png, svg)
        assert again._repr_png_() == png
    for part in ("tiny on (32, 64) float32", "2020-02-29", "eval, no_grad", "some processor", "openblas 0.3, 2 threads",
                 "NumPy 2.4"):
        assert part in said(figure).replace("\n", " ")


@pytest.mark.parametrize("name", DRAWINGS)
def test_nothing_is_cut_off_and_no_two_texts_overlap(name):
    figure = DRAWINGS[name]()
    figure.draw_without_rendering()
    wide, tall = figure.get_size_inches() * figure.dpi
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts(figure) if text.get_text()]
    for text, box in boxes:
        assert box.x0 > -1 and box.y0 > -1 and box.x1 < wide + 1 and box.y1 < tall + 1, text
    boxes = [(text, box) for text, box in boxes if "GB/s" not in text]  # the box of a slanted text is not its ink
    for i, (text, box) in enumerate(boxes):
        for other, there in boxes[i + 1:]:
            across = min(box.x1, there.x1) - max(box.x0, there.x0)
            up = min(box.y1, there.y1) - max(box.y0, there.y0)
            assert across <= 1 or up <= 2, (text, other)


def test_pictures_work_without_a_screen_and_leave_pyplot_alone():
    code = ("import sys\nfrom tinytorch.perf.pictures import warmup_curve, to_png\n"
            "assert 'matplotlib' not in sys.modules\n"
            "to_png(warmup_curve([2.0, 1.0]))\nprint('matplotlib.pyplot' in sys.modules)")
    env = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "MPLBACKEND")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "False"


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "tinytorch\[viz\]"') as caught:
        pictures.batch_curve(BATCHES)
    assert "\n" not in str(caught.value)


def test_the_front_is_named_and_every_model_has_its_numbers():
    text = said(DRAWINGS["front"]())
    assert "2 of 3 on the front: one, three" in text and "two  2.93 KB, 90.0%" in text
    with pytest.raises(ValueError, match="front names four; want names of the rows"):
        pictures.pareto_chart(MODELS, ["four"])


def test_the_histogram_marks_what_is_unsupported():
    """Seven samples have an interval of the median, but none of p95 and p99; the median of SPEC's five is 5.2."""
    text = said(DRAWINGS["histogram"]())
    assert "Median 5.2 ms, 95 % interval 5 to 50 ms" in text
    assert text.count("unsupported by 7 samples") == 2
    text = said(pictures.latency_histogram(stats([5.1, 5.2, 5.0, 5.3, 50.0])))
    assert "Median 5.2 ms, no interval: under 6 samples" in text and text.count("unsupported by 5 samples") == 3
    text = said(pictures.latency_histogram(stats([1 + i / 1000 for i in range(400)], samples_are="means of 9 calls")))
    assert "unsupported" not in text and "means of 9 calls" in text


@pytest.mark.parametrize("times", [[3.0], [0.0, 0.0, 0.0], [2.0] * 30, [0.0, 5.0, 1e6], [1e-6, 2e-6]])
def test_odd_times_still_make_pictures(times):
    for figure in (pictures.latency_histogram(stats(times)), pictures.warmup_curve(times)):
        assert len(pictures.to_png(figure)) > 1000
    assert "workload not given" in said(figure)


def test_the_warmup_axis_is_logarithmic_only_where_the_first_calls_tower():
    """The later half of 50, 8, 1, 1 is 1, 1."""
    figure = pictures.warmup_curve([50.0, 8.0, 1.0, 1.0])
    assert figure.axes[0].get_yscale() == "log" and "50 ms, 50 times the 1 ms" in said(figure)
    assert pictures.warmup_curve([2.0, 1.0, 1.0, 1.0]).axes[0].get_yscale() == "linear"
    assert pictures.warmup_curve([50.0, 0.0, 1.0, 1.0]).axes[0].get_yscale() == "linear"


def test_points_of_the_roofline_stand_where_they_belong():
    """layers.0: 600 FLOPs in 2 ms are 0.0003 GFLOP/s, at 12 FLOPs a byte. The model's own: 100 in 1 ms, 100/20."""
    figure = DRAWINGS["roofline"]()
    points = next(marks.get_offsets() for marks in figure.axes[0].collections if len(marks.get_offsets()) == 3)
    for at in ((12.0, 0.0003), (5.0, 0.0001), (10.0, 0.0003)):
        assert any(tuple(point) == pytest.approx(at) for point in points), at
    assert "layers.0 Linear takes 50% of the time" in said(figure)
    for roof in ("peak 100 GFLOP/s", "50 GB/s, touching 1 KB", "10 GB/s, touching 1 MB"):
        assert roof in said(figure)


def test_one_bandwidth_is_one_roof_and_layers_without_flops_are_named():
    rows = [*ROWS, row("layers.2", "Flatten", 1, 1.0, 0, 0)]
    figure = pictures.roofline_chart(MachineLimits(100.0, 10.0, 1.0), rows)
    assert said(figure).count("GB/s") == 1 and "touching" not in said(figure)
    assert "1 without FLOPs, so not on it, 20% of the time" in said(figure)
    assert "only the roofs are drawn" in said(pictures.roofline_chart(LIMITS, [row("a", "A", 0, 0.0, 0, 0)]))


def test_ribbons_show_each_layer_s_own_part():
    """Own: 1 of 4 ms, 100 of 1,000 FLOPs, 20 of 100 bytes."""
    text = said(DRAWINGS["ribbons"]())
    assert "layers.0 Linear: 50% of the time, 60% of the FLOPs, 50% of the bytes" in text
    for total in ("time\n4 ms", "FLOPs\n1 K", "bytes\n100 bytes"):
        assert total in text
    at = text.index("Model (own ops)", text.index("% of bytes"))
    assert text[at:].split("\n")[1:4] == ["25%", "10%", "20%"]


def test_layers_alike_are_one_and_the_smallest_are_other():
    """Twelve blocks of two layers: 12 x 2 ms and 12 x 1 ms; 201 different ones: eight named, 192 others with work."""
    blocks = [row("GPT", "GPT", 0, 0.0, 36_000, 1_200)]
    for i in range(12):
        blocks += [row(f"blocks.{i}", "Block", 1, 0.0, 3_000, 100), row(f"blocks.{i}.up", "Linear", 2, 2.0, 2_000, 50),
                   row(f"blocks.{i}.down", "Linear", 2, 1.0, 1_000, 50)]
    text = said(pictures.layer_ribbons(blocks))
    assert "blocks.0-11.up ×12: 67% of the time" in text and "blocks.0-11.down ×12" in text
    text = said(pictures.layer_ribbons(MANY))
    assert "other: 193 smaller" in text


def test_rows_that_are_only_counted_begin_with_parameters():
    """Own parameters: 100 - 60 - 0."""
    rows = [{**{k: v for k, v in one.items() if k != "self_ms"}, "parameters": n} for one, n in zip(ROWS, (100, 60, 0))]
    text = said(pictures.layer_ribbons(rows))
    assert "layers.0 Linear: 60% of the parameters, 60% of the FLOPs" in text and "parameters\n100" in text


def test_zeros_are_said_not_drawn():
    text = said(pictures.layer_ribbons([row("a", "A", 0, 1.0, 0, 0)]))
    assert "no FLOPs" in text and "no bytes" in text and "a: 100% of the time" in text
    assert "Nothing was measured" in said(pictures.layer_ribbons([row("a", "A", 0, 0.0, 0, 0)]))


def test_memory_marks_its_peak_and_names_the_layers():
    figure = DRAWINGS["memory"]()
    assert "At most 4 KB after an op, 2 ms into the pass, in blocks.0.down" in said(figure)
    assert {"blocks.0", "blocks.1", "up", "down"} <= {text.get_text() for text in figure.axes[0].texts}
    paths = said(pictures.memory_chart([(1.0, 10, ("GPT", "Block", "MLP")), (2.0, 20, ("GPT",))]))
    assert "At most 20 bytes after an op, 2 ms into the pass\n" in paths + "\n"
    assert "MLP" in paths and "GPT" not in paths
    for odd in ([(0.0, 0, None)], [(1.0, -5, ""), (2.0, -3, "")], [(0.0, 5, "a"), (0.0, 6, "b")]):
        assert "At most" in said(pictures.memory_chart(odd))


def test_the_batch_curve_says_what_a_larger_batch_buys():
    """200 and 985 samples a second, 5 and 65 ms: 4.92 times and 13 times."""
    figure = pictures.batch_curve(BATCHES[::-1])
    assert "From batch 1 to 64: throughput ×4.92, latency ×13 (5 ms to 65 ms)" in said(figure)
    assert [axes.get_xscale() for axes in figure.axes] == ["log"] * 3
    assert "Batch 1: 5 ms, 200 samples a second" in said(pictures.batch_curve(BATCHES[:1]))
    still = [{"batch": n, "latency_ms": 0.0, "throughput": 0.0, "peak_memory_mb": 0.0} for n in (1, 64)]
    assert len(pictures.to_png(pictures.batch_curve(still))) > 1000


def test_names_with_anything_in_them_are_drawn():
    """Markup, formulas, letters that the font or UTF-8 lacks, a line break, 200 letters."""
    rows = [row(NASTY, NASTY, 0, 1.0, 5, 5), row(f"{NASTY}.0", NASTY, 1, 1.0, 2, 2), row("", "", 1, 1.0, 1, 1)]
    for figure in (pictures.layer_ribbons(rows, {**WORKLOAD, "model": NASTY}),
                   pictures.roofline_chart(LIMITS, rows, NASTY),
                   pictures.memory_chart([(1.0, 1, f"a.{NASTY}"), (2.0, 3, (NASTY, NASTY))], NASTY)):
        ElementTree.fromstring(pictures.to_svg(figure))
        figure.draw_without_rendering()
        for text in texts(figure):
            assert Text.get_window_extent(text).x1 < 905, text.get_text()


HISTOGRAM, WARMUP, ROOFLINE = pictures.latency_histogram, pictures.warmup_curve, pictures.roofline_chart


@pytest.mark.parametrize(("draw", "data", "says"), [
    (HISTOGRAM, ({},), "times_ms"), (HISTOGRAM, ([1.0],), "latency_statistics"),
    (HISTOGRAM, ({"times_ms": []},), "empty"), (HISTOGRAM, ({"times_ms": [1.0, math.nan]},), r"times_ms\[1\] is nan"),
    (WARMUP, ([],), "empty"), (WARMUP, ([1.0, -2.0],), "at least 0"), (WARMUP, ("12",), "list of numbers"),
    (WARMUP, ([1e308, 1.0],), "1e-30 to 1e30"), (WARMUP, ([5e-324],), "1e-30 to 1e30"),
    (WARMUP, ([10**400],), "1329 bits"),  # 400 / log10(2) = 1328.8
    (ROOFLINE, ({**LIMITS, "peak_gflops": 1e308}, ROWS), "1e-30 to 1e30"), (WARMUP, ([1 + 2j],), "finite"),
    (WARMUP, ([True],), "True"), (WARMUP, ([math.inf],), "finite"), (WARMUP, (3.0,), "list of numbers"),
    (ROOFLINE, (None, ROWS), "machine_limits"), (ROOFLINE, ({**LIMITS, "peak_gflops": 0}, ROWS), "above 0"),
    (ROOFLINE, (LIMITS, []), "no rows"), (ROOFLINE, ({**LIMITS, "bandwidth_gbs": {}}, ROWS), "empty"),
    (ROOFLINE, (LIMITS, [{"name": "a"}]), "depth"),
    (ROOFLINE, (LIMITS, [*ROWS, row("x", "X", 1, math.nan, 1, 1)]), "nan"),
    (pictures.layer_ribbons, ([],), "no rows"), (pictures.layer_ribbons, (["a"],), "depth"),
    (pictures.layer_ribbons, ([{**ROWS[0], "flops": None}],), "None"),
    (pictures.memory_chart, ([],), "memory_timeline"), (pictures.memory_chart, ([(1.0, 2)],), "memory_timeline"),
    (pictures.memory_chart, (None,), "memory_timeline"),
    (pictures.memory_chart, ([(2.0, 1, ""), (1.0, 1, "")],), "back"),
    (pictures.memory_chart, ([(1.0, math.nan, "")],), "nan"),
    (pictures.batch_curve, ([],), "no rows"), (pictures.batch_curve, ([{"batch": 0}],), "at least 1"),
    (pictures.batch_curve, ([{"batch": 1, "latency_ms": 1.0}],), "throughput")])
def test_what_is_no_picture_gets_one_sentence(draw, data, says):
    with pytest.raises(ValueError, match=says) as caught:
        draw(*data)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200

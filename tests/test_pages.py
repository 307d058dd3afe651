"""The pages that tell the two cases: their figures come from the kept records, by the scripts' own functions."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("worked-case.md", "two-questions.md")


@pytest.fixture(scope="module")
def pages():
    """Import benchmarks/pages.py, which imports the two scripts beside it, and leave the path as it was."""
    before, known = sys.path[:], set(sys.modules)
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        spec = importlib.util.spec_from_file_location("pages", ROOT / "benchmarks" / "pages.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path[:] = before
        for name in {"worked_case", "two_questions"} - known:
            sys.modules.pop(name, None)


RESULT = {
    "workload": {"rows": 8, "dim": 4, "dtype": "float32", "seed": 88, "rounds": 6, "load": 0.25, "tensor_bytes": 128,
                 "cache_bytes": None, "date": "2026-01-01", "cache_may_help": True},
    "machine": {"cpu": "a CPU", "python": "3.12", "numpy": "2.3", "blas": "a BLAS", "blas_threads": 1, "linear_ms": 4.0,
                "peak_gflops": 100.0, "gemm_gflops": 90.0, "bytes_per_ns": 10.0, "ns_per_tanh": 0.5,
                "ns_per_fresh_byte": 0.0},
    "outputs": {"elements": 32, "on_bounds": {"-6.0": 0, "3.0": 2}, "worst": 1e-7},
    "spellings": {name: {"ops": ops, "floats_per_element": floats, "page_faults": None, "bytes_ms": floats,
                         "tanh_ms": 1.0, "faults_ms": ops, "explained_ms": floats + 1 + ops, "in_cache_ms": 2.0,
                         "measured_ms": 2 * (floats + 1 + ops), "unexplained": 0.5, "left_after_cache": 0.25,
                         "whole_ms": floats}
                  for name, ops, floats in (("Primitive", 13, 31.0), ("PerStep", 5, 11.0), ("Fused", 1, 3.0))},
    "ratios": [{"slow": "Primitive", "fast": "Fused", "verdict": "faster", "measured": 5.0, "interval": (4.0, 6.0),
                "from_bytes": 10.0, "from_explained": 7.5, "from_all": 6.0}],
}


def test_figures_are_the_numbers_of_the_result(pages):
    block = pages.case_figures(RESULT)
    assert "| Primitive | 13 | 31.0 | unknown | 31.0 | 1.0 | 13.0 | 45.0 | 90.0 | 50% | 2.0 | 25% |" in block
    # 10 / 5 - 1 = +100 %, 7.5 / 5 - 1 = +50 %, 6 / 5 - 1 = +20 %; marked, since the cache's size is unknown
    assert "| Fused / Primitive | 10.00 | +100% | 7.50 | +50% | 6.00 | +20% | 5.00* | 4.00 to 6.00 |" in block
    assert "the last-level cache unknown; ratios are marked *" in block
    assert "Fused is then 10.33 times as fast as Primitive.\n" in block  # 31 / 3


def test_a_page_is_replaced_between_its_marks_only(pages, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{pages.BEGIN}old\n{pages.END}after\n", encoding="utf-8")
    pages.put(page, "new\n")
    pages.put(page, "newer\n")
    assert page.read_text(encoding="utf-8") == f"before\n{pages.BEGIN}newer\n{pages.END}after\n"
    page.write_text("no marks\n", encoding="utf-8")
    with pytest.raises(ValueError, match="page.md: want the marks"):
        pages.put(page, "new\n")
    assert page.read_text(encoding="utf-8") == "no marks\n"


def test_pictures(pages):
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot as plt

    for draw in (pages.time_picture, pages.ratio_picture):
        figure = draw(RESULT)
        (axes,) = figure.axes
        assert axes.get_title() and axes.get_legend()  # from these a page's alternative text is made
        plt.close(figure)


def test_a_record_is_kept_and_read(pages, tmp_path):
    file = pages.keep("case", {**RESULT, "traces": {"Fused": "/somewhere/fused.json"}}, tmp_path / "new")
    assert "somewhere" not in file.read_text(encoding="utf-8")
    kept = pages.record("case", tmp_path / "new")
    assert kept == json.loads(json.dumps(RESULT))
    assert pages.case_figures(kept) == pages.case_figures(RESULT)
    with pytest.raises(FileNotFoundError, match="run: python benchmarks/pages.py"):
        pages.record("other", tmp_path)


def test_nothing_is_kept_of_a_case_that_fails(pages, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(pages, "DATA", tmp_path)
    monkeypatch.setattr(pages.worked_case, "run", lambda *given: {**RESULT, "failures": ["the outputs differ"]})
    monkeypatch.setattr(pages.two_questions, "fresh", pages.two_questions.first)
    monkeypatch.setattr(pages.two_questions, "NEW", 2)
    assert pages.write_cases() == 1
    assert "FAIL: the outputs differ" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_worked_case_has_a_record(pages):
    """What does not depend on the machine must be what a run gives; what does must be there."""
    kept = pages.record("worked-case")
    assert kept["failures"] == []
    block = pages.case_figures(kept)
    rows = [line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("| ")]
    assert {row[0]: row[1:3] for row in rows if row[0] in RESULT["spellings"]} == {
        "Primitive": ["13", "31.0"], "PerStep": ["5", "11.0"], "Fused": ["1", "3.0"]}
    assert re.search(r"8,192 x 1,024 float32, seed 88", block)
    assert re.search(r"· \d{4}-\d\d-\d\d$", block, re.MULTILINE)


def test_the_two_questions_have_a_record(pages):
    told = pages.two_questions.report(pages.record("two-questions"))
    for words in ("How long is a warm forward pass?", "How long is a first complete request?", "left out:",
                  f"{pages.two_questions.NEW} new ones", "load before the run"):
        assert words in told


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_names_exists(name):
    page = ROOT / "docs" / name
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"python (benchmarks/\w+\.py)([^\n`]*)", text)
    assert commands
    for script, words in commands:
        assert (ROOT / script).is_file()
        options = re.findall(r"--\w+", words)
        if options:
            told = subprocess.run([sys.executable, str(ROOT / script), "--help"], capture_output=True, text=True,
                                  check=True)
            assert [option for option in options if option not in told.stdout] == []

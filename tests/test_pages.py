"""The pages that tell the two cases: their figures are the scripts', their commands run, their pictures exist."""

import importlib.util
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


def figures(pages, name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8").split(pages.BEGIN)[1].split(pages.END)[0]


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


def test_pictures(pages, tmp_path):
    pytest.importorskip("matplotlib")
    pages.draw(RESULT, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["worked-case-ratios.svg", "worked-case-time.svg"]
    once = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    pages.draw(RESULT, tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == once  # the same numbers, the same picture


def test_the_worked_case_shows_a_run(pages):
    """What does not depend on the machine must be what a run gives; what does must be there."""
    block = figures(pages, "worked-case.md")
    rows = [line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("| ")]
    header, ratio_header = (pages.worked_case.spelling_rows(RESULT)[0], pages.worked_case.ratio_rows(RESULT)[0])
    assert [row for row in rows if row in (header, ratio_header)] == [header, ratio_header]
    assert {row[0]: row[1:3] for row in rows if row[0] in RESULT["spellings"]} == {
        "Primitive": ["13", "31.0"], "PerStep": ["5", "11.0"], "Fused": ["1", "3.0"]}
    assert re.search(r"8,192 x 1,024 float32, seed 88", block)
    assert re.search(r"· \d{4}-\d\d-\d\d$", block, re.MULTILINE)


def test_the_two_questions_show_a_run(pages):
    block = figures(pages, "two-questions.md")
    for words in ("How long is a warm forward pass?", "How long is a first complete request?", "left out:",
                  f"{pages.two_questions.NEW} new ones"):
        assert words in block


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_names_exists(name):
    page = ROOT / "docs" / name
    text = page.read_text(encoding="utf-8")
    for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text):
        assert (page.parent / picture).read_text(encoding="utf-8").startswith("<?xml")
    commands = re.findall(r"python (benchmarks/\w+\.py)([^\n`]*)", text)
    assert commands
    for script, words in commands:
        assert (ROOT / script).is_file()
        options = re.findall(r"--\w+", words)
        if options:
            told = subprocess.run([sys.executable, str(ROOT / script), "--help"], capture_output=True, text=True,
                                  check=True)
            assert [option for option in options if option not in told.stdout] == []

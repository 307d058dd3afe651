"""Every command that a page of the site shows in a ``console`` fence works, run in order in a copy of the checkout.

A line that nobody knows how to run or to check is a fault. CONTRIBUTING.md, whose commands want its edits first, is
followed by test_contributing.py.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tito.notebooks.read import dumps
from tito.notebooks.release import solution_notebook
from tito.project import find_module, find_root

ROOT = find_root(Path(__file__))
FENCE = re.compile(r"^( *)(`{3,})console\n(.*?)^\1\2", re.MULTILINE | re.DOTALL)
AWAY = shutil.ignore_patterns(".*", "build", "__pycache__", "*.egg-info", "_backup", "results", "chapters")
GRADED = ("tito test", "tito module complete", "tito doctor")  # 1: something is not written, not right, not there


def commands(text):
    """Return the commands of a page, each in one line."""
    bodies = (re.sub(rf"^{each[1]}", "", each[3], flags=re.MULTILINE) for each in FENCE.finditer(text))
    return [line.removeprefix("$ ") for body in bodies for line in re.sub(r"\\\n\s*", "", body).splitlines() if line]


PAGES = {page.relative_to(ROOT).as_posix(): commands(page.read_text(encoding="utf-8"))
         for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "chapters"}


class Desk:
    """A copy of the checkout, made for the first command that wants one, in which a page's commands run."""

    def __init__(self, folder, cluster=None):
        self.root, self.cluster, self.made = folder / "TinyTorch", cluster, False
        self.here = self.root
        self.environment = {**os.environ, "PYTHONPATH": str(self.root), "TINYTORCH_CACHE": str(folder / "cache"),
                            "NO_COLOR": "1", "COLUMNS": "80", "IPYTHONDIR": str(folder / "ipython")}

    def make(self):
        """Copy the checkout, and lay out what pages name and readers have: a class's work, a model of one's own."""
        if self.made:
            return
        self.made = True
        shutil.copytree(ROOT, self.root, ignore=AWAY)
        done = dumps(solution_notebook(find_module(ROOT, "layers")))
        handed_in = self.root / "submissions" / "ana" / "layers_dev.ipynb"
        handed_in.parent.mkdir(parents=True, exist_ok=True)
        handed_in.write_text(done, encoding="utf-8")

    def model(self, words):
        """Write the model of one's own that a command names as module:factory, taking the input that it names."""
        for module, factory in (word.split(":") for word in words if re.fullmatch(r"[a-z_]\w*:[A-Za-z_]\w*", word)):
            shape = next((word for before, word in zip(words, words[1:]) if before == "--input-shape"), "1,8")
            if not (self.here / f"{module}.py").exists():
                (self.here / f"{module}.py").write_text(
                    "from tinytorch.core.layers import Linear\n\n\n"
                    f"def {factory}():\n    return Linear({shape.split(',')[-1]}, 2)\n", encoding="utf-8")

    def call(self, words, fine=(0,), out=None):
        """Run a program; return what is wrong."""
        done = subprocess.run(words, cwd=self.here, env=self.environment, capture_output=True, text=True, check=False,
                              encoding="utf-8", stdin=subprocess.DEVNULL, timeout=300)
        if out:
            (self.here / out).write_text(done.stdout, encoding="utf-8")
        said = done.stdout[-2000:] + done.stderr[-2000:]
        return "" if done.returncode in fine else f"status {done.returncode}\n{said}"

    def script(self, path, options):
        """Return what is wrong with a script that takes too long to be run, and its options."""
        file = self.here / path
        if not file.is_file():
            return f"no file {path}"
        source = file.read_text(encoding="utf-8")
        known = source
        if "argparse" in source:
            done = subprocess.run([sys.executable, file, "--help"], cwd=self.here, env=self.environment, text=True,
                                  capture_output=True, check=False, stdin=subprocess.DEVNULL)
            known = done.stdout
            if done.returncode:
                return done.stderr
        compile(source, path, "exec")
        named = [word.split("=")[0] for word in options if word.startswith("-")]
        unknown = [word for word in named if not re.search(rf"(?<![\w-]){word}(?![\w-])", known)]
        return f"{path} does not take {unknown}" if unknown else ""

    def run(self, line):
        """Run or check one command; return what is wrong with it, nothing where it works."""
        self.make()
        words = shlex.split(line, comments=True)
        given = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        words = words[len(given):] if list(given) == [word.split("=")[0] for word in words[:len(given)]] else words
        out = words.pop() if words[-2:-1] == [">"] else None
        words = words[:-1] if out else words
        self.model(words)
        python = [sys.executable, "-m"]
        if words[:1] == ["python"]:
            words = words[2:] if words[1:2] == ["-m"] else words
        match words:
            case ["tito", *more]:
                if any(word.startswith("tcp://") for word in more):
                    if self.cluster is None:
                        return ""
                    more = [self.cluster() if word.startswith("tcp://") else word for word in more]
                return self.call([*python, "tito", *more], (0, 1) if line.startswith(GRADED) else (0,), out)
            case ["make", *targets]:
                return "" if shutil.which("make") is None else self.call(["make", "-n", *targets])
            case ["pip", "install", "-e", what] | ["pip", "install", what]:
                named = re.fullmatch(r"\.(?:\[([\w,]+)\])?", what)
                project = (self.root / "pyproject.toml").read_text(encoding="utf-8")
                extras = re.findall(r"\w+", named[1] or "") if named else [what]
                missing = [extra for extra in extras if not re.search(rf"^{extra} = \[", project, re.MULTILINE)]
                return f"no such extra: {missing}" if missing else ""
            case ["git", "clone", _]:
                return ""
            case ["cd", "TinyTorch" | "tinytorch"] if self.here == self.root:
                return ""  # from where it was cloned
            case ["cd", folder]:
                self.here = (self.here / folder).resolve()
                return "" if self.here.is_dir() and self.here.is_relative_to(self.root) else f"no folder {folder}"
            case ["venv", _]:
                return self.call([*python, "venv", "--help"])
            case ["source" | ".", ".venv/bin/activate"] | [r".venv\Scripts\activate"]:
                return ""  # what `python -m venv .venv`, or make, has made
            case ["source" | ".", path]:
                return "" if (self.here / path).is_file() else f"no file {path}"
            case ["jupyter", "lab" | "notebook", *paths]:
                missing = [path for path in paths if not (self.here / path).exists()]
                return f"no file {missing}" if missing else ""
            case ["pytest", *more]:
                more = [word for word in more if word not in ("-n", "auto")]
                return self.call([*python, "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *more])
            case ["ruff", "check", *paths]:
                missing = [path for path in paths if not (self.here / path).exists()]
                return f"no file {missing}" if missing else ""
            case ["python"]:
                return self.call([sys.executable])
            case ["ipython"]:
                return self.call([*python, "IPython", "--no-banner"])
            case ["python", path, *options] if path.endswith(".py"):
                return self.script(path, options)
            case _:
                return "nobody knows how to run or to check this"


@pytest.fixture(scope="module")
def cluster():
    """Start a small Dask cluster for pages that name one, when the first does; None where Dask is not installed."""
    try:
        from distributed import LocalCluster
    except ImportError:
        yield None
        return
    started = []

    def address():
        if not started:
            started.append(LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None))
        return started[0].scheduler_address

    yield address
    for each in started:
        each.close()


@pytest.mark.parametrize("page", [page for page, lines in PAGES.items() if lines])
def test_commands_of_a_page(page, tmp_path, cluster):
    desk = Desk(tmp_path, cluster)
    for line in PAGES[page]:
        wrong = desk.run(line)
        assert not wrong, f"{page}: $ {line}\n{wrong}"


# planted: what works passes, what does not is seen

WORK = """
git clone https://example.org/TinyTorch.git
cd TinyTorch
python -m venv .venv
source .venv/bin/activate
pip install -e ".[notebook,viz]"
source scripts/activate-tinytorch
make profile
python
tito module list
tito profile mine:net --input-shape 4,8 --count-only
tito profile digits_mlp --count-only --json > profile.json
python -m tito hint tensor
cd modules
jupyter lab 01_tensor/tensor_dev.ipynb
cd ..
python benchmarks/worked_case.py --rows 1024 --dim 256 --rounds 6
python benchmarks/profiler.py --check
pytest tests/02_activations -k softmax
OMP_NUM_THREADS=1 tito profile digits_mlp --count-only   # on one thread
""".strip().splitlines()


def test_planted_commands(tmp_path):
    desk = Desk(tmp_path)
    for line in WORK:
        assert not desk.run(line), line
    assert '"model"' in (desk.root / "profile.json").read_text(encoding="utf-8")
    for line in ("tito profile digits_nlp", "make nothing", 'pip install -e ".[more]"', "pip install numpy", "cd none",
                 "source scripts/none", "jupyter lab none.ipynb", "python none.py", "curl https://example.org", "cd /",
                 "python benchmarks/worked_case.py --row 3", "python benchmarks/profiler.py --fast",
                 "pytest tests/none", "python -m http.server", "ruff check none"):
        desk.here = desk.root
        assert desk.run(line), line


def test_planted_fences_are_read():
    text = ("```console\n$ a\n$ b \\\n    c\n```\n```text\n$ no\n```\n- x\n\n  ```console\n  $ d\n  ```\n"
            "````{note}\n```console\n$ e\n```\n````\n")
    assert commands(text) == ["a", "b c", "d", "e"]

"""How `tito` behaves whatever it is asked and wherever it writes."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from tito import commands

HERE = Path(__file__).resolve().parents[2]
NAMES = sorted(file.name for file in pkgutil.iter_modules(commands.__path__))


def test_help_loads_nothing_heavy():
    """No NumPy, no Jupyter, no rich: what makes it quick."""
    code = ("import sys\nfrom tito.cli import main\n"
            "try: main(['--help'])\nexcept SystemExit as end: status = end.code\n"
            "print(status, [name for name in ('numpy', 'nbformat', 'jupytext', 'nbdev', 'rich', 'tinytorch') "
            "if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(HERE)})
    assert done.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help(tito, name):
    """Its first line stands in the list of commands."""
    assert name in tito("--help").stdout
    done = tito(name, "--help", COLUMNS="60")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 60


@pytest.mark.parametrize(("words", "close"), [
    (["tset"], "test"), (["module", "lst"], "list"), (["test", "alhpa"], "alpha"), (["export", "bata"], "beta"),
    (["module", "status", "bet"], "beta"), (["test", "alpha", "--jsn"], "--json")])
def test_unknown_names_get_one_sentence_with_close_ones(tito, words, close):
    """Exit status 2, on stderr, and one JSON object where that was asked for."""
    done = tito(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1
    assert close in done.stderr
    done = tito(*words, "--json")
    assert done.returncode == 2
    assert close in json.loads(done.stdout)["error"]


LOOP = [["module", "start", "alpha"], ["module", "resume", "alpha"], ["module", "status"], ["module", "list"],
        ["module", "sync", "alpha"], ["module", "complete", "alpha"], ["module", "reset", "alpha"],
        ["module", "reset", "alpha", "--package"], ["hint", "alpha"], ["doctor"], ["export", "alpha"]]


@pytest.mark.parametrize("words", [["test", "alpha"], ["module", "test", "alpha"], ["build", "--check"],
                                   ["test", "nothing"], ["module", "resume", "nothing"], *LOOP])
def test_json_is_exactly_one_object(tito, words):
    """On stdout, whatever the outcome."""
    done = tito(*words, "--json")
    assert isinstance(json.loads(done.stdout), dict)
    assert done.returncode in (0, 1, 2)


@pytest.mark.parametrize("columns", ["60", "80"])
def test_narrow_and_without_colour(alpha, tito, write_in, columns):
    """No line is wider than the screen, no escape codes on a pipe."""
    write_in(alpha.notebook, double="return x * x", half="return missing")
    for words in (["test", "alpha"], ["module", "list"], ["module", "status"], ["module", "start", "beta"]):
        done = tito(*words, COLUMNS=columns)
        assert "\x1b" not in done.stdout + done.stderr
        assert done.stderr == ""
        assert max(map(len, done.stdout.splitlines())) <= int(columns)


@pytest.mark.parametrize("words", LOOP, ids=" ".join)
def test_the_loop_anywhere(alpha, root, write_in, words):
    """Closed stdin, 60 columns, cp1252, no colour, no home that can be written: text that fits, the same status."""
    write_in(alpha.notebook, double="return '✓ ∂ Ω → 2'", half="return x / 2")
    alpha.package.write_text("mine = 1\n" if "--package" in words else alpha.package.read_text(encoding="utf-8"))
    done = subprocess.run([sys.executable, "-m", "tito", *words], cwd=root, capture_output=True, check=False,
                          stdin=subprocess.DEVNULL, env={
                              **os.environ, "PYTHONPATH": str(HERE), "PYTHONIOENCODING": "cp1252", "COLUMNS": "60",
                              "NO_COLOR": "1", "HOME": "/dev/null/nowhere", "TMPDIR": str(root.parent)})
    text = (done.stdout + done.stderr).decode("cp1252")
    assert "Traceback" not in text and "\x1b" not in text
    assert done.returncode == (1 if words[0] == "doctor" or "complete" in words else 0), text
    assert done.stderr == b""
    commands = ("Open it:", "Then:", "The next step:", "  tito ")  # what is pasted is not broken
    assert [line for line in done.stdout.decode("cp1252").splitlines()
            if len(line) > 60 and not line.startswith(commands)] == []
    assert done.stdout.strip()


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_every_encoding_can_show_a_verdict(alpha, root, write_in, encoding):
    """What the encoding lacks gets its ASCII form."""
    write_in(alpha.notebook, double="return '✓ ∂ Ω → 2'", half="return x / 2")
    done = subprocess.run([sys.executable, "-m", "tito", "test", "alpha", "--all"], cwd=root, capture_output=True,
                          check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PYTHONPATH": str(HERE), "PYTHONIOENCODING": encoding})
    text = done.stdout.decode(encoding)
    assert done.returncode == 1
    assert done.stderr == b""
    assert "half(5): 2.5" in text
    assert ("'✓ ∂ Ω → 2'" if encoding == "utf-8" else "'ok ? ? -> 2'") in text


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell closes the streams")
@pytest.mark.parametrize("closing", ["<&-", "<&- 2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams(alpha, root, write_in, closing):
    """The exit status is the same with nothing to read from or write to."""
    write_in(alpha.notebook, double="return 2 * x", half="return x / 2")
    done = subprocess.run(["sh", "-c", f'"$0" -m tito test alpha {closing}', sys.executable], cwd=root, check=False,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(HERE)})
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr


def test_from_any_folder_of_the_checkout_and_from_none(root, tito, tmp_path):
    """Inside: the same answer; outside: one sentence."""
    folders = (root, root / "src", root / "tests" / "01_alpha")
    answers = {tito("module", "list", cwd=folder).stdout for folder in folders}
    assert len(answers) == 1
    done = tito("module", "list", cwd=tmp_path)
    assert done.returncode == 2
    assert "checkout" in done.stderr


def test_a_folder_that_cannot_be_written_is_named(monkeypatch, capsys):
    """By the file that was to be written, not by the temporary name beside it; with what to do."""
    from tito import cli

    def refuse(*words, **options):
        raise OSError(30, "Read-only file system", "/ro/core/.tensor.py.543ihnzn.tito-tmp")

    monkeypatch.setattr("click.Group.main", refuse)
    with pytest.raises(SystemExit) as left:
        cli.main(["module", "list"])
    assert left.value.code == 2
    assert capsys.readouterr().err == ("tito: /ro/core/tensor.py cannot be written (Read-only file system), so it "
                                       "stays as it is; `tito doctor` says what to do.\n")


@pytest.mark.parametrize(("error", "said"), [
    (ModuleNotFoundError("No module named 'jupytext'", name="jupytext"), "jupytext is not installed"),
    (PermissionError(13, "Permission denied", "notes.txt"), "notes.txt: Permission denied"),
    (ZeroDivisionError("of ours"), "this should not happen: ZeroDivisionError: of ours")])
def test_what_cannot_run_is_status_2(monkeypatch, capsys, error, said):
    """A failure of `tito` itself is never taken for a failed check, and JSON stays JSON."""
    from tito import project
    from tito.cli import main

    monkeypatch.setattr(project, "find_root", lambda: (_ for _ in ()).throw(error))
    with pytest.raises(SystemExit) as end:
        main(["module", "list", "--json"])
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert said in json.loads(out)["error"]
    assert said in err.splitlines()[-1]


def test_no_words_give_help(tito):
    """`tito` and `tito module` say what they can do, a learner's loop first, on one screen."""
    lines = tito(COLUMNS="80").stdout.splitlines()
    assert len(lines) <= 24
    sections = [line for line in lines if line.endswith(":") and not line.startswith((" ", "Options"))]
    assert sections[0] == "Your loop:" and lines[lines.index("Your loop:") + 1].split()[0] == "module"
    assert all(f"  {name} " in "\n".join(lines) for name in NAMES)
    said = tito("module").stdout
    places = [said.index(f"\n  {name} ") for name in ("start", "resume", "test", "complete", "reset", "sync", "list")]
    assert places == sorted(places)


@pytest.mark.skipif(os.name == "nt", reason="for bash and zsh")
def test_activate_says_what_is_missing(tmp_path):
    """From any folder, in a path with a space; with an environment it activates it."""
    scripts = tmp_path / "a checkout" / "scripts"
    scripts.mkdir(parents=True)
    script = scripts / "activate-tinytorch"
    script.write_bytes((HERE / "scripts" / "activate-tinytorch").read_bytes())

    def source() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", "-c", f"source '{script}'; echo \"$? $ACTIVATED\""], cwd="/", text=True,
                              capture_output=True, check=False)

    assert source().stdout == "2 \n"
    assert "make" in source().stderr
    activate = tmp_path / "a checkout" / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text("ACTIVATED=yes\n")
    assert source().stdout == "0 yes\n"


def on_a_terminal(root: Path, *words: str, **more: str) -> str:
    """Run `tito` on a terminal 80 columns wide, and return what it wrote on stdout and stderr."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONIOENCODING": "utf-8", "TERM": "xterm-256color",
                   "COLUMNS": "80", **more}
    environment = {name: value for name, value in environment.items() if value}
    process = subprocess.Popen([sys.executable, "-m", "tito", *words], cwd=root, env=environment,
                               stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while True:
        try:
            came = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not came:
            break
        said += came
    os.close(ours)
    process.wait(timeout=60)
    return said.decode("utf-8")


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("words", [["test", "alpha"], ["build"], ["module", "list"]])
def test_no_color_means_no_escape_sequences(root, words):
    """Not even bold, or a moving cursor; without it the spinner turns (the comparison shows that one is looked for)."""
    assert "\x1b" not in on_a_terminal(root, *words, NO_COLOR="1", FORCE_COLOR="")
    if words != ["module", "list"]:
        assert "\x1b" in on_a_terminal(root, *words, NO_COLOR="", FORCE_COLOR="")


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_no_color_holds_for_the_profile_too(root, tmp_path):
    """Its table's headings are bold otherwise, its stages bars that move."""
    words = ["profile", "--count-only"]
    plain = on_a_terminal(HERE, *words, NO_COLOR="1", FORCE_COLOR="", TINYTORCH_CACHE=str(tmp_path))
    assert "\x1b" not in plain
    assert "counting on shapes ..." in plain
    assert "\x1b[1m" in on_a_terminal(HERE, *words, NO_COLOR="", FORCE_COLOR="", TINYTORCH_CACHE=str(tmp_path))


def test_no_color_wins_over_force_color(tito):
    """On a pipe."""
    for words in (["module", "list"], ["test", "alpha"]):
        assert "\x1b" not in tito(*words, NO_COLOR="1", FORCE_COLOR="1").stdout


def test_no_line_of_a_pipe_ends_in_spaces(alpha, tito, write_in):
    """Tables fill their columns on the screen only; what stands inside a line keeps its place."""
    write_in(alpha.notebook, double="return x * x", half="return missing")
    for words in (["module", "list"], ["module", "status"], ["test", "alpha", "--all"]):
        lines = tito(*words).stdout.splitlines()
        assert [line for line in lines if line != line.rstrip()] == []
    lines = tito("module", "list").stdout.splitlines()
    assert lines[0].index("points") + len("points") == lines[1].index("100") + len("100")

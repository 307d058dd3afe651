"""A forward pass and a first request: what each timed region includes, on a handed clock."""

import importlib.util
import json
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "two_questions.py"


def load():
    """Import the script, which is no part of the package, from its file."""
    spec = importlib.util.spec_from_file_location("two_questions", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ask = load()


class Tokenizer:
    """Takes 5 ns to encode, 3 to decode."""

    def __init__(self, clock):
        self.clock = clock

    def encode(self, text):
        self.clock.now += 5
        return [0] * len(text)

    def decode(self, ids):
        self.clock.now += 3
        return "x" * len(ids)


class Model:
    """Takes 10 ns a token; always says that token 1 comes next."""

    vocab_size, max_seq_len, training = 2, 100, False

    def __init__(self, clock):
        self.clock = clock

    def __call__(self, tokens):
        from tinytorch.core.tensor import Tensor

        self.clock.now += 10 * tokens.shape[-1]
        return Tensor([[0.0, 1.0]] * tokens.shape[-1])


class Clock:
    """Stands still but where it is told to move."""

    now = 0

    def __call__(self):
        return self.now


@pytest.fixture
def server():
    clock = Clock()
    return ask.Server(Tokenizer(clock), Model(clock), 0, 0)


def test_a_request_is_its_stages(server):
    """Prompt of 4, three new tokens: passes over 4, 5 and 6 tokens take 40 + 50 + 60 ns."""
    found = ask.request(server, "abcd", 3, server.model.clock)
    assert found == {"text": "x" * 7, "tokenize": 5, "forward": 150, "choose": 0, "decode": 3, "request": 158,
                     "first_pass": 40, "last_pass": 60}


def test_what_is_between_the_passes_is_the_choice_of_tokens(server):
    """A clock that moves by 1 at every read: tokenizing, each pass and decoding hold one step each."""
    steps = count()
    found = ask.request(server, "ab", 2, lambda: next(steps))
    # reads: start 0, tokenized 1, pass 2-3, pass 4-5, generated 6, end 7
    assert {name: found[name] for name in ("tokenize", "forward", "choose", "decode", "request")} == {
        "tokenize": 1, "forward": 2, "choose": 3, "decode": 1, "request": 7}


def test_a_forward_pass_leaves_tokenizing_out(server):
    assert ask.forward(server, "abc", server.model.clock) == 30
    assert server.model.clock.now == 35  # the 5 ns of the tokenizer came before the first read


def test_building_is_timed_in_two_parts():
    steps = count(0, 7)
    server = ask.build(lambda: next(steps))
    assert (server.import_ns, server.build_ns) == (7, 7)
    assert server.tokenizer.vocab_size == server.model.vocab_size == len(set(ask.TEXT))


def test_answers(monkeypatch):
    """Each side by the clock that moves one step a read; the text of the fresh process must be the one here."""
    steps, first = count(), ask.first("to be", 4)
    found = ask.answers("to be", 4, 3, first, lambda: next(steps))
    assert found["same_text"]
    assert first["text"].startswith("to be")
    assert len(first["text"]) == 5 + 4
    assert found["workload"]["prompt_tokens"] == 5
    assert found["forward"] == 1
    # start, tokenized, 4 passes of 2 reads, generated, end: 12 reads, 11 steps, 4 of them in passes
    assert (found["warm"]["request"], found["warm"]["forward"], found["warm"]["choose"]) == (11, 4, 5)
    assert not ask.answers("to be", 4, 1, {**first, "text": "another"})["same_text"]


def test_the_middle_of_several_requests():
    """Medians stage by stage; requests that gave different texts have none in common."""
    three = [{"text": "a", "request": ns, "forward": 10 - ns} for ns in (5, 1, 2)]
    assert ask.middle(three) == {"text": "a", "request": 2, "forward": 8}
    assert ask.middle([*three, {**three[0], "text": "b"}])["text"] is None


def test_the_request_is_what_generate_gives():
    server = ask.build()
    ids = server.tokenizer.encode("to be")
    expected = server.tokenizer.decode(server.model.generate(ids, 6, temperature=0))
    assert ask.request(server, "to be", 6)["text"] == expected


def test_the_whole_script_in_processes_of_their_own():
    done = subprocess.run([sys.executable, str(SCRIPT), "--prompt", "to be", "--new", "3", "--repeats", "2", "--json"],
                          capture_output=True, text=True, check=False, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    cold = found["first"]
    assert found["same_text"]
    assert 0 < cold["tokenize"] < cold["forward"] < cold["request"]
    assert cold["import"] > cold["build"] > 0
    assert 0 < cold["first_pass"] < cold["forward"]


def test_report_names_the_boundaries(capsys, monkeypatch):
    monkeypatch.setattr(ask, "fresh", ask.first)
    assert ask.main(["--prompt", "to be", "--new", "3", "--repeats", "1"]) == 0
    said = capsys.readouterr().out
    assert "prompt of 5 tokens, 3 new ones" in said
    for words in ("from:", "left out:", "over 7 tokens"):
        assert words in said


def test_another_text_fails(capsys, monkeypatch):
    monkeypatch.setattr(ask, "fresh", lambda prompt, new: {**ask.first(prompt, new), "text": "another"})
    assert ask.main(["--prompt", "to be", "--new", "2", "--repeats", "1"]) == 1
    assert "FAIL: the fresh process gave another text" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--new", "0"], ["--new", "2.5"], ["--repeats", "-1"], ["--prompt", "Ω"],
                                   ["--prompt", ""], ["--word", "1"]])
def test_what_cannot_run(words, capsys):
    try:
        status = ask.main(words)
    except SystemExit as left:
        status = left.code
    assert status == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("could not run: ")
    assert told.err.count("\n") == 1

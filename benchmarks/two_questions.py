"""Two questions, two answers: how long is a warm forward pass, and how long is a first complete request?

Run: ``python benchmarks/two_questions.py``. A tiny GPT gets a prompt. Each timed region is named with what it includes
and what it leaves out. The first request is measured inside fresh processes, since a process is fresh only once.
Exit status 0; 1: a request gave another text in the fresh process than here; 2: could not run, with one sentence.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from time import perf_counter_ns
from typing import Any, NamedTuple

TEXT = "to be, or not to be: that is the question. whether 'tis nobler in the mind to suffer"
PROMPT, NEW, REPEATS, FRESH = "to be, or not to be: ", 40, 15, 5
Clock = Callable[[], int]


class Server(NamedTuple):
    """What answers requests: a tokenizer and a model; and what it cost to have them, in ns."""

    tokenizer: Any
    model: Any
    import_ns: int
    build_ns: int


def build(clock: Clock = perf_counter_ns) -> Server:
    """Import what is needed and build tokenizer and model, both timed, both outside every request."""
    start = clock()
    import numpy as np

    from tinytorch.core.tokenization import CharTokenizer
    from tinytorch.core.transformers import GPT
    imported = clock()
    tokenizer = CharTokenizer(TEXT)
    model = GPT(tokenizer.vocab_size, 64, 2, 4, max_seq_len=128, rng=np.random.default_rng(0)).eval()
    return Server(tokenizer, model, imported - start, clock() - imported)


def one_thread():
    """Hold BLAS to one thread: products this small gain nothing from more, and waking them makes times jump."""
    from threadpoolctl import threadpool_limits
    return threadpool_limits(1, user_api="blas")


def load() -> float | None:
    """Return how many processes wanted to run in the last minute, or None where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows
        return None


class Watched:
    """A model that notes when each of its calls began and ended; ``generate`` cannot tell the difference."""

    def __init__(self, model, clock: Clock):
        self.model, self.clock, self.calls = model, clock, []
        self.vocab_size, self.max_seq_len = model.vocab_size, model.max_seq_len

    def __call__(self, tokens):
        """Call the model, between two reads of the clock."""
        start = self.clock()
        logits = self.model(tokens)
        self.calls.append((start, self.clock()))
        return logits


def request(server: Server, prompt: str, new: int, clock: Clock = perf_counter_ns) -> dict:
    """Answer one request, greedily; return the text and, in ns, its stages, the whole, and the first and last pass."""
    from tinytorch.core.transformers import generate

    watched, start = Watched(server.model, clock), clock()
    ids = server.tokenizer.encode(prompt)
    tokenized = clock()
    ids = generate(watched, ids, new, temperature=0)
    generated = clock()
    text = server.tokenizer.decode(ids)
    end = clock()
    passes = [stop - begin for begin, stop in watched.calls]
    return {"text": text, "tokenize": tokenized - start, "forward": sum(passes), "decode": end - generated,
            "choose": generated - tokenized - sum(passes), "request": end - start, "first_pass": passes[0],
            "last_pass": passes[-1]}


def forward(server: Server, prompt: str, clock: Clock = perf_counter_ns) -> int:
    """Return the ns of one call of the model on the prompt, tokenized before."""
    from tinytorch.core.autograd import no_grad
    from tinytorch.core.tensor import Tensor

    tokens = Tensor(server.tokenizer.encode(prompt))
    with no_grad():
        start = clock()
        server.model(tokens)
        return clock() - start


def middle(requests: list[dict]) -> dict:
    """Return the median ns of every stage over several requests, and their text (None if they differ)."""
    texts = {one["text"] for one in requests}
    return {"text": texts.pop() if len(texts) == 1 else None,
            **{name: median(one[name] for one in requests) for name in requests[0] if name != "text"}}


def answers(prompt: str, new: int, repeats: int, first: dict, clock: Clock = perf_counter_ns) -> dict:
    """Measure what is warm here, in turns, and set it beside the ``first`` request of a fresh process; all in ns."""
    from tinytorch.perf.profiling import environment

    busy, server = load(), build()
    with one_thread():
        request(server, prompt, new)
        rounds = [(forward(server, prompt, clock), request(server, prompt, new, clock)) for _ in range(repeats)]
        machine = environment()
    warm = middle([one for _, one in rounds])
    return {"workload": {"model": repr(server.model), "parameters": sum(p.size for p in server.model.parameters()),
                         "prompt_tokens": len(server.tokenizer.encode(prompt)), "new_tokens": new, "dtype": "float32",
                         "repeats": repeats, "fresh": FRESH, "load": busy, "date": time.strftime("%Y-%m-%d")},
            "machine": machine,
            "forward": median(ns for ns, _ in rounds), "first": first, "warm": warm,
            "same_text": warm["text"] is not None and warm["text"] == first["text"]}


def fresh(prompt: str, new: int) -> dict:
    """Start a process that builds its own server and answers one request; return what it measured of itself."""
    done = subprocess.run([sys.executable, __file__, "--first", prompt, str(new)], capture_output=True, text=True,
                          encoding="utf-8", check=True)
    return json.loads(done.stdout)


def first(prompt: str, new: int) -> dict:
    """Be that process."""
    server = build()
    with one_thread():
        return {**request(server, prompt, new), "import": server.import_ns, "build": server.build_ns}


def stages(one: dict) -> str:
    """Write the stages of a request, in ms; medians need not add up to the median."""
    names = {"tokenize": "tokenize", "forward": "forward passes", "choose": "choose tokens", "decode": "decode"}
    return " + ".join(f"{name} {one[stage] / 1e6:.2f}" for stage, name in names.items())


def report(found: dict) -> str:
    """Write both answers with their boundaries, and what each would have said of the other."""
    here, work, cold, warm = found["machine"], found["workload"], found["first"], found["warm"]
    new, one = work["new_tokens"], found["forward"]
    last = work["prompt_tokens"] + new - 1
    busy = "unknown" if work["load"] is None else f"{work['load']:.1f} processes"
    return "\n".join([
        f"{here['cpu']} · Python {here['python']} · NumPy {here['numpy']} · {here['blas']}, "
        f"{here['blas_threads']} BLAS thread{'s' * (here['blas_threads'] != 1)} · {work['date']}",
        f"{work['model']}, {work['parameters']:,} parameters, {work['dtype']}, evaluation mode, no graph",
        f"prompt of {work['prompt_tokens']} tokens, {new} new ones, greedy; medians of {work['repeats']} turns, "
        f"of {work['fresh']} fresh processes; load before the run {busy}",
        "",
        "How long is a warm forward pass?",
        "  from: the model is called on the prompt's tokens; to: the logits of every position are there",
        "  left out: tokenizing, choosing a token, decoding, everything that happens only once",
        f"  {one / 1e6:.2f} ms for {work['prompt_tokens']} tokens",
        "",
        "How long is a first complete request?",
        "  from: a text comes in; to: a text goes out, in a process that has answered nothing before",
        f"  left out: starting Python, importing ({cold['import'] / 1e6:.0f} ms), building tokenizer and model "
        f"({cold['build'] / 1e6:.1f} ms)",
        f"  {cold['request'] / 1e6:.1f} ms: {stages(cold)}",
        f"  its first pass took {cold['first_pass'] / 1e6:.2f} ms, its last, over {last} tokens, "
        f"{cold['last_pass'] / 1e6:.2f} ms",
        "",
        "And the same request, warm?",
        f"  {warm['request'] / 1e6:.1f} ms: {stages(warm)}",
        f"  first pass {warm['first_pass'] / 1e6:.2f} ms, last {warm['last_pass'] / 1e6:.2f} ms; "
        f"{warm['request'] / 1e6 / new:.2f} ms for each new token",
        "",
        "Does one predict the other?",
        f"  {new} forward passes over the prompt would be {new * one / 1e6:.1f} ms: "
        f"{new * one / warm['request']:.2f} of the warm request, {new * one / cold['request']:.2f} of the first",
        f"  the first request took {cold['request'] / warm['request']:.2f} times the warm one, its first pass "
        f"{cold['first_pass'] / warm['first_pass']:.1f} times a warm first pass",
        f"  with the import and the building that came before it: "
        f"{(cold['import'] + cold['build'] + cold['request']) / warm['request']:.1f} times the warm one"])


class Parser(argparse.ArgumentParser):
    """Refuses what it cannot read in one sentence."""

    def error(self, message):
        """Say it and leave with status 2."""
        self.exit(2, f"could not run: {message}\n")


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} came; want a whole number of at least 1")
    return int(text)


def main(argv: list[str] | None = None) -> int:
    """Ask both questions; return the exit status."""
    parser = Parser(description=(__doc__ or "").split("\n")[0], allow_abbrev=False)
    parser.add_argument("--prompt", default=PROMPT, help=f"letters the tokenizer knows ({PROMPT!r})")
    parser.add_argument("--new", type=count, default=NEW, help=f"tokens to write ({NEW})")
    parser.add_argument("--repeats", type=count, default=REPEATS, help=f"warm measurements ({REPEATS})")
    parser.add_argument("--json", action="store_true", help="print all numbers, in ns, as JSON")
    given = parser.parse_args(argv)
    strange = sorted(set(given.prompt) - set(TEXT))
    if strange or not given.prompt:
        print(f"could not run: the prompt {given.prompt!r} "
              + (f"has {strange[0]!r}, which the tokenizer does not know" if strange else "is empty; give a letter"),
              file=sys.stderr)
        return 2
    try:
        cold = middle([fresh(given.prompt, given.new) for _ in range(FRESH)])
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"could not run: the fresh process failed: {error}", file=sys.stderr)
        return 2
    found = answers(given.prompt, given.new, given.repeats, cold)
    print(json.dumps(found, indent=1, allow_nan=False) if given.json else report(found))
    if not found["same_text"]:
        print("FAIL: the fresh process gave another text", file=sys.stderr)
    return 0 if found["same_text"] else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--first"]:
        print(json.dumps(first(sys.argv[2], int(sys.argv[3]))))
    else:
        sys.exit(main())

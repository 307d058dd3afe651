"""Wrong and right solutions of module 20."""

WRONG = [
    {"name": "two-answers", "cell": "limit-verdict",
     "old": '    return "broken" if low > limit else "undecided"', "new": '    return "broken"',
     "caught": "test-limit-verdict: at most 10: 1 to 9, 9 to 12, 11 to 12", "says": "it is undecided"},
    {"name": "best-end-kept", "cell": "limit-verdict",
     "old": '    if high <= limit:\n', "new": '    if low <= limit:\n',
     "caught": "test-limit-verdict: at most 10: 1 to 9, 9 to 12, 11 to 12", "says": "worst end"},
    {"name": "at-most-only", "cell": "limit-verdict",
     "old": "    if not at_most:  # the same question, seen from the other side\n"
            "        low, high, limit = -high, -low, -limit\n", "new": "",
     "caught": "test-limit-verdict: at least 10: the same three", "says": "at_most=False is not looked at"},
    {"name": "limit-not-allowed", "cell": "limit-verdict",
     "old": "    if high <= limit:\n", "new": "    if high < limit:\n",
     "caught": "test-limit-verdict: 9, 10 and 11, exactly known: at most 10, at least 10",
     "says": "the limit itself is allowed"},
    {"name": "touching-is-broken", "cell": "limit-verdict",
     "old": 'return "broken" if low > limit else', "new": 'return "broken" if low >= limit else',
     "caught": "test-limit-verdict: ranges that end at the limit", "says": "touches the limit"},
    {"name": "no-copy", "cell": "apply-steps",
     "old": "    model = deepcopy(task.model)\n", "new": "    model = task.model\n",
     "caught": "test-apply-steps: the start line", "says": "a step wrote into task.model"},
    {"name": "always-from-the-start", "cell": "apply-steps",
     "old": "STEPS[name](model, task, *settings)", "new": "STEPS[name](deepcopy(task.model), task, *settings)",
     "caught": "test-apply-steps: start 0, add 3, times 2", "says": "only the start is handed on"},
    {"name": "one-setting", "cell": "apply-steps",
     "old": "(model, task, *settings)", "new": "(model, task, *settings[:1])",
     "caught": "test-apply-steps: two settings", "says": "only one setting"},
    {"name": "takes-the-name-out", "cell": "apply-steps",
     "old": "    for name, *settings in steps:\n",
     "new": "    for settings in steps:\n        name = settings.pop(0) if settings else None\n",
     "caught": "test-apply-steps: the list of steps is left as it was", "says": "pop"},
    {"name": "flops-times-the-batch", "cell": "observed",
     "old": "Profiler().count_flops(model, (1, *images.shape[1:]))",
     "new": "Profiler().count_flops(model, images.shape) * images.shape[0]",
     "caught": "test-observed: flops of one sample: 18 + 3 + 18", "says": "of all four images"},
    {"name": "in-training-mode", "cell": "observed",
     "old": "    with in_mode(model, False), no_grad():\n", "new": "    with no_grad():\n",
     "caught": "test-observed: flops of one sample: 18 + 3 + 18", "says": "counted in training mode"},
    {"name": "mode-not-put-back", "cell": "observed",
     "old": "    with in_mode(model, False), no_grad():\n", "new": "    model.eval()\n    with no_grad():\n",
     "caught": "test-observed: the model is in training mode, as it was", "says": "and not back"},
    {"name": "shared-twice", "cell": "observed",
     "old": "for array in weight_arrays(model)]",
     "new": "for layer in model.layers for array in [p.data for p in layer.parameters()]]",
     "caught": "test-observed: arrays of a layer used twice", "says": "counts once"},
    {"name": "along-the-images", "cell": "observed",
     "old": "argmax(axis=-1)", "new": "argmax(axis=0)",
     "caught": "test-observed: predictions", "says": "along the wrong axis"},
    {"name": "median-over-median", "cell": "speed",
     "old": "    ratio, interval = paired_ratio(rounds)\n",
     "new": "    ratio, interval = percentile([b for _, b in rounds], 50) / percentile([a for a, _ in rounds], 50), "
            "paired_ratio(rounds)[1]\n",
     "caught": "test-speed: busy rounds, in truth 0.9", "says": "within each round first"},
    {"name": "sum-over-sum", "cell": "speed",
     "old": "    ratio, interval = paired_ratio(rounds)\n",
     "new": "    ratio, interval = sum(b for _, b in rounds) / sum(a for a, _ in rounds), paired_ratio(rounds)[1]\n",
     "caught": "test-speed: busy rounds, in truth 0.9", "says": "one round decides"},
    {"name": "upside-down", "cell": "speed",
     "old": "paired_ratio(rounds)", "new": "paired_ratio([[b, a] for a, b in rounds])",
     "caught": "test-speed: busy rounds, in truth 0.9", "says": "upside down"},
    {"name": "between-two-ratios", "cell": "speed",
     "old": "    ratio, interval = paired_ratio(rounds)\n",
     "new": "    ratio, interval = percentile([b / a for a, b in rounds], 50), paired_ratio(rounds)[1]\n",
     "caught": "test-speed: half and double are equally far from 1", "says": "logarithms"},
    {"name": "less-is-slower", "cell": "speed",
     "old": '"faster" if high < 1 else "slower" if low > 1', "new": '"slower" if high < 1 else "faster" if low > 1',
     "caught": "test-speed: all below 1, all above, both", "says": "less time"},
    {"name": "the-ratio-decides", "cell": "speed",
     "old": '"faster" if high < 1 else "slower" if low > 1', "new": '"faster" if ratio < 1 else "slower" if ratio > 1',
     "caught": "test-speed: all below 1, all above, both"},
    {"name": "one-as-an-end", "cell": "speed",
     "old": '"faster" if high < 1 else "slower" if low > 1', "new": '"faster" if high <= 1 else "slower" if low >= 1',
     "caught": "test-speed: 1 is an end", "says": "has 1 in it"},
    {"name": "few-rounds-decide", "cell": "speed",
     "old": "interval or (0.0, inf)", "new": "interval or (ratio, ratio)",
     "caught": "test-speed: five rounds", "says": "no verdict"},
    {"name": "a-tuple-of-ends", "cell": "speed",
     "old": "interval and list(interval)", "new": "interval",
     "caught": "test-speed: its interval"},
    {"name": "four-bytes-each", "cell": "results",
     "old": "np.dtype(kind).itemsize for", "new": "4 for",
     "caught": "test-results: bytes: 6 of 4, 2 of 1, 1 of 8", "says": "4 bytes for every number"},
    {"name": "mean-for-median", "cell": "results",
     "old": '"ms": percentile(passes_ms, 50)', "new": '"ms": sum(passes_ms) / len(passes_ms)',
     "caught": "test-results: median of 1, 50 and 3 ms", "says": "the mean"},
    {"name": "won-is-lost", "cell": "results",
     "old": '"won" if new == label else "lost" if old == label',
     "new": '"lost" if new == label else "won" if old == label',
     "caught": "test-results: only lost", "says": "the wrong way round"},
    {"name": "stops-at-the-first", "cell": "differences",
     "old": 'differences(said[key], found[key], f"{where}.{key}")]\n',
     "new": 'differences(said[key], found[key], f"{where}.{key}")][:1]\n',
     "caught": "test-differences: three places", "says": "stops at the first"},
    {"name": "said-for-found", "cell": "differences",
     "old": "the report says {said!r}, computed again it is {found!r}",
     "new": "the report says {found!r}, computed again it is {said!r}",
     "caught": "test-differences: one place", "says": "changed places"},
    {"name": "bits-of-a-float", "cell": "differences",
     "old": "    if close or (", "new": "    if (",
     "caught": "test-differences: rounded otherwise", "says": "relative 1e-9"},
    {"name": "absolute-tolerance", "cell": "differences",
     "old": "<= 1e-9 * abs(found)", "new": "<= 1e-9 * max(1.0, abs(found))",
     "caught": "test-differences: more than that", "says": "relative to what was found"},
    {"name": "true-is-one", "cell": "differences",
     "old": "(type(said) is type(found) and said == found)", "new": "said == found",
     "caught": "test-differences: a whole number where a float was found"},
    {"name": "true-is-a-float", "cell": "differences",
     "old": "type(said) in (int, float)", "new": "isinstance(said, (int, float))",
     "caught": "test-differences: True is not 1", "says": "True passes as a float"},
    {"name": "what-is-far", "cell": "differences",
     "old": "abs(said - found) <= 1e-9 * abs(found)", "new": "not abs(said - found) > 1e-9 * abs(found)",
     "caught": "test-differences: NaN, infinity", "says": "ask what is close"},
    {"name": "shorter-list-decides", "cell": "differences",
     "old": "isinstance(found, list) and len(said) == len(found):\n"
            "        return [line for i in range(len(found)) for",
     "new": "isinstance(found, list):\n        return [line for i in range(min(len(said), len(found))) for",
     "caught": "test-differences: keys and lengths"},
    {"name": "key-too-many", "cell": "differences",
     "old": "set(said) == set(found):", "new": "set(said) >= set(found):",
     "caught": "test-differences: keys and lengths", "says": "a key too many"},
    {"name": "keys-as-they-come", "cell": "merge",
     "old": "hashlib.sha256(canonical(report)",
     "new": 'hashlib.sha256(json.dumps(report, separators=(",", ":"), ensure_ascii=False)',
     "caught": "test-merge: fingerprint of {'b': 1, 'a': 'é'}", "says": "the keys as they came"},
    {"name": "each-twice", "cell": "merge",
     "old": "    return {**first, \"reports\": [deepcopy(reports[mark]) for mark in ordered]}",
     "new": "    both = [*first[\"reports\"], *second[\"reports\"]]\n"
            "    return {**first, \"reports\": deepcopy(sorted(both, key=lambda report: (\n"
            "        report[\"results\"][\"final\"][\"bytes\"], fingerprint(report))))}",
     "caught": "test-merge: each once, by bytes", "says": "is one report"},
    {"name": "as-they-came", "cell": "merge",
     "old": "for mark in ordered]", "new": "for mark in reports]",
     "caught": "test-merge: each once, by bytes", "says": "not ordered"},
    {"name": "ties-as-they-came", "cell": "merge",
     "old": "[\"final\"][\"bytes\"], mark))", "new": "[\"final\"][\"bytes\"],))",
     "caught": "test-merge: equal bytes: three ways, one board", "says": "let the fingerprint decide"},
    {"name": "shared-reports", "cell": "merge",
     "old": "[deepcopy(reports[mark]) for", "new": "[reports[mark] for",
     "caught": "test-merge: the boards merged are left as they were", "says": "deepcopy"},
    {"name": "no-gaps-in-places", "cell": "places",
     "old": "    return [1 + sum(high < low for _, high in ranges) for low, _ in ranges]",
     "new": "    return [1 + len({high for _, high in ranges if high < low}) for low, _ in ranges]",
     "caught": "test-places: 5, 7, 7, 9, exactly", "says": "leave no place 3"},
    {"name": "touching-counts", "cell": "places",
     "old": "high < low for", "new": "high <= low for",
     "caught": "test-places: 5, 7, 7, 9, exactly", "says": "touching is not certain"},
    {"name": "by-one-end", "cell": "places",
     "old": "[1 + sum(high < low for _, high in ranges) for low, _ in ranges]",
     "new": "[1 + sum(other < low for other, _ in ranges) for low, _ in ranges]",
     "caught": "test-places: A, B, C", "says": "cannot be told apart"},
    {"name": "smaller-always", "cell": "places",
     "old": "    if larger:\n        ranges = [(-high, -low) for low, high in ranges]\n", "new": "",
     "caught": "test-places: larger is better", "says": "larger is not looked at"},
    {"name": "start-and-final-changed", "cell": "measured",
     "old": "compare(start, final, images,", "new": "compare(final, start, images,",
     "caught": "test-measured: six rounds: start takes 100 a pass, final 10", "says": "the baseline is start"},
    {"name": "sides-changed", "cell": "measured",
     "old": '{"start": observed(start, images), "final": observed(final, images),',
     "new": '{"start": observed(final, images), "final": observed(start, images),',
     "caught": "test-measured: flops of one sample, start and final", "says": "changed places"},
    {"name": "timed-with-a-graph", "cell": "measured",
     "old": ", in_mode(final, False), no_grad():\n", "new": ", in_mode(final, False):\n",
     "caught": "test-measured: a pass in training mode? one with a graph?", "says": "keeps a graph"},
    {"name": "final-timed-in-training-mode", "cell": "measured",
     "old": ", in_mode(final, False), no_grad():\n", "new": ", no_grad():\n",
     "caught": "test-measured: a pass in training mode? one with a graph?", "says": "is in training mode"},
    {"name": "rounds-not-handed-on", "cell": "measured",
     "old": ", rounds=rounds, seed=seed)\n", "new": ", seed=seed)\n",
     "caught": "test-measured: six rounds: start takes 100 a pass, final 10", "says": "rounds is not handed on"},
]

RIGHT = [
    {"name": "four-cases", "cell": "limit-verdict", "code": '''
#| export
def limit_verdict(low, high, limit, at_most=True):
    """Judge a quantity that is known to lie in [low, high]: "kept", "broken" or "undecided"."""
    allowed = [value <= limit if at_most else value >= limit for value in (low, high)]
    return "kept" if all(allowed) else "undecided" if any(allowed) else "broken"
'''},
    {"name": "differences-by-loops", "cell": "differences", "code": '''
#| export
def differences(said, found, where="results"):
    """Return one sentence for each place where what is said is not what was found; [] when all agrees."""
    lines, inner = [], None
    if type(said) is type(found) is dict and said.keys() == found.keys():
        inner = [(f".{key}", said[key], found[key]) for key in found]
    elif type(said) is type(found) is list and len(said) == len(found):
        inner = [(f"[{i}]", *pair) for i, pair in enumerate(zip(said, found))]
    if inner is not None:
        for place, one, other in inner:
            lines.extend(differences(one, other, where + place))
        return lines
    if type(found) is float and not isinstance(said, bool) and isinstance(said, (int, float)):
        agree = found - 1e-9 * abs(found) <= said <= found + 1e-9 * abs(found)
    else:
        agree = type(said) is type(found) and said == found
    return [] if agree else [f"{where}: the report says {said!r}, computed again it is {found!r}"]
'''},
    {"name": "speed-by-logarithms", "cell": "speed", "code": '''
#| export
def speed_results(rounds):
    """Return ratio, its 95 % interval (None under six rounds) and verdict, as ``compare`` has them, from its rounds."""
    logs = [float(np.log(candidate) - np.log(baseline)) for baseline, candidate in rounds]
    ends, verdict = median_interval(logs), "indistinguishable"
    if ends is not None:
        ends = [float(np.exp(end)) for end in ends]
        if max(ends) < 1:
            verdict = "faster"
        elif min(ends) > 1:
            verdict = "slower"
    return {"ratio": float(np.exp(percentile(logs, 50))), "interval": ends, "verdict": verdict}
'''},
    {"name": "merge-by-insertion", "cell": "merge", "code": '''
#| export
def fingerprint(report):
    """Return 64 hexadecimal digits that stand for all of a report: the SHA-256 of its canonical text in UTF-8."""
    digest = hashlib.sha256()
    digest.update(bytes(canonical(report), "utf-8"))
    return digest.hexdigest()


def merge(first, second):
    """Return a new board with the reports of both, each once, by bytes and then by fingerprint; neither is changed."""
    for board in (first, second):
        check_board(board)
    if first["budget"] != second["budget"]:
        raise ValueError(f"the boards have the budgets {first['budget']} and {second['budget']}; want one budget")
    board = deepcopy(first)
    board["reports"], seen = [], set()
    for report in first["reports"] + second["reports"]:
        if fingerprint(report) not in seen:
            seen.add(fingerprint(report))
            board["reports"].append(deepcopy(report))
    board["reports"].sort(key=fingerprint)
    board["reports"].sort(key=lambda report: report["results"]["final"]["bytes"])
    return board
'''},
    {"name": "measured-afterwards", "cell": "measured", "code": '''
#| export
def measured(start, final, images, *, rounds=20, clock=None, seed=0):
    """Measure two models and return (raw evidence, warnings of the comparison); images (N, D) are one pass."""
    with in_mode([start, final], False), no_grad():
        evidence = {"start": observed(start, images), "final": observed(final, images)}
        profiler = Profiler(clock)
        found = profiler.compare(start, final, images, 0.0, Benchmark.DIFFERENT, rounds=rounds, seed=seed)
    evidence |= {key: found[key] for key in ("rounds_ns", "block")}
    return evidence, list(found["warnings"])
'''},
]

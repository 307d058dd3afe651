"""Wrong and right solutions of module 19, as small edits of the reference."""

LEAN = True  # five trained models and thousands of drawn samples only show; right solutions run all of it

WRONG = [
    {"name": "a-count", "cell": "coverage", "old": "return held / trials", "new": "return held",
     "caught": "test-coverage: the truth 1 in (0, 2), (1, 3), (2, 4), (-3, 0), (1, 1)", "says": "divide by the number"},
    {"name": "misses-counted", "cell": "coverage", "old": "held += bool(low <= truth <= high)",
     "new": "held += not low <= truth <= high",
     "caught": "test-coverage: the truth 1 in (0, 2), (1, 3), (2, 4), (-3, 0), (1, 1)", "says": "the truth is missed"},
    {"name": "ends-left-out", "cell": "coverage", "old": "low <= truth <= high", "new": "low < truth < high",
     "caught": "test-coverage: the truth 1 in (0, 2), (1, 3), (2, 4), (-3, 0), (1, 1)", "says": "the ends belong"},
    {"name": "drawn-once", "cell": "coverage",
     "old": "    held = 0\n    for _ in range(trials):\n        low, high = interval(draw())\n",
     "new": "    held = 0\n    low, high = interval(draw())\n    for _ in range(trials):\n",
     "caught": "test-coverage: the truth 1 in (0, 2), (1, 3), (2, 4), (-3, 0), (1, 1)", "says": "drawn once"},
    {"name": "a-sum-for-df-1", "cell": "t-coverage", "old": "total = term if df > 1 else 0.0", "new": "total = term",
     "caught": "test-t-coverage: t = 1, df = 1: an angle of 45 degrees", "says": "df = 1 has no sum"},
    {"name": "below-t", "cell": "t-coverage",
     "old": "return 2 / pi * (theta + sin(theta) * total) if odd else sin(theta) * total",
     "new": "return 0.5 + (1 / pi * (theta + sin(theta) * total) if odd else sin(theta) * total / 2)",
     "caught": "test-t-coverage: t = 1, df = 1: an angle of 45 degrees", "says": "between -t and t"},
    {"name": "begins-with-1", "cell": "t-coverage", "old": "term = cos(theta) if odd else 1.0", "new": "term = 1.0",
     "caught": "test-t-coverage: t = √3, df = 3", "says": "cos θ, not 1"},
    {"name": "cosine-not-squared", "cell": "t-coverage", "old": "* cos(theta) ** 2", "new": "* cos(theta)",
     "caught": "test-t-coverage: t = 2, df = 4", "says": "it is cos²θ"},
    {"name": "last-power-missing", "cell": "t-coverage", "old": "range(2 + odd, df - 1, 2)",
     "new": "range(2 + odd, df - 2, 2)",
     "caught": "test-t-coverage: t = 2, df = 4", "says": "df - 2, is missing"},
    {"name": "one-power-too-many", "cell": "t-coverage", "old": "range(2 + odd, df - 1, 2)",
     "new": "range(2 + odd, df + 1, 2)",
     "caught": "test-t-coverage: t = √2, df = 2: sin 45°", "says": "one term too many"},
    {"name": "the-normals-factor", "cell": "mean-interval", "old": "t_factor(confidence, n - 1)",
     "new": "NormalDist().inv_cdf(0.5 + confidence / 2)",
     "caught": "test-mean-interval: 1, 2, 3, 4, 5", "says": "want Student's"},
    {"name": "n-degrees", "cell": "mean-interval", "old": "t_factor(confidence, n - 1)",
     "new": "t_factor(confidence, n)",
     "caught": "test-mean-interval: 1, 2, 3, 4, 5", "says": "want n - 1"},
    {"name": "no-root-n", "cell": "mean-interval", "old": "* stdev(samples) / sqrt(n)", "new": "* stdev(samples)",
     "caught": "test-mean-interval: 1, 2, 3, 4, 5", "says": "not divided by √n"},
    {"name": "numpys-std", "cell": "mean-interval", "old": "stdev(samples)", "new": "float(np.std(samples))",
     "caught": "test-mean-interval: 1, 2, 3, 4, 5", "says": "s divides by n - 1"},
    {"name": "always-95", "cell": "mean-interval", "old": "t_factor(confidence, n - 1)", "new": "t_factor(0.95, n - 1)",
     "caught": "test-mean-interval: the same at 99 %: t is 63.657", "says": "confidence is not handed on"},
    {"name": "one-sample-is-certain", "cell": "mean-interval", "old": "return None",
     "new": "return samples[0], samples[0]",
     "caught": "test-mean-interval: one sample", "says": "known exactly"},
    {"name": "the-textbooks", "cell": "accuracy-interval",
     "old": "    centre = (share + weight / 2) / (1 + weight)\n"
            "    half = sqrt(weight * (share * (1 - share) + weight / 4)) / (1 + weight)\n",
     "new": "    centre, half = share, z * sqrt(share * (1 - share) / total)\n",
     "caught": "test-accuracy-interval: 8 of 10", "says": "its end lies above 1"},
    {"name": "not-divided", "cell": "accuracy-interval",
     "old": "    centre = (share + weight / 2) / (1 + weight)\n"
            "    half = sqrt(weight * (share * (1 - share) + weight / 4)) / (1 + weight)\n",
     "new": "    centre = share + weight / 2\n    half = sqrt(weight * (share * (1 - share) + weight / 4))\n",
     "caught": "test-accuracy-interval: 8 of 10", "says": "divided by 1 + w"},
    {"name": "whole-w-in-the-centre", "cell": "accuracy-interval", "old": "(share + weight / 2)",
     "new": "(share + weight)",
     "caught": "test-accuracy-interval: 8 of 10", "says": "half of w"},
    {"name": "quarter-forgotten", "cell": "accuracy-interval", "old": "(share * (1 - share) + weight / 4)",
     "new": "(share * (1 - share))",
     "caught": "test-accuracy-interval: 8 of 10", "says": "w/4 under the root"},
    {"name": "a-hair-above-1", "cell": "accuracy-interval", "old": "1.0 if right == total else centre + half",
     "new": "centre + half",
     "caught": "test-accuracy-interval: the upper end of n of n is 1, exactly"},
    {"name": "one-direction", "cell": "sign-test", "old": "2 * tail / 2**n", "new": "tail / 2**n",
     "caught": "test-sign-test: 1 against 4", "says": "one direction only"},
    {"name": "up-to-the-larger", "cell": "sign-test", "old": "range(min(ups, downs))", "new": "range(max(ups, downs))",
     "caught": "test-sign-test: 1 against 4", "says": "up to the larger one"},
    {"name": "more-than-certain", "cell": "sign-test", "old": "return min(1.0, 2 * tail / 2**n)",
     "new": "return 2 * tail / 2**n",
     "caught": "test-sign-test: 3 against 3", "says": "at most 1"},
    {"name": "the-mean-for-the-median", "cell": "measure-model", "old": 'stats["median"]', "new": 'stats["mean"]',
     "caught": "test-measure-model: latency: the median", "says": "the mean"},
    {"name": "four-bytes-each", "cell": "measure-model", "old": 'round(memory["parameter_memory_mb"] * MB)',
     "new": "4 * profiler.count_parameters(model)",
     "caught": "test-measure-model: bytes of parameters: 650 x 4 + 100 x 1", "says": "int8 has 1"},
    {"name": "flops-of-the-batch", "cell": "measure-model", "old": "profiler.count_flops(model, x.shape)",
     "new": "profiler.flop_report(model, x.shape).total",
     "caught": "test-measure-model: FLOPs of one example: 2 x 64 x 10", "says": "of the whole batch"},
    {"name": "timed-twice", "cell": "measure-model", "old": '"latency_ms": stats["median"]',
     "new": '"latency_ms": profiler.measure_latency(model, x, warmup, iterations)',
     "caught": "test-measure-model: runs that were timed", "says": "timed twice"},
    {"name": "warmup-lost", "cell": "measure-model", "old": "latency_statistics(model, x, warmup, iterations)",
     "new": "latency_statistics(model, x, iterations=iterations)",
     "caught": "test-measure-model: warmup handed on", "says": "warmup is not handed on"},
    {"name": "arithmetic", "cell": "geometric-mean", "old": "exp(fmean(log(ratio) for ratio in ratios))",
     "new": "fmean(ratios)", "caught": "test-geometric-mean: 1, 1, 8", "says": "the arithmetic mean"},
    {"name": "square-root", "cell": "geometric-mean", "old": "exp(fmean(log(ratio) for ratio in ratios))",
     "new": "sqrt(np.prod(ratios))", "caught": "test-geometric-mean: 1, 1, 8", "says": "take the third"},
    {"name": "smaller-everywhere", "cell": "pareto-front",
     "old": "all(x <= y for x, y in zip(a, b)) and any(x < y for x, y in zip(a, b))",
     "new": "all(x < y for x, y in zip(a, b))",
     "caught": "test-pareto-front: dominates: both, one of two, equal, neither, the other way",
     "says": "too much to ask"},
    {"name": "equal-dominates", "cell": "pareto-front", "old": " and any(x < y for x, y in zip(a, b))", "new": "",
     "caught": "test-pareto-front: dominates: both, one of two, equal, neither, the other way",
     "says": "equal costs do not"},
    {"name": "somewhere-is-enough", "cell": "pareto-front", "old": "all(x <= y for x, y in zip(a, b)) and any(",
     "new": "any(",
     "caught": "test-pareto-front: dominates: both, one of two, equal, neither, the other way", "says": "not enough"},
    {"name": "another-order", "cell": "pareto-front",
     "old": "return [point for point, mine in zip(points, costs) if",
     "new": "return [point for mine, _, point in sorted(zip(costs, range(99), points), key=lambda one: one[:2]) if",
     "caught": "test-pareto-front: bytes and accuracy", "says": "the order given"},
    {"name": "duplicates-dropped", "cell": "pareto-front",
     "old": "return [point for point, mine in zip(points, costs) if",
     "new": "return [point for i, (point, mine) in enumerate(zip(points, costs)) if mine not in costs[:i] and",
     "caught": "test-pareto-front: bytes and accuracy", "says": "both stay"},
    {"name": "rounded-down", "cell": "examples-needed", "old": "ceil(", "new": "int(",
     "caught": "test-examples-needed: p = 1/2, to 10 points", "says": "rounded down"},
]

RIGHT = [
    {"name": "a-mean-of-booleans", "cell": "coverage", "code": '''
#| export
def coverage(interval, draw, truth, trials=2000):
    """Return the share of ``trials`` in which ``interval(draw())``, a pair (low, high), holds the truth."""
    trials = whole("trials", trials, 1)
    ends = np.array([interval(draw()) for _ in range(trials)])
    return float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())
'''},
    {"name": "terms-as-a-product", "cell": "t-coverage", "code": '''
#| export
def t_coverage(t, df):
    """Return the chance that Student's t with ``df`` degrees of freedom lies between -t and t, for t >= 0."""
    t, df = amount("t", t), whole("df", df, 1)
    cosine = sqrt(df / (df + t * t))
    sine = t / sqrt(df + t * t)
    powers = np.arange(2 + df % 2, df - 1, 2)
    terms = np.concatenate([[1.0], np.cumprod((powers - 1) / powers * cosine**2)])
    if df % 2 == 0:
        return float(sine * terms.sum())
    return float((atan(t / sqrt(df)) + (sine * cosine * terms.sum() if df > 1 else 0.0)) * 2 / pi)
'''},
    {"name": "by-numpy", "cell": "mean-interval", "code": '''
#| export
def mean_interval(samples, confidence=0.95):
    """Return (low, high), Student's interval of the mean: mean ± t s/√n, t with n - 1 degrees of freedom."""
    samples, confidence = np.array(numbers("samples", samples)), level(confidence)
    if samples.size == 1:
        return None
    middle, deviation = samples.mean(), samples.std(ddof=1)
    half = t_factor(confidence, samples.size - 1) * deviation / samples.size**0.5
    return float(middle - half), float(middle + half)
'''},
    {"name": "wilson-in-counts", "cell": "accuracy-interval", "code": '''
#| export
def accuracy_interval(right, total, confidence=0.95):
    """Return (low, high), Wilson's interval of a share of which ``right`` of ``total`` were seen; inside 0 to 1."""
    total, right, confidence = whole("total", total, 1), whole("right", right, 0), level(confidence)
    if not right <= total <= 2**53:
        raise ValueError(f"{right} right of {total}; want at most all of them, right first, then total (up to 2**53)")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    wrong, more = total - right, total + z * z
    middle = (right + z * z / 2) / more
    half = z / more * sqrt(right * wrong / total + z * z / 4)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (low if right else 0.0), (high if wrong else 1.0)
'''},
    {"name": "by-comb", "cell": "sign-test", "code": '''
#| export
def sign_test(ups, downs):
    """Return the two-sided p-value of ``ups`` against ``downs`` under a fair coin, exactly."""
    from math import comb

    ups, downs = whole("ups", ups, 0), whole("downs", downs, 0)
    n, few = ups + downs, min(ups, downs)
    if 2 * few == n:
        return 1.0
    return sum(comb(n, k) for k in range(few + 1)) / 2 ** (n - 1)
'''},
    {"name": "by-a-power", "cell": "geometric-mean", "code": '''
#| export
def geometric_mean(ratios):
    """Return the geometric mean of positive ratios: the n-th root of their product, by logarithms."""
    ratios = numbers("ratios", ratios)
    if min(ratios) <= 0:
        raise ValueError(f"a ratio is {min(ratios)}; want ratios above 0")
    found = 1.0
    for ratio in ratios:
        found *= ratio ** (1 / len(ratios))
    return found
'''},
    {"name": "by-arrays", "cell": "pareto-front", "code": '''
#| export
def dominates(a, b):
    """Say whether costs ``a`` beat costs ``b``: nowhere larger, and somewhere smaller. Equal costs do not."""
    a, b = np.array(a), np.array(b)
    return bool((a <= b).all() and (a != b).any())


def pareto_front(points, smaller=(), larger=()):
    """Return the points that no other point beats, in the order given; equal ones stay together."""
    points = list(points)
    costs = [costs_of(i, point, smaller, larger) for i, point in enumerate(points)]
    kept = []
    for i, point in enumerate(points):
        if all(not dominates(costs[j], costs[i]) for j in range(len(points)) if j != i):
            kept.append(point)
    return kept
'''},
]

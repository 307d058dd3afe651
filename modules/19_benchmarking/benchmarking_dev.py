# ---
# jupyter:
#   jupytext:
#     comment_magics: false
#     notebook_metadata_filter: tinytorch
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {"display_name": "Python 3", "language": "python", "name": "python3"}
#   language_info: {"name": "python"}
#   tinytorch: {"module": "19_benchmarking", "release": "c5b1e9e03deda88d"}
# ---

# %% [markdown]
"""
# 19 · Benchmarking

Tier: Optimization · Difficulty 3 of 4 · About 3 hours · Needs 07, 08 (`tito test training`, `tito test dataloader`) and 14 (`tito test profiling`), whose Profiler does all the measuring

"The new one is 4 % faster, and it gained half a percent." Two numbers, and neither says whether they would come out again tomorrow. A benchmark is a comparison that survives its own noise: it says what was measured, how sure that is, and when the honest answer is "cannot tell".

**Build** intervals that are right for two samples, for 355 images and for two models on the same images; `Benchmark`, `BenchmarkSuite`, a Pareto front → **use** them on five trained models → **reflect** on what a leaderboard can know.

When you are done you can
1. say how often an interval holds the truth, by trying it a few thousand times;
2. give the mean of five runs with an interval that is as wide as it must be;
3. give an accuracy with an interval, also for "all of them right", and compare two models on the *same* examples;
4. compare models in size, operations, time and accuracy, with no clock but Module 14's;
5. throw out the models that nobody should choose, and distrust the winner a little.

Yours: the coverage of an interval, Student's t, the interval of a mean, of an accuracy, the sign test, the measuring of one model, the mean of ratios, the front. Given and explained: what refuses wrong input, the search for a quantile, `Benchmark` and `BenchmarkSuite` around your parts, tables and the picture.

A cell you have not filled says which one it is: `mean_interval: section 3, cell 7` is the function `mean_interval` in the seventh code cell of section 3.
"""

# %%
#| default_exp perf.benchmarking

# %%
#| export
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import atan, cos, exp, log, pi, sin, sqrt
from statistics import NormalDist, fmean, stdev

import numpy as np

from tinytorch.core.autograd import no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import in_mode
from tinytorch.perf.profiling import MB, Profiler, amount, environment, real, untouched, whole

# %%
if __name__ == "__main__":
    from tito.needs import needs_profiler

    needs_profiler()

# %% [markdown]
"""
## 1. Profile first: which one is better?

**Question.** Five classifiers of digits, trained alike. Which one would you ship?

A bare linear layer, a thin network, the one you know, a wide one, a deep one. They are trained on 1,442 images and judged on the 355 that were held out (Module 08):
"""

# %%
if __name__ == "__main__":
    from tinytorch.core.activations import ReLU
    from tinytorch.core.dataloader import DataLoader, TensorDataset, load_digits
    from tinytorch.core.layers import Layer, Linear, Sequential
    from tinytorch.core.losses import CrossEntropyLoss
    from tinytorch.core.optimizers import Adam
    from tinytorch.core.training import Trainer

    train = TensorDataset(*load_digits("train"))
    images, labels = (Tensor(part, dtype=part.dtype) for part in load_digits("test"))


    def trained(*widths, seed=0, epochs=6):
        rng, layers = np.random.default_rng(seed), []
        for before, after in zip(widths, widths[1:]):
            layers += [Linear(before, after, rng=rng), ReLU()]
        model = Sequential(*layers[:-1])
        Trainer(model, Adam(model.parameters(), lr=0.015), CrossEntropyLoss()).fit(DataLoader(train, 128, shuffle=True, seed=seed), epochs)
        return model.eval()

# %%
if __name__ == "__main__":
    shapes = {"base": (64, 32, 10), "linear": (64, 10), "thin": (64, 8, 10), "wide": (64, 256, 10), "deep": (64, 24, 24, 24, 10)}
    models = {name: trained(*widths) for name, widths in shapes.items()}
    print(len(train), "images to train on,", images.shape[0], "to judge by")

# %%
if __name__ == "__main__":
    profiler = Profiler()
    print("model    parameters   FLOPs of one   median ms (one image)   right of 355")
    for name, model in models.items():
        stats = profiler.latency_statistics(model, images[:1], iterations=30)
        right = int((model(images).data.argmax(1) == labels.data).sum())
        print(f"{name:8} {profiler.count_parameters(model):10,} {profiler.count_flops(model, (1, 64)):14,} {stats['median']:23.4f} {right:14}")

# %% [markdown]
"""
The counts will be the same tomorrow. The other two columns are drawn: the milliseconds from this minute of this machine, the right answers from the 355 images that happened to be held out. Before you read a difference in them, see one that means nothing. Here is the *same* model, five times, in one line
each, with Module 14's interval of the median:
"""

# %%
if __name__ == "__main__":
    for turn in range(5):
        stats = profiler.latency_statistics(models["base"], images[:1], iterations=30)
        low, high = stats["ci95"]
        print(f"base, turn {turn}: median {stats['median']:.4f} ms, 95 % interval of this run {low:.4f} to {high:.4f}")

# %% [markdown]
"""
If the intervals were what their name seems to say, they would nearly always overlap. Whether they do here depends on how quiet your machine is. Module 14 called them intervals *of this run*, and that is all they are: a run's samples are neighbours, and share its weather.

**Bet.** A machine warms up, so that every call takes a little longer than the one before: a thousandth. You time A a hundred times, then B a hundred times, and B *is* A. How much slower does B look? With a clock that is handed in, the answer is exact:
"""

# %%
if __name__ == "__main__":
    my_bet = None  # in percent


    class Warming(Layer):
        """A layer that takes 100 microseconds, and a thousandth more with each call that this machine makes."""

        def forward(self, x):
            calls[0] += 1
            now[0] += round(100_000 * (1 + calls[0] / 1000))
            return x


    now, calls = [0], [0]
    a, b, warming = Warming(), Warming(), Profiler(clock=lambda: now[0])
    first, then = (warming.latency_statistics(model, images[:1], warmup=0) for model in (a, b))
    calls[0] = 0
    pairs = warming.compare(a, b, images[:1], rounds=20, seed=0)
    print(f"A, then B:       B / A = {then['median'] / first['median']:.3f}, intervals {first['ci95'][0]:.3f} to {first['ci95'][1]:.3f} and {then['ci95'][0]:.3f} to {then['ci95'][1]:.3f} ms")
    print(f"shuffled pairs:  B / A = {pairs['ratio']:.3f}, {pairs['verdict']}; your bet: {my_bet}")

# %% [markdown]
"""
One after the other, B is about 10 % slower than itself, and the two intervals do not come near each other. In rounds of A B B A (or B A A B) a steady drift hits both alike and cancels. So **"faster" is said by `compare` alone**; a latency is a description, no verdict. Your benchmark will keep them apart.

That is half of the answer. The other half: how sure is a number that comes from a few *independent* tries, such as five trainings? And an accuracy from 355 images?

## 2. How often is an interval right?

**Question.** A recipe, trained from five seeds, has five accuracies. How far may the mean of five be from the mean of very many?
"""

# %%
if __name__ == "__main__":
    five = [models["base"], *(trained(64, 32, 10, seed=seed) for seed in range(1, 5))]
    runs = [float((model(images).data.argmax(1) == labels.data).mean()) for model in five]
    print("five seeds:", *[f"{run:.4f}" for run in runs], f" mean {fmean(runs):.4f}, standard deviation {stdev(runs):.4f}")

# %% [markdown]
"""
Every textbook has the formula mean ± 1.96 · s / √n, where s is the standard deviation of the samples. It is called a 95 % interval. That is a promise about a *procedure*: whoever draws n samples, again and again, and makes the interval each time, will have the truth inside it in 95 % of the times. This can be tried, if
you draw from something whose truth you know.

**Task.** Write the rest of `coverage(interval, draw, truth, trials)`. Each trial calls `draw()` for new samples and `interval(samples)` for a pair `(low, high)`. It holds if `low <= truth <= high`. Return the share of trials that held, a number from 0 to 1.

Example: the intervals (0, 2), (1, 3), (2, 4) and the truth 1: the first two hold it, the ends belong to an interval, so 2/3.

<details><summary>Hint 1: idea</summary>
Count, then divide once.
</details>
<details><summary>Hint 2: approach</summary>
A loop of <code>trials</code> turns. A comparison in Python may be a chain: <code>low &lt;= truth &lt;= high</code>. It counts as 1 or 0 when it is added.
</details>
<details><summary>Hint 3: worked example, something else</summary>
How often do two dice show the same? <code>same = 0</code>; in each of 600 turns <code>a, b = throw(), throw()</code> and <code>same += a == b</code>; at the end <code>same / 600</code>, near 1/6.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "coverage", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def coverage(interval, draw, truth, trials=2000):
    """Return the share of ``trials`` in which ``interval(draw())``, a pair (low, high), holds the truth."""
    trials = whole("trials", trials, 1)
    raise NotImplementedError("coverage: section 2, cell 2")

# %%
if __name__ == "__main__":
    rng = np.random.default_rng(0)


    def textbook(samples):
        half = 1.96 * stdev(samples) / sqrt(len(samples))
        return fmean(samples) - half, fmean(samples) + half


    for n in (2, 3, 5, 10, 30):
        share = coverage(textbook, lambda n=n: rng.normal(10, 1, n).tolist(), 10)
        print(f"n = {n:2}: the truth is inside in {share:.1%} of 2,000 trials")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-coverage", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "intervals"}
if __name__ == "__main__":
    from tito.checks import check, check_raises


    def test_coverage():
        """Five intervals, drawn anew each time, ends included."""
        known, drawn = [(0, 2), (1, 3), (2, 4), (-3, 0), (1, 1)], []

        def draw():
            drawn.append(known[len(drawn) % 5])
            return drawn[-1]

        check("the truth 1 in (0, 2), (1, 3), (2, 4), (-3, 0), (1, 1)", coverage(lambda pair: pair, draw, 1, trials=5), 0.6, {
            3: "a count: divide by the number of trials", 0.4: "that is how often the truth is missed",
            0.2: "the ends belong to an interval: low <= truth <= high", 0.8: "one end is not looked at: the truth lies between both", 1.0: "drawn once: every trial draws anew, and both ends are looked at"})
        check("draws", len(drawn), 5, {1: "drawn once: every trial draws anew", 10: "drawn twice a trial: draw once, and keep it"})
        check("an interval that always holds", coverage(lambda samples: (0, 10), lambda: [1], 5, trials=8), 1.0, {8: "a count: divide by the number of trials"})
        check("and one that never does", coverage(lambda samples: (6, 10), lambda: [1], 5, trials=8), 0.0, {1.0: "low is not looked at"})


    test_coverage()

# %% [markdown]
"""
With thirty samples the promise is nearly kept. With five it is broken more than twice as often as agreed, and with two it holds in 70 % of the trials: **a "95 %" interval that misses six times as often as it says.** Five runs are what people have.

**What if** the formula had used the true standard deviation in place of the one of the samples? Then it holds for every n, and you see where the fault is:
"""

# %%
if __name__ == "__main__":
    for n in (2, 5):
        share = coverage(lambda samples: (fmean(samples) - 1.96 / sqrt(len(samples)), fmean(samples) + 1.96 / sqrt(len(samples))), lambda n=n: rng.normal(10, 1, n).tolist(), 10)
        print(f"n = {n}: {share:.1%} with the true standard deviation 1")
    spread = sorted(stdev(rng.normal(10, 1, 5).tolist()) for _ in range(2000))
    print(f"s of five samples: half of the time below {spread[1000]:.2f}, one time in twenty below {spread[100]:.2f}; the truth is 1")

# %% [markdown]
"""
The mean is innocent. It is *s* that is a guess, too: of five samples it is often far too small, and then so is the interval.

## 3. Student's t

**Question.** How much wider must it be?

W. S. Gosset worked it out in a brewery, where a sample of four was a lot, and published as "Student" in 1908. If the samples are normal, then T = (mean − truth) / (s / √n) has a distribution that depends on n alone, through the **degrees of freedom** n − 1. The chance that T lies between −t and t is a finite sum. Put
θ = atan(t / √df); then, with sums that end at the power df − 2 (Abramowitz and Stegun, 26.7.3 and 26.7.4),

```
df odd:    2/π · ( θ + sin θ · ( cos θ + 2/3 cos³θ + 2/3 · 4/5 cos⁵θ + ... ) )        df = 1: no sum, 2/π · θ
df even:           sin θ · ( 1 + 1/2 cos²θ + 1/2 · 3/4 cos⁴θ + ... )                  df = 2: the sum is 1
```

Each term is the one before times a fraction times cos²θ. For the power j the fraction is (j − 1) / j, in both lines: 2/3 for j = 3, 4/5 for j = 5, 1/2 for j = 2, 3/4 for j = 4.

**Task.** Write `t_coverage(t, df)`. `atan, sqrt, cos, sin, pi` are there.

Example: t = √3, df = 3: θ = π/3 · 3/4 = π/4, sin θ = cos θ = √½, so 2/π · (π/4 + ½) = 1/2 + 1/π = 0.8183.

<details><summary>Hint 1: idea</summary>
Keep <code>term</code> and <code>total</code>. Begin with the first term, which is <code>cos θ</code> or 1, and multiply your way to the last.
</details>
<details><summary>Hint 2: approach</summary>
<code>odd = df % 2</code>. The powers after the first are <code>range(2 + odd, df - 1, 2)</code>: 3, 5, ... or 2, 4, ..., up to df − 2. For <code>df = 1</code> even the first term is not there: the total is 0.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
df = 7, cos²θ = 1/2, cos θ = 0.7071: the powers are 1, 3, 5. Terms 0.7071; 0.7071 · 2/3 · 1/2 = 0.2357; 0.2357 · 4/5 · 1/2 = 0.0943. Total 1.0371.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "t-coverage", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def t_coverage(t, df):
    """Return the chance that Student's t with ``df`` degrees of freedom lies between -t and t, for t >= 0.

    Exact, a finite sum (Abramowitz and Stegun, 1964, 26.7.3 and 26.7.4). Example: ``t_coverage(1.0, 1)`` is 1/2.
    """
    t, df = amount("t", t), whole("df", df, 1)
    raise NotImplementedError("t_coverage: section 3, cell 1")

# %%
if __name__ == "__main__":
    print("what ± 1.96 s/√n really covers, exactly:", *[f"n = {n}: {t_coverage(1.96, n - 1):.1%}" for n in (2, 3, 5, 10, 30, 1000)], sep="\n  ")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-t-coverage", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "intervals"}
if __name__ == "__main__":
    def test_t_coverage():
        """Angles of 45 degrees, by hand; the published table; the limit."""
        check("t = 1, df = 1: an angle of 45 degrees", t_coverage(1.0, 1), 0.5, {
            2 / np.pi * (np.pi / 4 + 0.5): "df = 1 has no sum: 2/π · θ", 0.25: "θ/π: that is one side; -t to t is both", 0.75: "the chance to lie below t: want between -t and t", np.sqrt(0.5): "the line for even df"})
        check("t = √2, df = 2: sin 45°", t_coverage(np.sqrt(2), 2), 0.70710678, {
            0.0: "df = 2: the sum is its first term, 1", np.sqrt(0.5) * 1.25: "one term too many: the last power is df - 2 = 0", 0.5: "the line for odd df"})
        check("t = √3, df = 3", t_coverage(np.sqrt(3), 3), 0.8183098862, {
            0.5: "the sum is left out: its first term is cos θ", 0.5 + np.sqrt(2) / np.pi: "the first term of an odd df is cos θ, not 1", 0.5 + 4 / 3 / np.pi: "one term too many: the last power is df - 2 = 1"})
        check("t = 2, df = 4", t_coverage(2.0, 4), 0.8838834765, {
            np.sqrt(0.5): "the last power, df - 2, is missing", np.sqrt(0.5) * 1.5: "times 1/2 is forgotten: the fraction of the power 2", np.sqrt(0.5) * (1 + 0.5 * np.sqrt(0.5)): "from power to power it is cos²θ, not cos θ",
            np.sqrt(0.5) * (1.25 + 3 / 32): "one term too many: the last power is df - 2"})
        check("t = √5, df = 5", t_coverage(np.sqrt(5), 5), 0.9244131816, {
            0.5 + 1 / np.pi: "the last power, df - 2, is missing", 0.5 + 2 / np.pi * 0.75: "the fraction of the power 3 is 2/3", 0.5 + 2 / np.pi * 0.625: "the fraction of the power 3 is 2/3, (j - 1) / j", 0.5 + 2 / np.pi * (0.5 + 0.5 / 3 + 0.5 * 8 / 60): "one term too many: the last power is df - 2"})
        check("t = √6, df = 6", t_coverage(np.sqrt(6), 6), 0.9501747824, {np.sqrt(0.5) * (1.25 + 3 / 16): "each term is the one before times a fraction: 1/2 · 3/4"})
        check("the table's t for 95 %, df = 10", t_coverage(2.228139, 10), 0.95, rtol=1e-6)
        check("the table's t for 99 %, df = 29", t_coverage(2.756386, 29), 0.99, rtol=1e-6)
        check("t = 0", t_coverage(0.0, 7), 0.0)
        check("many: near the normal's", t_coverage(1.959964, 100_000), 0.95, rtol=1e-5)


    test_t_coverage()

# %% [markdown]
"""
This is the simulation's column, without the luck. You may now ask it the other way round: which t covers 95 %? The function rises with t, so the answer can be boxed in: double an upper end until it covers enough, then halve the box until no number lies between its ends. Given, with two helpers that refuse what is no number and no
confidence:
"""

# %%
#| export
def numbers(what, values):
    """Return values as a list of floats up to 1e150 in size; ``TypeError`` or ``ValueError`` for anything else."""
    if not isinstance(values, Iterable):
        raise TypeError(f"{what} is {values!r}; want a list of numbers")
    values = [real(f"{what}[{i}]", value) for i, value in enumerate(values)]
    if not values:
        raise ValueError(f"no {what} came; want at least one number")
    for i, value in enumerate(values):
        if abs(value) > 1e150:  # the squares of larger ones are beyond every float
            raise ValueError(f"{what}[{i}] is {value}; want finite numbers, up to 1e150; find out where it came from")
    return values


def level(confidence):
    """Return a confidence as a float; ``ValueError`` unless above 0 and at most 0.999999."""
    if not 0 < real("confidence", confidence) <= 0.999999:
        raise ValueError(f"confidence is {confidence}; want a share above 0 and at most 0.999999, such as 0.95")
    return float(confidence)

# %%
#| export
@lru_cache(maxsize=1024, typed=True)
def t_factor(confidence, df):
    """Return the t for which ``t_coverage(t, df)`` is ``confidence``: 12.706 for 0.95 and 1, near 1.96 for many.

    ``ValueError``: a confidence not above 0 and at most 0.999999, ``df`` below 1, or a ``t_coverage`` that stays low.
    """
    confidence, df = level(confidence), whole("df", df, 1)
    low, high = 0.0, 1.0
    while t_coverage(high, df) < confidence:
        low, high = high, 2 * high
        if high > 2**60:
            raise ValueError(f"t_coverage({high:g}, {df}) is {t_coverage(high, df)}; want almost 1 for so large a t")
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if t_coverage(middle, df) < confidence else (low, middle)
    return high

# %%
if __name__ == "__main__":
    print("  n   t for 95 %   times as wide as ± 1.96")
    for n in (2, 3, 4, 5, 6, 10, 30, 1000):
        print(f"{n:4} {t_factor(0.95, n - 1):10.3f} {t_factor(0.95, n - 1) / 1.959964:14.2f}")

# %% [markdown]
"""
From two samples the interval must be six and a half times as wide. That is the price of not knowing s. Three samples cost a third of that, and from about ten on the difference is small.

**Task.** Write the rest of `mean_interval(samples, confidence)`: mean ± t · s / √n, as a pair `(low, high)`. `s` is `stdev(samples)`, which divides by n − 1; the mean is `fmean(samples)`; t is `t_factor(confidence, n - 1)`. One sample says nothing of spread: return `None`, as Module 14's intervals do when they have too few.

Example: 0, 0, 3. The mean is 1, s = √((1 + 1 + 4) / 2) = √3, s / √3 = 1, t for two degrees of freedom 4.303: (−3.303, 5.303).

<details><summary>Hint 1: idea</summary>
The textbook's formula, with another factor.
</details>
<details><summary>Hint 2: approach</summary>
<code>n = len(samples)</code>; return early for n below 2; then <code>half</code>, and <code>mean - half, mean + half</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
4, 6: the mean is 5, s = √2, s / √2 = 1, t for one degree 12.706: (−7.706, 17.706). Two numbers next to each other, and one knows next to nothing.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "mean-interval", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def mean_interval(samples, confidence=0.95):
    """Return (low, high), Student's interval of the mean: mean ± t s/√n, t with n - 1 degrees of freedom.

    None for one sample, which says nothing of spread. It is right, for any n from 2, where samples are independent and
    normal; means of skewed samples need more of them, and samples that hang together (latencies of one run) are
    covered too rarely by any n. It has the unit of the samples. Source: Student (W. S. Gosset), 1908.
    """
    samples, confidence = numbers("samples", samples), level(confidence)
    raise NotImplementedError("mean_interval: section 3, cell 7")

# %%
if __name__ == "__main__":
    low, high = mean_interval(runs)
    print(f"five seeds of 64-32-10: mean accuracy {fmean(runs):.2%}, 95 % interval {low:.2%} to {high:.2%} (textbook: {textbook(runs)[0]:.2%} to {textbook(runs)[1]:.2%})")
    print(f"coverage at n = 5: {coverage(mean_interval, lambda: rng.normal(10, 1, 5).tolist(), 10):.1%}, at n = 2: {coverage(mean_interval, lambda: rng.normal(10, 1, 2).tolist(), 10):.1%}")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-mean-interval", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "intervals"}
if __name__ == "__main__":
    def test_mean_interval():
        """Two, three and five samples; other confidences; too few."""
        five, s = [1, 2, 3, 4, 5], np.sqrt(2.5)

        def around(middle, half):
            return (middle - half, middle + half)

        check("1, 2, 3, 4, 5", mean_interval(five), (1.0367568, 4.9632432), {
            around(3, 1.959964 * s / np.sqrt(5)): "the normal's factor: want Student's", around(3, 1.96 * s / np.sqrt(5)): "1.96 is for very many samples: want t_factor",
            around(3, 2.570582 * s / np.sqrt(5)): "n degrees of freedom: the mean has used up one, want n - 1", around(3, 3.182446 * s / np.sqrt(5)): "n - 2 degrees of freedom: want n - 1",
            around(3, 2.776445 * s): "not divided by √n: that is the spread of one sample, not of their mean", around(3, 2.776445 * s / 5): "divided by n: want √n",
            around(3, 2.776445 * np.sqrt(2) / np.sqrt(5)): "s divides by n - 1 here: stdev, not NumPy's std", around(3, 2.776445 * 2.5 / np.sqrt(5)): "that is the variance: want its root, stdev",
            around(0, 2.776445 * s / np.sqrt(5)): "the half width alone: put it around the mean", 2.776445 * s / np.sqrt(5): "the half width alone: want (low, high)", around(3, 2.131847 * s / np.sqrt(5)): "5 % on each side is left out: t_factor wants the confidence itself"}, rtol=1e-5)
        check("0, 0, 3: t is 4.303", mean_interval([0, 0, 3]), (-3.3026527, 5.3026527), {around(0, 4.3026527): "around the median: want the mean"}, rtol=1e-6)
        check("0, 2: t is 12.706", mean_interval([0, 2]), (-11.7062047, 13.7062047), rtol=1e-6)
        check("the same at 99 %: t is 63.657", mean_interval([0, 2], confidence=0.99), (-62.6567412, 64.6567412), {(-11.7062047, 13.7062047): "confidence is not handed on"}, rtol=1e-6)
        check("one sample", mean_interval([7.0]), None, {(7.0, 7.0): "no width at all would mean that it is known exactly", (np.nan, np.nan): "NaN is no answer: want None"})
        check("five equal ones", mean_interval([4.0] * 5), (4.0, 4.0))


    test_mean_interval()

# %% [markdown]
"""
**What if** the samples are not what Gosset assumed? Two assumptions, and they are not equally dangerous. *Normal*: here are skewed samples (most small, some large, like the times of anything that waits). *Independent*: here are samples of which each repeats 86 % of the one before, as neighbouring latencies do
that were measured in one burst. **Guess** what 50 samples cover.
"""

# %%
if __name__ == "__main__":
    def hanging(n, share=0.86):
        """Return n normal samples of mean 0 and variance 1, each correlated with the one before."""
        noise = rng.normal(0, 1, n).tolist()
        for i in range(1, n):
            noise[i] = share * noise[i - 1] + sqrt(1 - share**2) * noise[i]
        return noise


    print("  n   normal   skewed   hanging together")
    for n in (5, 50):
        found = [coverage(mean_interval, draw, truth, trials=1000) for draw, truth in ((lambda n=n: rng.normal(0, 1, n).tolist(), 0), (lambda n=n: rng.lognormal(0, 1, n).tolist(), exp(0.5)), (lambda n=n: hanging(n), 0))]
        print(f"{n:3} ", *[f"{share:7.1%} " for share in found])
    print(f"50 that hang together vary, in their mean, like {1 / np.var([fmean(hanging(50)) for _ in range(1000)]):.1f} independent ones")

# %% [markdown]
"""
Skewness is forgiven when n grows. Dependence is not: fifty samples of such a burst know about as much as four or five independent ones, and the formula divides by √50 all the same. So `mean_interval` is for tries that are independent by construction, such as seeds; latencies get Module 14's median, and verdicts its pairs.

Does the median do better on the skewed ones? Its interval is made of order statistics and does not ask for any shape. It needs six samples, and says so below:
"""

# %%
if __name__ == "__main__":
    from tinytorch.perf.profiling import median_interval

    print("five samples:", median_interval([1, 2, 3, 4, 5]))
    print(f"six skewed samples hold their median in {coverage(median_interval, lambda: rng.lognormal(0, 1, 6).tolist(), 1.0):.1%} of the trials; exactly 1 - 2/64 = {1 - 2 / 64:.1%} for any shape without ties")

# %% [markdown]
"""
## 4. How sure is an accuracy?

**Question.** 347 of 355 held-out digits were right. And what if it had been all of them: is the model perfect?

Each image is a coin that falls on "right" with an unknown chance p; 355 throws. The textbook again has a formula, share ± z · √(share (1 − share) / n), with z = 1.96 for 95 %. Put in 355 of 355:
"""

# %%
if __name__ == "__main__":
    for right in (347, 355):
        share = right / 355
        half = 1.96 * sqrt(share * (1 - share) / 355)
        print(f"{right} of 355: {share:.2%}, textbook {share - half:.2%} to {share + half:.2%}")

# %% [markdown]
"""
100 % ± 0: certain, from 355 images. The formula takes the uncertainty from the share that was *seen*, and where nothing went wrong it sees none. E. B. Wilson (1927) asked the question the other way round: for which p would what I saw be at most z standard deviations away? The standard deviation then comes from p:

```
| share − p |  ≤  z · √( p (1 − p) / n )
```

Squared, that is a quadratic in p. Its two roots are the ends. With w = z² / n:

```
centre = ( share + w/2 ) / ( 1 + w )              half = √( w · ( share · (1 − share) + w/4 ) ) / ( 1 + w )
```

The centre is drawn a little toward ½, as if a few more images had been seen, half of them right. Nothing right begins at exactly 0, all right ends at exactly 1.

**Task.** Write the rest of `accuracy_interval(right, total, confidence)`; z is given. Rounding may leave these two ends a hair off: return exactly `0.0` as the lower end of 0 of n, and exactly `1.0` as the upper end of n of n.

Example: 8 of 10: w = 0.384, centre (0.8 + 0.192) / 1.384 = 0.717, half √(0.384 · (0.16 + 0.096)) / 1.384 = 0.227: (0.490, 0.943).

<details><summary>Hint 1: idea</summary>
Two lines of formula, and two exceptions.
</details>
<details><summary>Hint 2: approach</summary>
<code>share, w = right / total, z**2 / total</code>. A conditional expression for each end: <code>0.0 if right == 0 else centre - half</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
0 of 4: w = 0.96, centre 0.48 / 1.96 = 0.245, half √(0.96 · 0.24) / 1.96 = 0.245: from 0 to 0.490. Four failures in four tries leave room for a chance of nearly one half.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "accuracy-interval", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def accuracy_interval(right, total, confidence=0.95):
    """Return (low, high), Wilson's interval of a share of which ``right`` of ``total`` were seen; inside 0 to 1.

    0 of n begins at exactly 0, n of n ends at exactly 1, and neither has no width. It covers ``confidence`` on average
    over all chances p, and less with p near 0 or 1 (95 % becomes 85 % at worst for 20). ``ValueError``: more right
    than there are. Source: Wilson, 1927.
    """
    total, right, confidence = whole("total", total, 1), whole("right", right, 0), level(confidence)
    if not right <= total <= 2**53:
        raise ValueError(f"{right} right of {total}; want at most all of them, right first, then total (up to 2**53)")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    raise NotImplementedError("accuracy_interval: section 4, cell 2")

# %%
if __name__ == "__main__":
    for right in (347, 354, 355):
        low, high = accuracy_interval(right, 355)
        print(f"{right} of 355: {right / 355:.2%}, Wilson {low:.2%} to {high:.2%}")
    print("coverage at n = 20, p = 0.95:", *[f"{name} {coverage(make, lambda: int(rng.binomial(20, 0.95)), 0.95):.1%}" for name, make in (
        ("Wilson", lambda k: accuracy_interval(k, 20)), ("textbook", lambda k: (k / 20 - 1.96 * sqrt(k * (20 - k) / 8000), k / 20 + 1.96 * sqrt(k * (20 - k) / 8000))))], sep="  ")

# %%
if __name__ == "__main__":
    from math import comb as ways

    ends = [accuracy_interval(k, 20) for k in range(21)]
    over = [sum(ways(20, k) * p**k * (1 - p) ** (20 - k) for k, (low, high) in enumerate(ends) if low <= p <= high) for p in np.arange(1, 1000) / 1000]
    print(f"Wilson at n = 20, exactly, for p from 0.001 to 0.999: {fmean(over):.1%} on average, {min(over):.1%} at the worst")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-accuracy-interval", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "accuracy"}
if __name__ == "__main__":
    def test_accuracy_interval():
        """By hand, none, all, other confidences."""
        z, w = 1.959964, 0.3841459
        centre, half, short = (0.8 + w / 2) / (1 + w), np.sqrt(w * (0.16 + w / 4)) / (1 + w), np.sqrt(w * 0.16) / (1 + w)
        check("8 of 10", accuracy_interval(8, 10), (0.4901625, 0.9433178), {
            (0.8 - z * 0.4 / np.sqrt(10), 0.8 + z * 0.4 / np.sqrt(10)): "the textbook's: its end lies above 1", (0.8 - z * 0.4 / np.sqrt(10), 1.0): "the textbook's, cut off at 1",
            (0.8 - half, 0.8 + half): "around the share: Wilson's centre is drawn toward 1/2", ((0.8 + w / 2) - half * (1 + w), (0.8 + w / 2) + half * (1 + w)): "both are divided by 1 + w",
            (centre - short, centre + short): "w/4 under the root is forgotten", ((0.8 + w) / (1 + w) - half, (0.8 + w) / (1 + w) + half): "half of w goes into the centre, not all of it"}, rtol=1e-5)
        check("0 of 10", accuracy_interval(0, 10), (0.0, w / (1 + w)), {(0.0, 0.0): "certain, from ten tries? the uncertainty must not come from the share that was seen"}, rtol=1e-6)
        check("the lower end of 0 of n is 0, exactly", [accuracy_interval(0, n)[0] for n in (1, 7, 10, 19, 355)], [0.0] * 5, rtol=0, atol=0)
        check("the upper end of n of n is 1, exactly", [accuracy_interval(n, n)[1] for n in (1, 7, 10, 19, 355)], [1.0] * 5, rtol=0, atol=0)
        check("355 of 355", accuracy_interval(355, 355), (0.9892946, 1.0), {(1.0, 1.0): "certain, from 355 images?"}, rtol=1e-6)
        check("50 of 100 at 99 %: z is 2.576", accuracy_interval(50, 100, 0.99), (0.3752796, 0.6247204), {(0.4038315, 0.5961685): "z is given: 1.96 is for 95 % only"}, rtol=1e-5)


    test_accuracy_interval()

# %% [markdown]
"""
All of 355 right means "at least 98.9 %", and 20 throws with a chance of 95 % show what the textbook's interval is worth near the edge. (Wilson's is not exact. Counts are whole, so its coverage goes up and down as p moves: the last line weighs every count by its chance. On average over p the promise is kept; near 0 and 1 it is not. An exact one,
by Clopper and Pearson, never falls below, and pays with width.)

**A misconception.** "The intervals of two models overlap, so there is no difference." For two *different* sets of images that is a rough rule. But both models saw the *same* 355. Image by image:

|  | second right | second wrong |
|---|---|---|
| first right | both: says nothing | only the first |
| first wrong | only the second | neither: says nothing |

Where both are right or both are wrong, nothing distinguishes them. What is left are the images that only one of them got. If the models are equally good, each such image is a fair coin: heads "only the first", tails "only the second". With 9 heads and 0 tails one begins to doubt the coin.

**Task.** Write `sign_test(ups, downs)`: how likely is a split at least as uneven as this one, in either direction, from n = ups + downs throws of a fair coin? Of 2ⁿ equally likely rows, C(n, k) have k heads (`from math import comb`, or from one to the next: C(n, 0) = 1, C(n, k + 1) = C(n, k) · (n − k) / (k + 1), always a whole number, so divide by `//`). Add those up for k from 0 to the smaller count, double it (the other direction), divide by 2ⁿ. A chance is at most
1. No throws at all: 1.0.

Example: 1 against 4. n = 5, C(5,0) + C(5,1) = 1 + 5 = 6, doubled 12, of 32: 0.375.

<details><summary>Hint 1: idea</summary>
Count rows of coins: those as uneven, or more, over all there are.
</details>
<details><summary>Hint 2: approach</summary>
Keep <code>rows</code>, which is C(n, k), and <code>tail</code>, their sum so far; both begin at 1, for k = 0. (Or <code>sum(comb(n, k) for k in range(...))</code>, in which the end of the <code>range</code> is left out; slower, for thousands.) Python's whole numbers have no largest one: divide whole numbers, at the end.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
2 against 2: C(4,0) + C(4,1) + C(4,2) = 11, doubled 22, of 16: more than 1, since the even split was counted in both directions. So 1.0.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "sign-test", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def sign_test(ups, downs):
    """Return the two-sided p-value of ``ups`` against ``downs`` under a fair coin, exactly; 1.0 where there are none.

    The chance of a split at least as uneven, in either direction. Example: ``sign_test(0, 5)`` is 2/32.
    """
    ups, downs = whole("ups", ups, 0), whole("downs", downs, 0)
    raise NotImplementedError("sign_test: section 4, cell 6")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-sign-test", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "accuracy"}
if __name__ == "__main__":
    def test_sign_test():
        """By hand, in both orders, even splits, none, and thousands."""
        check("1 against 4", sign_test(1, 4), 0.375, {
            1.0: "counted up to the larger one: want the smaller",         0.1875: "one direction only: double it", 10 / 32: "that split alone: want those more uneven, too", 2 / 32: "more uneven ones only: the split itself belongs to them (a range ends before its end)", 12: "a count of rows: divide by 2^n"})
        check("4 against 1 is the same", sign_test(4, 1), 0.375, {1.0: "counted up to the larger one: want the smaller", 31 / 16: "counted up to the larger one: want the smaller"})
        check("0 against 9", sign_test(0, 9), 0.00390625, {1 / 512: "one direction only: double it"})
        check("3 against 3", sign_test(3, 3), 1.0, {84 / 64: "a chance is at most 1: the even split was counted twice"})
        check("nothing to throw", sign_test(0, 0), 1.0, {2.0: "a chance is at most 1"})
        check("1,900 against 2,100", sign_test(1900, 2100), 0.0016492664, {0.0: "2^-4000 is below every float: divide whole numbers"}, rtol=1e-6)


    test_sign_test()

# %% [markdown]
"""
This is McNemar's test (1947) in its exact form. Given: `paired_accuracy`, which does the counting, and adds an interval of the difference (Agresti and Min, 2005), since "how much" matters more than "whether". They are two methods, and need not agree: where only five images differ, all one way, p is 1/16, and the interval already leaves 0 out. The exact test is the more cautious one.
"""

# %%
#| export
def marks(what, right):
    """Return (N,) booleans, one for each example: right or wrong; ``TypeError`` or ``ValueError`` for anything else."""
    array = np.asarray(right.data if isinstance(right, Tensor) else right)
    if array.dtype != bool:
        raise TypeError(f"{what} is {array.dtype}; want booleans, one for each example: predicted == labels")
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{what} has shape {array.shape}; want (N,), one for each example")
    return array


def difference_interval(only_first, only_second, total, confidence=0.95):
    """Return (low, high) of how much more often the second is right, both asked the same ``total`` questions.

    Half a question is added to each of the four cells (right and wrong, by both). Source: Agresti and Min, 2005.
    """
    only_first, only_second = whole("only_first", only_first, 0), whole("only_second", only_second, 0)
    total = whole("total", total, max(1, only_first + only_second))
    gained, lost = (only_second + 0.5) / (total + 2), (only_first + 0.5) / (total + 2)
    middle, z = gained - lost, NormalDist().inv_cdf(0.5 + level(confidence) / 2)
    half = z * sqrt((gained + lost - middle**2) / (total + 2))
    return max(middle - half, -1.0), min(middle + half, 1.0)

# %%
#| export
def paired_accuracy(right_first, right_second, confidence=0.95):
    """Compare two models on the same examples: (N,) booleans each, True where the model was right.

    Keys:
        only_first, only_second: counts of examples that one of the two alone got right.
        difference: second minus first, a share of all, -1 to 1.
        interval: (low, high) of it, see ``difference_interval``.
        p_value: McNemar's test, 1947, in its exact form: the sign test on the examples on which they differ.

    Two methods: where few examples differ, p_value is the more cautious one, and may be above 0.05 although the
    interval leaves out 0. ``ValueError``: two lengths. ``TypeError``: no booleans.
    """
    first, second = marks("right_first", right_first), marks("right_second", right_second)
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} examples; want the same ones, in the same order")
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    return {"only_first": only_first, "only_second": only_second, "difference": (only_second - only_first) / len(first),
            "interval": difference_interval(only_first, only_second, len(first), confidence),
            "p_value": sign_test(only_first, only_second)}

# %%
if __name__ == "__main__":
    first, second = np.arange(355) < 337, np.arange(355) < 346  # wherever the first is right, so is the second
    print("first ", f"{first.mean():.1%}, 95 % interval", *[f"{end:.1%}" for end in accuracy_interval(int(first.sum()), 355)])
    print("second", f"{second.mean():.1%}, 95 % interval", *[f"{end:.1%}" for end in accuracy_interval(int(second.sum()), 355)])
    print("on the same images:", {key: value if isinstance(value, (int, tuple)) else round(value, 4) for key, value in paired_accuracy(first, second).items()})
    print("five that differ:", f"p = {sign_test(0, 5)}, interval", *[f"{end:.2%}" for end in difference_interval(0, 5, 355)])

# %% [markdown]
"""
The intervals overlap widely, and yet the second is better: it was so on nine images, and never the other way. An interval of *one* model asks what other images would do, and both models would have met the same other images. This is section 1 again: **compare by pairs**.

Two questions, two intervals; do not mix them. `accuracy_interval` is about *this trained model* on other images. `mean_interval` over seeds is about *the recipe* on these images. Neither contains the other.

## 5. One benchmark: data first

**Question.** What does one line of a benchmark need, so that someone else can believe it?

Counts that repeat; times with their samples; what was run, on what. All of that Module 14 measures. So your benchmark has no clock: it asks a `Profiler`, and whoever hands in a `Profiler` with a clock gets exact answers.

**Task.** Write `measure_model(profiler, model, x, warmup, iterations)`, `x` a batch (B, ...). It returns a dict:

| key | from |
|---|---|
| `parameters` | `profiler.count_parameters(model)` |
| `flops` | `profiler.count_flops(model, x.shape)`: of one example, whatever B is |
| `parameter_bytes`, `peak_bytes` | `profiler.measure_memory(model, x.shape, x)`: its `"parameter_memory_mb"` and `"peak_memory_mb"` are in units of `MB` bytes; make whole numbers of them, `round(... * MB)` |
| `latency_ms`, `latency_interval` | `profiler.latency_statistics(model, x, warmup, iterations)`: its `"median"` and `"ci95"` |
| `times_ms`, `samples_are`, `warnings`, `workload` | the same, under the same names |

Bytes are asked for, not computed from parameters: an int8 weight has one, and Module 15 lives on that.

Example: a `Linear(64, 10)` has 650 parameters in 2,600 bytes and costs 1,280 FLOPs for one image, with one image in the batch or with five.

<details><summary>Hint 1: idea</summary>
Two questions that return numbers, two that return dicts. Then pick.
</details>
<details><summary>Hint 2: approach</summary>
Ask each of the two dicts once and keep it: asked twice for median and interval, they would come from two different runs.
</details>
<details><summary>Hint 3: worked example, something else</summary>
<code>found = profiler.roofline(flops, bytes_moved)</code>, then <code>{"ms": found["..."], "kind": found["..."]}</code>: one question, several answers.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "measure-model", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def measure_model(profiler, model, x, warmup=10, iterations=100):
    """Measure one model on one batch x (B, ...) with Module 14's Profiler; return a dict, units in the names.

    Keys:
        parameters, flops: a count; FLOPs of one example.
        parameter_bytes, peak_bytes: bytes of the weights, and at the peak of one pass.
        latency_ms, latency_interval: median ms of a call; (low, high) of it, ms, None under six samples.
        times_ms, samples_are, warnings, workload: of ``latency_statistics``.
    """
    raise NotImplementedError("measure_model: section 5, cell 1")

# %%
if __name__ == "__main__":
    found = measure_model(profiler, models["base"], images[:1], iterations=30)
    print({key: value for key, value in found.items() if key not in ("times_ms", "workload", "warnings")})

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-measure-model", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "benchmarks"}
if __name__ == "__main__":
    class Machine(Layer):
        """A linear layer and a table of int8, on a machine of which every tenth call takes 12 ms and the others 2."""

        def __init__(self):
            self.linear, self.table = Linear(64, 10), Tensor(np.zeros(100, np.int8))

        def forward(self, x):
            ticks["calls"] += 1
            ticks["ns"] += 12_000_000 if ticks["calls"] % 10 == 0 else 2_000_000
            return self.linear(x)


    ticks = {"calls": 0, "ns": 0}


    def test_measure_model():
        """A machine whose answers are known, and a batch of five."""
        asked = Profiler(clock=lambda: ticks["ns"])
        found = measure_model(asked, Machine(), images[:5], warmup=3, iterations=40)
        check("parameters: 64 x 10 + 10, and a table of 100", found["parameters"], 750)
        check("bytes of parameters: 650 x 4 + 100 x 1", found["parameter_bytes"], 2700, {3000: "4 bytes for each: ask measure_memory, int8 has 1", 2700 / 2**20: "in MB: times MB", 0: "rounded before it was multiplied"})
        check("a whole number", type(found["parameter_bytes"]).__name__, "int", {"float": "round(...) makes a whole number"})
        check("FLOPs of one example: 2 x 64 x 10", found["flops"], 1280, {6400: "of the whole batch: hand over x.shape, and take what comes"})
        check("latency: the median", found["latency_ms"], 2.0, {3.0: "the mean: one call in ten is slow, and it moves", 2e6: "nanoseconds: want ms", 12.0: "the slowest"})
        check("its interval", found["latency_interval"], (2.0, 2.0), {None: "there are 40 samples: take ci95"})
        check("samples: as many as asked for", len(found["times_ms"]), 40, {100: "iterations is not handed on"})
        check("warmup handed on", found["workload"]["warmup"], 3, {10: "warmup is not handed on"})
        check("the batch that was timed", found["workload"]["shapes"], [[5, 64]])
        check("peak: at least parameters, input, output", found["peak_bytes"] >= 2700 + 5 * 64 * 4 + 5 * 10 * 4, True, {False: "take peak_memory_mb times MB"})
        check("all keys", sorted(found), ["flops", "latency_interval", "latency_ms", "parameter_bytes", "parameters", "peak_bytes", "samples_are", "times_ms", "warnings", "workload"])
        timed = [label for label in asked.measurements if label.startswith(("latency_statistics", "measure_latency"))]
        check("runs that were timed", len(timed), 1, {2: "timed twice: median and interval must come from one run", 0: "timed by something else: ask the Profiler"})


    test_measure_model()

# %% [markdown]
"""
Now the comparison around it, given. A `ModelResult` is plain data: numbers, lists, text, and the raw samples, so that whoever doubts the median can compute it again.
"""

# %%
#| export
@dataclass(frozen=True)
class ModelResult:
    """What a benchmark found of one model: plain data; ``to_dict()`` is strict JSON. None: it was not measured.

    Attributes:
        name: of the model.
        parameters, flops: a count; FLOPs of one example.
        parameter_bytes, peak_bytes: bytes of the weights, and at the peak of one pass.
        latency_ms, latency_interval: median ms of a call; (low, high) of it, ms.
        times_ms, samples_are, warnings, workload: of ``latency_statistics``; times_ms are the samples, ms.
        ratio, ratio_interval, resolvable, verdict, rounds, seed, outputs_equal: time against the baseline's, from
            shuffled pairs (``compare``); the baseline has 1.0 and the verdict "baseline".
        right, total, accuracy, accuracy_interval: of the labelled examples: counts, and shares from 0 to 1.
        paired: ``paired_accuracy`` of the baseline and this model.
    """

    name: str
    parameters: int
    parameter_bytes: int
    peak_bytes: int
    flops: int
    latency_ms: float
    latency_interval: tuple | None
    times_ms: list
    samples_are: str
    warnings: list
    workload: dict
    ratio: float | None = 1.0
    ratio_interval: tuple | None = None
    resolvable: float | None = None
    verdict: str = "baseline"
    rounds: int = 0
    seed: int | None = None
    outputs_equal: str = "exactly"
    right: int | None = None
    total: int | None = None
    accuracy: float | None = None
    accuracy_interval: tuple | None = None
    paired: dict | None = None

    def to_dict(self):
        """Return all of it as dicts, lists, numbers and strings."""
        plain = asdict(self)
        if self.paired is not None:
            plain["paired"]["interval"] = list(self.paired["interval"])
        return {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}


def right_or_wrong(model, inputs, labels):
    """Return (N,) booleans: whether the largest of model(inputs) (N, C) is at the label; labels (N,) whole, any array.

    ``TypeError``: the model gave no Tensor. ``ValueError``: no (N, C), no finite scores, labels not whole or beyond C.
    """
    labels = class_numbers(labels, np.size(labels))
    with untouched(model), no_grad():
        scores = model(inputs)
    if not isinstance(scores, Tensor):
        raise TypeError(f"the model gave a {type(scores).__name__}; want a Tensor of scores ({labels.size}, classes)")
    if scores.ndim != 2 or scores.shape[0] != labels.size:
        raise ValueError(f"the model gave {scores.shape} for {labels.size} labels; want ({labels.size}, classes)")
    if not np.isfinite(scores.data).all():
        raise ValueError("the model gave a score that is no finite number, so it has decided nothing; mend the model")
    if not 0 <= labels.data.min() <= labels.data.max() < scores.shape[1]:
        raise ValueError(f"labels go from {labels.data.min()} to {labels.data.max()}, and the model has scores for "
                         f"{scores.shape[1]} classes; want 0 to {scores.shape[1] - 1}")
    return scores.data.argmax(axis=1) == labels.data

# %%
#| export
def named_models(models):
    """Return {name: model} of at least one; ``TypeError`` or ``ValueError`` otherwise."""
    if not isinstance(models, Mapping):
        raise TypeError(f"models is a {type(models).__name__}; want a dict, name to model, the baseline first")
    if not models:
        raise ValueError("no models came; want a dict with at least one, the baseline first")
    for name, model in models.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"a model's name is {name!r}; want a text that is not empty")
        if not callable(model) or isinstance(model, type):
            raise TypeError(f"{name} is {model!r}; want a model: a Layer, or a function of the inputs")
    return dict(models)


def class_numbers(labels, examples):
    """Return labels (N,) as a Tensor of whole numbers, one for each example; ``ValueError`` otherwise."""
    labels = labels if isinstance(labels, Tensor) else Tensor(np.asarray(labels), dtype=np.asarray(labels).dtype)
    if labels.dtype.kind not in "iu" or labels.shape != (examples,):
        raise ValueError(f"labels are {labels.dtype} {labels.shape}; want whole class numbers ({examples},), one for "
                         "each example")
    return labels

# %%
#| export
def judged(right, baseline=None):
    """Return right, total, accuracy and its interval, and paired, of one model's (N,) booleans and the baseline's."""
    if right is None:
        return {}
    count, total = int(right.sum()), len(right)
    return {"right": count, "total": total, "accuracy": count / total,
            "accuracy_interval": accuracy_interval(count, total),
            "paired": None if baseline is None else paired_accuracy(baseline, right)}

# %% [markdown]
"""
`Benchmark` takes a dict of models, the baseline first. Three things in it are worth a look:

- `against_baseline` asks `compare`, so a ratio comes from shuffled pairs only, and outputs must *agree* before anything is timed;
- different models (another size, a lossy change) do not agree, and whoever means that has to say `may_differ=True`. Then labels are required: they say how good each one is;
- everything runs in evaluation mode, and models are left as they were.
"""

# %%
#| export
class Benchmark:
    """Several models on the same inputs: what each weighs, computes and takes, how good it is, and who is faster.

    models: {name: model}, the baseline first; inputs (N, ...); labels (N,), class numbers, or None. A timed call takes
    the first ``batch`` of the inputs (all, unless given), accuracy is of all. Outputs must agree with the baseline's
    (``rtol``, ``atol``, ``decision``: as for ``compare``), unless ``may_differ`` says that these are different models:
    then labels must say how good each is, and shapes and types alone are compared. All is measured in evaluation mode,
    without gradients, by ``profiler`` (a ``Profiler``; its clock is the only one). Models are left as they were.
    ``TypeError``: arguments of another kind, or empty. ``ValueError``: labels, ``batch`` or ``may_differ`` do not fit.
    """

    DIFFERENT = 1e300  # an atol that any finite number is within

    def __init__(self, models, inputs, labels=None, *, batch=None, may_differ=False, rtol=None, atol=None,
                 decision=None, profiler=None):
        if not isinstance(inputs, Tensor) or inputs.ndim < 1 or not inputs.size:
            came = f"an empty {inputs.shape}" if isinstance(inputs, Tensor) else f"a {type(inputs).__name__}"
            raise TypeError(f"inputs is {came}; want a Tensor of examples (N, ...), at least one")
        if not (profiler is None or isinstance(profiler, Profiler)):
            raise TypeError(f"profiler is {profiler!r}; want a Profiler, such as Profiler(), or None for one")
        self.models, self.inputs = named_models(models), inputs
        self.labels = None if labels is None else class_numbers(labels, len(inputs.data))
        self.batch = len(inputs.data) if batch is None else whole("batch", batch, 1)
        if self.batch > len(inputs.data):
            raise ValueError(f"batch is {batch}, and there are {len(inputs.data)} examples; want at most all of them")
        if may_differ and (labels is None or (rtol, atol, decision) != (None, None, None)):
            raise ValueError("may_differ: want labels, which then say how good each model is, and no rtol, atol or "
                             "decision")
        self.may_differ, self.profiler = bool(may_differ), Profiler() if profiler is None else profiler
        self.rtol, self.atol, self.decision = rtol, self.DIFFERENT if may_differ else atol, decision

    def against_baseline(self, name, rounds=None, seed=None):
        """Time a model against the baseline in the mode they are in; return a dict of the fields of ``ModelResult``.

        Keys:
            ratio, ratio_interval, resolvable, verdict, rounds, seed, outputs_equal, warnings: as there.

        Raises:
            ValueError: its outputs do not agree with the baseline's; the model is named.
        """
        baseline, x = next(iter(self.models.values())), self.inputs[:self.batch]
        try:
            found = self.profiler.compare(baseline, self.models[name], x, self.rtol, self.atol, self.decision,
                                          rounds=rounds, seed=seed)
        except ValueError as refused:
            raise ValueError(f"{name}: {refused}") from refused
        return {"ratio": found["ratio"], "ratio_interval": found["interval"], "resolvable": found["resolvable"],
                "verdict": found["verdict"], "rounds": found["rounds"], "seed": found["workload"]["seed"],
                "warnings": found["warnings"],
                "outputs_equal": "not asked" if self.may_differ else found["outputs_equal"]}

    def run(self, warmup=10, iterations=100, *, rounds=None, seed=None):
        """Measure all models and return a list of ``ModelResult``, in the order given.

        ``warmup``, ``iterations``: of ``latency_statistics``; ``rounds``, ``seed``: of ``compare``. ``ValueError``:
        outputs that do not agree.
        """
        results, first = [], None
        for name, model in self.models.items():
            with no_grad(), in_mode(list(self.models.values()), False):
                right = None if self.labels is None else right_or_wrong(model, self.inputs, self.labels)
                found = measure_model(self.profiler, model, self.inputs[:self.batch], warmup, iterations)
                if results:
                    pair = self.against_baseline(name, rounds, seed)
                    found |= pair | {"warnings": [*found["warnings"], *pair["warnings"]]}
            results.append(ModelResult(name, **found, **judged(right, first)))
            first = right if first is None else first
        return results

# %% [markdown]
"""
**Prove it first.** A candidate that promises the same results in another way must keep the promise. `Twice` computes the hidden layer two times and takes half of the sum: exactly the same numbers for nearly twice the work. `models["thin"]` is just another model:
"""

# %%
if __name__ == "__main__":
    class Twice(Layer):
        """64-32-10 that computes its hidden layer twice: (h + h) / 2 is h, to the bit."""

        def __init__(self, model):
            self.hidden, self.relu, self.last = model.layers

        def forward(self, x):
            return self.last(self.relu((self.hidden(x) + self.hidden(x)) * 0.5))


    once, twice = Benchmark({"once": models["base"], "twice": Twice(models["base"])}, images, profiler=profiler).run(iterations=30, rounds=10)
    print(f"FLOPs of one image {once.flops:,} and {twice.flops:,}; outputs equal {twice.outputs_equal}; time / baseline {twice.ratio:.2f}: {twice.verdict}")
    try:
        Benchmark({"base": models["base"], "thin": models["thin"]}, images).run(iterations=10, rounds=6)
    except ValueError as error:
        print("refused:", error)

# %% [markdown]
"""
The second was refused, and nothing was timed. Now all five, honestly called different. The table is made of the data, after it:
"""

# %%
#| export
def brief(value):
    """Write a ratio, a value, with two decimals, a small one with two digits, so that none looks 0; None as ``?``."""
    return "?" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def span(interval, digits=None):
    """Write an interval as ``low to high`` (in ``digits``, or as ``brief`` does), and None as ``no interval``."""
    if interval is None:
        return "no interval"
    return " to ".join(brief(end) if digits is None else f"{end:{digits}}" for end in interval)


def in_columns(rows, left):
    """Return rows of texts as lines, each column as wide as it must be; those numbered in ``left`` begin alike."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(text.ljust(width) if i in left else text.rjust(width)
                      for i, (text, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def benchmark_table(results):
    """Return results as text, a line each: bytes, FLOPs, milliseconds, time against the baseline, accuracy."""
    rows = [("model", "bytes", "FLOPs", "ms", "time / baseline", "accuracy, 95 %")]
    for one in results:
        name = one.name if len(one.name) <= 22 else f"{one.name[:10]}..{one.name[-10:]}"
        time = "baseline" if one.verdict == "baseline" else f"{brief(one.ratio)} ({span(one.ratio_interval)})"
        quality = "" if one.accuracy is None else f"{one.accuracy:.1%} ({span(one.accuracy_interval, '.1%')})"
        rows.append((name, f"{one.parameter_bytes:,}", f"{one.flops:,}", f"{one.latency_ms:.4f}", time, quality))
    doubts = ", ".join(f"{one.name} {len(one.warnings)}" for one in results if one.warnings)
    return "\n".join(in_columns(rows, left=(0, 4, 5))
                     + ([f"! doubts, in each result's warnings: {doubts}"] if doubts else []))

# %%
if __name__ == "__main__":
    results = Benchmark(models, images, labels, may_differ=True, profiler=profiler).run(iterations=30, rounds=10)
    print(benchmark_table(results))
    for one in results[1:]:
        print(f"{one.name}: {one.paired['only_first']} images only base got, {one.paired['only_second']} only {one.name} got, p = {one.paired['p_value']:.3f}")

# %% [markdown]
"""
Read the last lines before you read the column of accuracies. And read the column of ratios before that of milliseconds: where the interval holds 1, this run does not know who is faster, and `resolvable` says what it could have seen. A line that begins with `!` counts the doubts which the Profiler itself has; on a busy machine they are many, and an interval may span a factor of ten. It is then the machine you have measured.

## 6. A suite: more than one workload

**Question.** Which of the five is the fastest? For one image, or for 355 at once?

At batch 1 a call is mostly Python and dispatch (Module 14): what counts is how *many* ops there are. At batch 355 the numbers count. A suite runs the same models on several workloads; to make one number of it, ratios must be averaged. **Bet:** model B takes 2 times as long as A on one workload and half as long on the other. Who is
faster on average?
"""

# %%
if __name__ == "__main__":
    a, b = [1.0, 1.0], [2.0, 0.5]
    print(f"B's times, in units of A's: {b}, arithmetic mean {fmean(b):.2f}: A is faster")
    print(f"A's times, in units of B's: {[x / y for x, y in zip(a, b)]}, arithmetic mean {fmean(x / y for x, y in zip(a, b)):.2f}: B is faster")

# %% [markdown]
"""
The same four measurements, and each one wins where it is *not* the baseline. Whoever may choose the baseline may choose the winner (Fleming and Wallace, 1986). The geometric mean, the n-th root of the product, does not care: here it is √(2 · ½) = 1, in both directions.

**Task.** Write the rest of `geometric_mean(ratios)`. Do it by logarithms: the log of a product is the sum of the logs, so the log of the geometric mean is the *mean* of the logs, and no product can overflow. `log`, `exp` and `fmean` are there.

Example: 1, 1, 8: product 8, third root 2.

<details><summary>Hint 1: idea</summary>
Into logarithms, average, and back.
</details>
<details><summary>Hint 2: approach</summary>
<code>exp</code> of <code>fmean</code> of the <code>log</code> of each.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
2, 32: logs 0.693 and 3.466, mean 2.079, exp 8; and √64 = 8.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "geometric-mean", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def geometric_mean(ratios):
    """Return the geometric mean of ratios, the n-th root of their product; ``ValueError`` unless all are above 0."""
    ratios = numbers("ratios", ratios)
    if min(ratios) <= 0:
        raise ValueError(f"a ratio is {min(ratios)}; want ratios above 0")
    raise NotImplementedError("geometric_mean: section 6, cell 2")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-geometric-mean", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "benchmarks"}
if __name__ == "__main__":
    def test_geometric_mean():
        """A third root, both directions, large numbers."""
        check("1, 1, 8", geometric_mean([1, 1, 8]), 2.0, {
            10 / 3: "the arithmetic mean", 8.0: "the product: take the n-th root", np.sqrt(8): "the square root: there are three, take the third", 3 / 2.125: "the harmonic mean", np.log(2): "still a logarithm: take exp", 1.0: "the median"})
        check("twice and half", geometric_mean([2.0, 0.5]), 1.0, {1.25: "the arithmetic mean"})
        ratios = [0.5, 3.0, 7.0]
        check("from the other side: one over it", geometric_mean([1 / r for r in ratios]) * geometric_mean(ratios), 1.0)
        check("a thousand ratios of 10^10", geometric_mean([1e10] * 1000), 1e10, {np.inf: "the product overflows: add logarithms"}, rtol=1e-9)


    test_geometric_mean()

# %%
#| export
@dataclass(frozen=True)
class SuiteResult:
    """What a suite found: ``cases``, {case: list of ``ModelResult``}, and ``environment``, the machine it ran on."""

    cases: dict
    environment: dict

    def summary(self):
        """Return {model: geometric mean, over the cases, of its time against the baseline's}; None where one is."""
        ratios: dict = {}
        for results in self.cases.values():
            for one in results:
                ratios.setdefault(one.name, []).append(one.ratio)
        return {name: None if None in each else geometric_mean(each) for name, each in ratios.items()}

    def to_dict(self):
        """Return all of it as dicts, lists, numbers and strings."""
        return {"cases": {case: [one.to_dict() for one in results] for case, results in self.cases.items()},
                "summary": self.summary(), "environment": dict(self.environment)}


class BenchmarkSuite:
    """Several benchmarks of the same models, {name: ``Benchmark``}: other batch sizes, other inputs.

    ``TypeError``: no such dict. ``ValueError``: benchmarks of other models, or in another order.
    """

    def __init__(self, benchmarks):
        if not isinstance(benchmarks, Mapping) or not benchmarks:
            raise TypeError("benchmarks: want a dict, name to Benchmark, with at least one")
        for case, one in benchmarks.items():
            if not isinstance(case, str) or not isinstance(one, Benchmark):
                raise TypeError(f"{case!r} is a {type(one).__name__}; want a Benchmark under a text")
        names = {case: list(one.models) for case, one in benchmarks.items()}
        (first, wanted), *others = names.items()
        for case, came in others:
            if came != wanted:
                raise ValueError(f"{case} has {', '.join(came)}, {first} has {', '.join(wanted)}; want the same models "
                                 "in the same order, so that ratios are of the same baseline")
        self.benchmarks = dict(benchmarks)

    def run(self, warmup=10, iterations=100, *, rounds=None, seed=None):
        """Run every benchmark and return a ``SuiteResult``; warmup, iterations, rounds, seed as for a ``Benchmark``."""
        return SuiteResult({case: one.run(warmup, iterations, rounds=rounds, seed=seed)
                            for case, one in self.benchmarks.items()}, environment())

# %% [markdown]
"""
Given above: `SuiteResult` holds the data of every case and sums it up by your mean; `BenchmarkSuite` takes benchmarks by name and refuses to mix baselines. Five models, two workloads:
"""

# %%
if __name__ == "__main__":
    suite = BenchmarkSuite({f"batch {batch}": Benchmark(models, images, labels, batch=batch, may_differ=True, profiler=profiler) for batch in (1, 355)}).run(iterations=30, rounds=10)
    print("time / base", *[f"{case:>24}" for case in suite.cases], "   both (geometric)")
    for place, name in enumerate(models):
        cells = [f"{brief(each[place].ratio)} ({span(each[place].ratio_interval)})" if place else "1" for each in suite.cases.values()]
        print(f"{name:11}", *[f"{cell:>24}" for cell in cells], f"{brief(suite.summary()[name]):>11}")

# %% [markdown]
"""
Look at `wide`, with eight times the FLOPs of `base` (the table of section 1), and at `deep`, with a quarter more. Which of them is slower depends on the batch, and the mean of both columns describes neither. A summary is for ranking long lists; a decision is made on the workload you have.

## 7. The front

**Question.** Smaller, faster, better: no model wins everything. Which ones may be forgotten?

Model a **dominates** b if it is nowhere worse and somewhere better. What is dominated by nobody is the **Pareto front**: whatever you care for, your choice is on it. To compare, make every quantity a *cost*, of which less is better; an accuracy is negated. That is given (`costs_of`, below, with the refusal of what is no number): a point becomes a tuple
of costs.

```
            bytes  error
      A       100     9      on the front
      B       200     4      on the front
      C       200     6      B is as small, and better: dominated
      D       200     4      equal to B: neither dominates the other, both stay
```

**Task.** Write `dominates(a, b)` for two tuples of costs, and the last line of `pareto_front`: those of `points` whose costs no other point's costs dominate, in the order given.

<details><summary>Hint 1: idea</summary>
"Nowhere worse" is an <code>all</code>, "somewhere better" is an <code>any</code>.
</details>
<details><summary>Hint 2: approach</summary>
<code>zip(a, b)</code> gives the pairs of costs. In the front, go through <code>zip(points, costs)</code> and keep a point if <code>not any(dominates(other, mine) for other in costs)</code>. A point is in <code>costs</code> itself; does it dominate itself?
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
(1, 5) and (1, 7): 1 ≤ 1 and 5 ≤ 7, and 5 &lt; 7: dominates. (1, 5) and (2, 4): 5 ≤ 4 fails, and in the other direction 2 ≤ 1 fails: neither.
</details>
"""

# %%
#| export
def costs_of(place, point, smaller, larger):
    """Return a point's quantities as a tuple in which smaller is better everywhere: what should be large, negated.

    ``ValueError``: no keys, or a value that is no number. ``TypeError``: a point that is no dict.
    """
    if not all(isinstance(keys, (tuple, list)) for keys in (smaller, larger)) or not (smaller or larger):
        raise ValueError(f"smaller is {smaller!r} and larger is {larger!r}; want tuples of keys, at least one in all")
    if not isinstance(point, Mapping):
        raise TypeError(f"point {place} is a {type(point).__name__}; want a dict, such as ModelResult.to_dict()")
    costs = []
    for key, sign in [(key, 1) for key in smaller] + [(key, -1) for key in larger]:
        value = point.get(key)
        value = value.item() if isinstance(value, np.generic) else value  # NumPy's -int8(-128) is -128
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise ValueError(f"{key} of {point.get('name', f'point {place}')} is {value!r}; want a number, or leave "
                             "the point out yourself")
        costs.append(sign * value)
    return tuple(costs)

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "pareto-front", "locked": false, "schema_version": 3, "solution": true, "task": false}
#| export
def dominates(a, b):
    """Say whether costs ``a`` beat costs ``b``: nowhere larger, and somewhere smaller. Equal costs do not."""
    raise NotImplementedError("dominates: section 7, cell 2")


def pareto_front(points, smaller=(), larger=()):
    """Return the points that no other point beats, in the order given; equal ones stay together.

    points: dicts, such as ``ModelResult.to_dict()``; ``smaller`` and ``larger``: the keys of which less, or more, is
    better, in tuples. ``ValueError`` for a point where one of them is missing, None or NaN: it cannot be placed.
    """
    points = list(points)
    costs = [costs_of(i, point, smaller, larger) for i, point in enumerate(points)]
    raise NotImplementedError("pareto_front: section 7, cell 2")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-pareto-front", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "fronts"}
if __name__ == "__main__":
    def test_pareto_front():
        """Pairs, ties, duplicates, order, three quantities, what cannot be placed."""
        cases = (((1, 1), (2, 2)), ((1, 2), (1, 3)), ((1, 1), (1, 1)), ((1, 3), (3, 1)), ((2, 2), (1, 1)))
        check("dominates: both, one of two, equal, neither, the other way", [dominates(a, b) for a, b in cases], np.array([True, True, False, False, False]), {
            (True, False, False, False, False): "smaller everywhere is too much to ask: nowhere larger, and somewhere smaller", (True, True, True, False, False): "equal costs do not dominate: somewhere it must be smaller",
            (True, True, False, True, False): "smaller somewhere is not enough: it must be larger nowhere", (False, False, False, False, True): "the wrong way round: smaller costs are better"})
        points = [{"name": name, "bytes": size, "accuracy": share} for name, size, share in (
            ("C", 200, 0.94), ("B", 200, 0.96), ("A", 100, 0.91), ("D", 200, 0.96), ("E", 300, 0.96), ("F", 100, 0.90))]

        def names(front):
            return [point["name"] for point in front]

        check("bytes and accuracy", names(pareto_front(points, smaller=("bytes",), larger=("accuracy",))), ["B", "A", "D"], {
            ("A", "B", "D"): "another order: want the order given", ("B", "A"): "of equal points both stay", ("A",): "of equal points both stay: equal costs do not dominate",
            ("C", "E", "F"): "those are the dominated ones", ("C", "B", "A", "D", "E", "F"): "nobody is dominated?", (): "a point must not dominate itself: equal costs do not",
            ("B", "A", "D", "E"): "dominated, as soon as somebody is as good in one and better in the other", ("C", "B", "A", "D", "E"): "smaller everywhere is too much to ask"})
        check("bytes alone: both of 100", names(pareto_front(points, smaller=("bytes",))), ["A", "F"])
        check("accuracy alone: all three", names(pareto_front(points, larger=("accuracy",))), ["B", "D", "E"])
        check("the points themselves come back", pareto_front(points, smaller=("bytes",))[0] is points[2], True, {False: "costs, or copies: want the points that were given"})
        check("no points", pareto_front([], smaller=("bytes",)), [])
        three = [{"name": n, "x": x, "y": y, "z": z} for n, x, y, z in (("a", 1, 2, 3), ("b", 2, 3, 1), ("c", 3, 1, 2), ("d", 3, 3, 3), ("e", 1, 2, 4))]
        check("three quantities", names(pareto_front(three, smaller=("x", "y", "z"))), ["a", "b", "c"])
        check_raises("an accuracy that is NaN", ValueError, lambda: pareto_front([{"name": "N", "accuracy": float("nan")}], larger=("accuracy",)), "accuracy of N")


    test_pareto_front()

# %%
if __name__ == "__main__":
    from tinytorch.perf.pictures import pareto_chart

    rows = [one.to_dict() for one in results]
    front = pareto_front(rows, smaller=("ratio", "parameter_bytes"), larger=("accuracy",))
    print("time, bytes and accuracy:", ", ".join(row["name"] for row in front))
    pareto_chart(rows, [row["name"] for row in pareto_front(rows, smaller=("parameter_bytes",), larger=("accuracy",))], x="parameter_bytes", y="accuracy", workload=results[0].workload)

# %% [markdown]
"""
The bars are your intervals. **A front of numbers that were drawn is drawn, too.** How much of one is luck? Take twenty models that are *equally good*, right with a chance of 96 % on each of 355 images, and *equally fast*, up to noise. Guess first: how many are on the front? And how good does the best of them look?
"""

# %%
if __name__ == "__main__":
    sizes, best, again = [], [], []
    for _ in range(300):
        drawn = [{"accuracy": float(share), "ms": float(ms)} for share, ms in zip(rng.binomial(355, 0.96, 20) / 355, rng.normal(1, 0.05, 20))]
        sizes.append(len(pareto_front(drawn, smaller=("ms",), larger=("accuracy",))))
        best.append(max(point["accuracy"] for point in drawn))
        again.append(float(rng.binomial(355, 0.96)) / 355)
    print(f"on the front: {fmean(sizes):.1f} of 20 equal models; the best looks {fmean(best):.2%} good; on fresh images it is {fmean(again):.2%}")

# %% [markdown]
"""
All twenty are equal, a few are on the front, and the best of them looks nearly 2 points better than it is: you chose it *because* it was lucky on these images. So the number that chose the winner is not the winner's number. Judge the winner once more, on images that chose nothing.

## 8. What it means for a real model

**Question (transfer).** How large must a test set be, for an accuracy to be known to ± 1 point? Far from 0 and 1 the interval's half width is about z · √(p (1 − p) / n). Solve for n.

**Task.** Write `examples_needed(accuracy, half_width, confidence=0.95)`: the smallest whole number n with z · √(p (1 − p) / n) ≤ half_width. `ceil` rounds up; z comes as in `accuracy_interval`.

Example: p = ½, half width 0.1: 1.96² · ¼ / 0.01 = 96.04, so 97.

<details><summary>Hint 1: idea</summary>
Square both sides; n stands below the line.
</details>
<details><summary>Hint 2: approach</summary>
n = z² p (1 − p) / half_width².
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
p = 0.8, half width 0.05: 3.8415 · 0.16 / 0.0025 = 245.9, so 246.
</details>
"""

# %% nbgrader={"cell_type": "code", "grade": false, "grade_id": "examples-needed", "locked": false, "schema_version": 3, "solution": true, "task": false}
if __name__ == "__main__":
    from math import ceil


    def examples_needed(accuracy, half_width, confidence=0.95):
        """Return how many examples an accuracy needs to be known to plus or minus ``half_width``, by the normal's formula."""
        z = NormalDist().inv_cdf(0.5 + level(confidence) / 2)
        raise NotImplementedError("examples_needed: section 8, cell 1")

# %% nbgrader={"cell_type": "code", "grade": true, "grade_id": "test-examples-needed", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false} tinytorch={"skill": "transfer"}
if __name__ == "__main__":
    def test_examples_needed():
        """One half, nine tenths, a tenth of a point."""
        check("p = 1/2, to 10 points", examples_needed(0.5, 0.1), 97, {96: "rounded down: then the interval is too wide", 385: "twice as narrow: half_width is to one side", 10: "half_width is squared", 194: "p (1 - p), not p", 5: "z² p (1 - p) / half_width²: all of it squared"})
        check("p = 0.9, to 1 point", examples_needed(0.9, 0.01), 3458, {3457: "rounded down"})
        check("p = 0.9, to a tenth of a point: a hundred times as many", examples_needed(0.9, 0.001), 345_732)
        check("at 99 %", examples_needed(0.5, 0.1, 0.99), 166, {97: "confidence is not used"})


    test_examples_needed()

# %%
if __name__ == "__main__":
    print("test set                questions   at 90 %: from    to       needed for ± 0.5 points at 90 %:", f"{examples_needed(0.9, 0.005):,}")
    for name, questions in (("HumanEval", 164), ("the digits here", 355), ("MMLU", 14_042), ("ImageNet validation", 50_000)):
        low, high = accuracy_interval(round(0.9 * questions), questions)
        print(f"{name:22} {questions:10,} {low:15.1%} {high:8.1%}")
    print(f"for the questions below: 1 - 0.95 ** 4 = {1 - 0.95**4:.1%}, sign_test(8, 4) = {sign_test(8, 4):.2f}")

# %% [markdown]
"""
Sizes as their papers give them (Chen and others, 2021; Hendrycks and others, 2021; Russakovsky and others, 2015). On 164 programming tasks a model that solves 90 % of them may be one that solves 85 % or 94 % of such tasks; leaderboards print two decimals. Pairs help here as well: two models on the same questions are told apart by
the questions on which they differ.

**Reflect.** Answer first, then open.

<details><summary>A 95 % interval of a median latency is 1.02 to 1.05 ms. Do 95 % of the calls lie in it?</summary>
No. It is about the median, and gets narrower with more samples; where the calls lie is said by percentiles, and does not.
</details>
<details><summary>Five seeds each, recipes A and B, the same five seeds. How would you compare them?</summary>
By pairs again, if a seed means the same for both (the same order of batches, say): <code>mean_interval</code> of the five differences. If the interval holds 0, five seeds cannot tell.
</details>
<details><summary>Four candidates are each tested against the baseline at 5 %, and none is better. How likely is it that at least one "wins"?</summary>
If the tests were independent, 1 − 0.95⁴ = 18.5 %. Ask each at 5 % / 4 (Bonferroni), or decide beforehand which one comparison counts.
</details>
<details><summary>p = 0.39 for 8 against 4 images. Are the models equally good?</summary>
It means that twelve coins cannot tell. The interval of the difference says what is still possible, and it is wide. "Not shown to differ" is not "shown to be equal".
</details>
<details><summary>Why does <code>Benchmark</code> divide no two medians of <code>latency_statistics</code>?</summary>
They were taken one after the other: section 1. The ratio comes from pairs, and where it disagrees with the two medians, believe the pairs.
</details>
<details><summary>The times are those of this machine, alone, warm. What would a service need besides?</summary>
Percentiles under load: p99 needs hundreds of single calls (Module 14 says how many), and requests that arrive while others wait. A median of a quiet machine says nothing about a queue.
</details>

`tito test benchmarking` checks the module; once all of it passes, `tito module complete benchmarking` puts what you wrote into the package, and later modules run on your code. Next: Module 20, everything in one pipeline, under a budget, with a report that others can check.
"""

"""MLPerf: speed counts only for those who are good enough.

MLPerf, 2018, made training comparable: a quality fixed beforehand, the clock stopped when it is reached, five runs from
other seeds, the fastest and the slowest left out. Here: 97 % of 355 held-out digits. A line answers fastest and never
gets there; a CNN gets there in fewer epochs than an MLP, each of them longer. Five runs are few: their interval is
Student's, and it is wide.
"""

from statistics import fmean, stdev

from tinytorch.core.activations import ReLU
from tinytorch.core.dataloader import DataLoader, TensorDataset, load_digits
from tinytorch.core.layers import Linear, Sequential, manual_seed
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import Adam
from tinytorch.core.spatial import Conv2d, Flatten, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import Trainer
from tinytorch.perf.benchmarking import Benchmark, mean_interval, pareto_front
from tinytorch.perf.profiling import Profiler
from tito.stories import BLUE, GREEN, GRID, RED, answers, claim, sheet, tell

TARGET, RUNS, MOST = 0.97, 5, 20
COLOURS = {"line": RED, "MLP": GREEN, "CNN": BLUE}
MODELS = {"line": lambda: Sequential(Flatten(), Linear(64, 10)),
          "MLP": lambda: Sequential(Flatten(), Linear(64, 32), ReLU(), Linear(32, 10)),
          "CNN": lambda: Sequential(Conv2d(1, 16, 3, padding=1), ReLU(), MaxPool2d(2), Flatten(), Linear(256, 10))}
(IMAGES, DIGITS), (NEW, NEW_DIGITS) = ((x.reshape(-1, 1, 8, 8), y) for x, y in map(load_digits, ("train", "test")))


def run_once(make, seed):
    """Train a new model until it is good enough, for at most MOST epochs; return it and what the run took."""
    manual_seed(seed)
    model, share, epochs = make(), 0.0, 0
    loader = DataLoader(TensorDataset(IMAGES, DIGITS), 64, shuffle=True, seed=seed)
    trainer = Trainer(model, Adam(model.parameters(), 0.01), CrossEntropyLoss())
    with Profiler() as clock:
        while share < TARGET and epochs < MOST:
            trainer.fit(loader, 1)
            share, epochs = float((answers(model, Tensor(NEW)) == NEW_DIGITS).mean()), epochs + 1
    return model, {"seconds": clock.elapsed / 1000, "epochs": epochs, "reached": share >= TARGET}


def measure():
    """Run each model five times; benchmark the last of each on one picture at a time."""
    last, runs, times = {}, {}, {}
    for name, make in MODELS.items():
        runs[name] = []
        for seed in range(RUNS):
            last[name], run = run_once(make, seed)
            runs[name].append(run)
        seconds = sorted(run["seconds"] for run in runs[name] if run["reached"])
        if len(seconds) == RUNS:
            times[name] = {"score": fmean(seconds[1:-1]), "interval": mean_interval(seconds), "spread": stdev(seconds)}
    results = [one.to_dict() for one in Benchmark(last, Tensor(NEW), NEW_DIGITS, batch=1, may_differ=True).run(
        iterations=50, rounds=8)]
    front = pareto_front(results, smaller=("latency_ms", "parameter_bytes"), larger=("accuracy",))
    return {"runs": runs, "times": times, "results": results, "front": [one["name"] for one in front],
            "profile": [{"model": one["name"], "memory_kb": one["peak_bytes"] / 1024,
                         **{key: one[key] for key in ("parameters", "flops", "latency_ms")}} for one in results]}


def claims(found):
    """Who is good enough, at how many epochs; seconds are shown and not claimed."""
    reached = {name: sum(run["reached"] for run in runs) for name, runs in found["runs"].items()}
    epochs = {name: fmean(run["epochs"] for run in runs) for name, runs in found["runs"].items()}
    times = found["times"].get("CNN", {"interval": (0, 0), "spread": 1})
    width = (times["interval"][1] - times["interval"][0]) / (times["spread"] / RUNS ** 0.5)
    return [claim(f"line: runs of {RUNS} that reach 97 % in {MOST} epochs", reached["line"], "==", 0),
            claim(f"MLP: runs of {RUNS} that reach it", reached["MLP"], "==", RUNS),
            claim(f"CNN: runs of {RUNS} that reach it", reached["CNN"], "==", RUNS),
            claim("CNN: epochs to get there, mean, fewer than the MLP's", epochs["CNN"], "<", epochs["MLP"]),
            claim("half an interval of five, in standard errors (Student's t, not 1.96)",
                  round(width / 2, 3), "==", 2.776),
            claim("parameters of the line", found["profile"][0]["parameters"], "==", 64 * 10 + 10),
            claim("the line, smallest of all, is on the front", found["front"].count("line"), "==", 1)]


def draw(found):
    """Draw the time of each run to the target, and accuracy against latency with the front."""
    times = found["times"]
    score = [f"{name} {times[name]['score']:.2g} s" if name in times else f"{name} not" for name in MODELS]
    figure, (race, plane) = sheet(
        f"2018: to 97 % of the held-out digits: {', '.join(score)}", "left: five runs each, hollow: not reached in 20 "
        "epochs; bar: their mean, Student's interval; right, joined: not beaten in time, bytes and accuracy", (1, 1))
    for place, (name, colour) in enumerate(COLOURS.items()):
        for run in found["runs"][name]:
            race.plot(run["seconds"], place, "o", color=colour, fillstyle="full" if run["reached"] else "none")
        if name in times:
            race.plot(times[name]["interval"], [place + 0.25] * 2, "|-", color=colour, linewidth=2)
    race.set(yticks=range(3), yticklabels=COLOURS, ylim=(-0.5, 2.7), xlim=(0, None), xlabel="seconds of training")
    joined = [one for one in found["results"] if one["name"] in found["front"]]
    plane.plot(*zip(*sorted((one["latency_ms"], 100 * one["accuracy"]) for one in joined)), color=GRID, zorder=0)
    for one in found["results"]:
        at, share, (low, high) = one["latency_ms"], 100 * one["accuracy"], one["accuracy_interval"]
        plane.errorbar(at, share, [[share - 100 * low], [100 * high - share]], fmt="o", color=COLOURS[one["name"]])
        plane.annotate(f"{one['name']}, {one['parameters']:,} parameters", (at, share), xytext=(6, 6), fontsize=8,
                       textcoords="offset points", color=COLOURS[one["name"]])
    plane.set(xlabel="ms for one picture", ylabel="right, %, with 95 % interval", xlim=(0, 1.6 * at))
    return figure


if __name__ == "__main__":
    tell(__file__)

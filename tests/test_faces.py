"""The hand-written faces hand names on, and the user's first example works."""

import subprocess
import sys

import numpy as np


def test_nn_names_are_the_core_ones():
    import tinytorch.nn as nn
    from tinytorch.core import layers
    from tinytorch.core.activations import ReLU

    assert nn.layers is layers
    assert nn.Linear is layers.Linear
    assert nn.ReLU is ReLU
    import tinytorch.nn.layers as through_nn

    assert through_nn is layers


def test_nn_hands_on_only_what_core_has():
    import importlib

    import tinytorch.nn as nn

    for name in nn.__all__:
        thing = getattr(nn, name)
        if isinstance(thing, type):
            assert getattr(importlib.import_module(thing.__module__), name) is thing
            assert thing.__module__.startswith("tinytorch.core.")
        else:
            assert importlib.import_module(f"tinytorch.nn.{name}") is thing
            assert thing.__name__ == f"tinytorch.core.{name}"


def test_transformer_is_another_name_of_transformers():
    import tinytorch.core.transformer as one
    from tinytorch.core import transformers
    from tinytorch.core.transformer import GPT

    assert one is transformers and GPT is transformers.GPT


def test_perf_hands_on_the_profiler():
    import tinytorch.perf
    from tinytorch.perf.profiling import Profiler

    assert tinytorch.perf.Profiler is Profiler


def test_importing_tinytorch_gives_tensors_their_backward():
    code = ("from tinytorch.core.tensor import Tensor; x = Tensor([2.0], requires_grad=True);"
            "(x * x).sum().backward(); print(x.grad.item())")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "4.0"  # d(x²)/dx = 2x


def test_the_seven_line_example(capsys):
    from tinytorch.core.layers import Linear
    from tinytorch.core.tensor import Tensor
    from tinytorch.perf.profiling import Profiler

    profiler = Profiler()
    layer = Linear(1024, 512)
    x = Tensor(np.random.default_rng(0).standard_normal((1, 1024)))
    print(f"{profiler.count_parameters(layer):,} parameters")
    print(f"{profiler.count_flops(layer, (1, 1024)):,} FLOPs")
    print(f"{profiler.measure_latency(layer, x, warmup=1, iterations=5) > 0}")
    # 1024 * 512 + 512 parameters; 2 FLOPs per multiply-add, 1024 * 512 of them
    assert capsys.readouterr().out.splitlines() == ["524,800 parameters", "1,048,576 FLOPs", "True"]

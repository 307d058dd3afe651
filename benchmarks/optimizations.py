"""What modules 15 to 18 buy, as ratios to the model they start from, both measured in the same run by module 19.

Run: ``python benchmarks/optimizations.py`` (about a minute), with one BLAS thread: two make times jump between two
levels. Every time is a ratio from shuffled pairs with its interval; below 1 is faster. Nothing is promised here: int8
and masks are expected not to be faster.
"""

import numpy as np
from threadpoolctl import threadpool_limits

from tinytorch.core import transformers
from tinytorch.core.activations import GELU, gelu
from tinytorch.core.dataloader import DataLoader, TensorDataset, load_digits
from tinytorch.core.layers import Layer, Linear, Sequential, manual_seed
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import Adam
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import Trainer
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import LinearGELU, fuse, fused_gelu, tiled_matmul
from tinytorch.perf.benchmarking import Benchmark, benchmark_table, span
from tinytorch.perf.compression import low_rank, magnitude_prune, structured_prune
from tinytorch.perf.memoization import generate, token_flops
from tinytorch.perf.profiling import compare
from tinytorch.perf.quantization import quantize_model

RNG = np.random.default_rng(0)


def trained_digits() -> Layer:
    """Return 64-256-256-10 with GELU after eight epochs on the digits."""
    manual_seed(0)
    model = Sequential(Linear(64, 256), GELU(), Linear(256, 256), GELU(), Linear(256, 10))
    loader = DataLoader(TensorDataset(*map(Tensor, load_digits("train"))), 32, shuffle=True, seed=0)
    Trainer(model, Adam(model.parameters(), 0.003), CrossEntropyLoss()).fit(loader, 8)
    return model.eval()


def digits() -> None:
    """Print sizes, times and accuracies of one model and what 15, 16 and 18 make of it, at two batch sizes."""
    model, (images, labels) = trained_digits(), load_digits("test")
    images = Tensor(images)
    models = {"float32": model, "int8 stored": quantize_model(model), "int8 computed": quantize_model(model, images),
              "90 % zeros": magnitude_prune(model, 0.9), "half the units": structured_prune(model, 0.5),
              "rank 16": low_rank(model, 16), "fused GELU": fuse(model)}
    for batch in (1, 355):
        print(f"digits 64-256-256-10, batch {batch}")
        print(benchmark_table(Benchmark(models, images, labels, batch=batch, may_differ=True).run(rounds=40)), "\n")


def ratio(what: str, baseline, candidate, inputs, **allowed) -> None:
    """Compare two ways to the same results, and print one line."""
    found = compare(baseline, candidate, inputs, rounds=20, **allowed)
    print(f"{what:<52}{found['ratio']:>8.3f} ({span(found['interval'], '.3f')}) {found['verdict']}")


def kernels() -> None:
    """Print what module 18's ops take, over the ops they stand for."""
    print("time over the ops they stand for")
    square, x = [Tensor(RNG.standard_normal((256, 256), dtype=np.float32)) for _ in range(2)]
    for tile in (16, 64, 256):
        ratio(f"tiles of {tile} / one product, 256 x 256", lambda a, b: a @ b,
              lambda a, b, tile=tile: tiled_matmul(a, b, tile=tile), [(square, x)], atol=1e-3)
    wide = Tensor(RNG.standard_normal((512, 3072), dtype=np.float32))
    ratio("GELU in one op / in nine, 512 x 3072", gelu, fused_gelu, wide)
    layer, rows = Linear(768, 3072), Tensor(RNG.standard_normal((512, 768), dtype=np.float32))
    fused = LinearGELU(layer)
    ratio("Linear and GELU in one op / Linear, then fused GELU", lambda x: fused_gelu(layer(x)), fused, rows, atol=1e-4)


def writing() -> None:
    """Print what a cache saves a small GPT, token for token the same text."""
    manual_seed(0)
    model = GPT(65, 64, 2, 4, max_seq_len=256).eval()
    prompt = Tensor(RNG.integers(0, 65, (1, 16)))
    print("\nGPT 65-64-2-4 writing with a cache, over without one; the texts are equal")
    for new in (8, 32, 128):
        ratio(f"{new} tokens after 16", lambda ids, new=new: transformers.generate(model, ids, new, 0),
              lambda ids, new=new: generate(model, ids, new, 0), prompt)
    for length in (16, 64, 256):
        again, once = token_flops(model, length)
        print(f"FLOPs of token {length:>3}: {again / once:.1f}x fewer with the cache")


def main() -> None:
    """Run all three."""
    with threadpool_limits(1, user_api="blas"):
        digits()
        kernels()
        writing()


if __name__ == "__main__":
    main()

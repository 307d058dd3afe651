"""What other tools print for the same models and layers, written to docs/_data/other_tools.json with their versions.

Run: ``python benchmarks/other_tools.py`` in an environment of its own, with torch, torchvision, transformers, fvcore,
ptflops, thop, torchinfo and torchsummary installed (``pip install --no-deps`` for the last six: they pull in more than
is needed). The pages set the stored numbers beside those of TinyTorch, computed when the pages are built. A tool that
fails on a case is stored with what it said.
"""

import contextlib
import inspect
import io
import json
import logging
import platform
import re
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

try:  # a torchvision built for another torch has no compiled ops; its models need none
    import torchvision
except RuntimeError:
    LIBRARY = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision

import ptflops
import thop
import torchinfo
import torchsummary
import transformers
from fvcore.nn import FlopCountAnalysis

RESULT = Path(__file__).parents[1] / "docs" / "_data" / "other_tools.json"
PACKAGES = ("torch", "torchvision", "transformers", "fvcore", "ptflops", "thop", "torchinfo", "torchsummary")


class Attention(nn.Module):
    """torch's scaled dot-product attention, of itself."""

    def forward(self, x):
        """Attend from x (B, H, T, d) to itself."""
        return nn.functional.scaled_dot_product_attention(x, x, x)


class SelfAttention(nn.Module):
    """torch's multi-head attention, as self-attention."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x):
        """Attend: x (B, T, 64) -> (B, T, 64)."""
        return self.attention(x, x, x, need_weights=False)[0]


class Skip(nn.Module):
    """x + linear(x)."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(10, 10, bias=False)

    def forward(self, x):
        """Add: x (B, 10) -> (B, 10)."""
        return x + self.linear(x)


class Functional(nn.Module):
    """A product that no submodule makes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(10, 10))

    def forward(self, x):
        """Multiply: x (B, 10) -> (B, 10)."""
        return x @ self.weight


class TiedHead(nn.Module):
    """An embedding whose table is the head, too."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 16)
        self.head = nn.Linear(16, 100, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        """Look up and score: (B, T) -> (B, T, 100)."""
        return self.head(self.table(tokens))


class Pooled(nn.Module):
    """BERT, giving its pooled vector only."""

    def __init__(self):
        super().__init__()
        self.bert = transformers.BertModel(transformers.BertConfig(attn_implementation="eager"))

    def forward(self, tokens):
        """Pool: (B, T) -> (B, 768)."""
        return self.bert(tokens).pooler_output


class Logits(nn.Module):
    """GPT-2, giving its logits only."""

    def __init__(self):
        super().__init__()
        self.gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_implementation="eager", use_cache=False))

    def forward(self, tokens):
        """Score: (B, T) -> (B, T, 50257)."""
        return self.gpt(tokens).logits


def lenet5():
    """LeNet-5 as in tinytorch.zoo."""
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
                         nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
                         nn.Linear(84, 10))


def digits_cnn():
    """The CNN for digits as in tinytorch.zoo."""
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
                         nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))


IMAGE, TV = (1, 3, 224, 224), torchvision.models
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], bool]] = {  # name: factory, input shape, tokens?
    "linear": (lambda: nn.Linear(128, 64), (32, 128), False),
    "linear_sequence": (lambda: nn.Linear(8, 4), (5, 7, 8), False),
    "relu": (nn.ReLU, (32, 64), False),
    "conv2d": (lambda: nn.Conv2d(3, 16, 3), (1, 3, 32, 32), False),
    "conv2d_groups": (lambda: nn.Conv2d(4, 6, 3, groups=2, bias=False), (1, 4, 8, 8), False),
    "batch_norm": (lambda: nn.BatchNorm2d(8), (1, 8, 16, 16), False),
    "max_pool": (lambda: nn.MaxPool2d(2), (1, 8, 16, 16), False),
    "embedding": (lambda: nn.Embedding(100, 16), (1, 5), True),
    "tied_head": (TiedHead, (1, 5), True),
    "skip": (Skip, (1, 10), False),
    "functional": (Functional, (1, 10), False),
    "sdpa": (Attention, (1, 2, 8, 4), False),
    "attention": (SelfAttention, (1, 10, 64), False),
    "digits_mlp": (lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), (32, 64), False),
    "digits_cnn": (digits_cnn, (32, 1, 8, 8), False),
    "lenet5": (lenet5, (1, 1, 28, 28), False),
    "bert_base": (Pooled, (1, 128), True), "gpt2_small": (Logits, (1, 1024), True),
    "resnet18": (TV.resnet18, IMAGE, False), "vgg16": (TV.vgg16, IMAGE, False),
    "resnet50": (TV.resnet50, IMAGE, False), "vit_b_16": (TV.vit_b_16, IMAGE, False),
}
LONG = {"bert_base", "gpt2_small"}  # only by the first three tools: others take minutes
CARDS = {"vgg16": TV.VGG16_Weights, "resnet18": TV.ResNet18_Weights, "resnet50": TV.ResNet50_Weights,
         "vit_b_16": TV.ViT_B_16_Weights}


def flop_counter(model, x):
    """FLOPs by torch.utils.flop_counter."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x)
    return counter.get_total_flops()


def flop_counter_unfused(model, x):
    """FLOPs by torch.utils.flop_counter, attention held to its plain products: fused ones have no rule on a CPU."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(x)  # with gradients, so that eval mode takes no fused path
    return counter.get_total_flops()


def torch_profiler(model, x):
    """FLOPs by torch.profiler, summed over its rows."""
    with torch.no_grad(), profile(with_flops=True) as p:
        model(x)
    return sum(row.flops for row in p.key_averages())


def fvcore(model, x):
    """What fvcore calls flops."""
    return int(FlopCountAnalysis(model, x).unsupported_ops_warnings(False).uncalled_modules_warnings(False).total())


def ptflops_macs(model, x, backend):
    """What ptflops calls macs. It makes its own input, a batch of one, and takes another only by argument names."""
    name = next(iter(inspect.signature(model.forward).parameters))
    own = None if x.dtype == torch.float32 else lambda _: {name: x}
    return ptflops.get_model_complexity_info(model, tuple(x.shape[1:]), as_strings=False, print_per_layer_stat=False,
                                             verbose=False, backend=backend, input_constructor=own)[0]


def torchinfo_summary(model, x):
    """Return torchinfo's mult-adds, parameters and bytes of forward and backward."""
    told = torchinfo.summary(model, input_data=x, verbose=0)
    return {"mult_adds": told.total_mult_adds, "parameters": told.total_params, "output_bytes": told.total_output_bytes}


def torchsummary_text(model, x):
    """Return the sizes that torchsummary prints."""
    if x.dtype != torch.float32:
        raise TypeError("makes its own float input: no tokens")
    with contextlib.redirect_stdout(io.StringIO()) as text:
        torchsummary.summary(model, tuple(x.shape[1:]), batch_size=x.shape[0], device="cpu")
    number = r"\s*([\d.,]+)"
    return {"parameters": int(re.search("Total params:" + number, text.getvalue())[1].replace(",", "")),
            "pass_mb": float(re.search(r"Forward/backward pass size \(MB\):" + number, text.getvalue())[1])}


TOOLS = {
    "parameters": lambda model, x: sum(p.numel() for p in model.parameters()),
    "flop_counter": flop_counter, "flop_counter_unfused": flop_counter_unfused, "torch_profiler": torch_profiler,
    "fvcore": fvcore,
    "thop": lambda model, x: int(thop.profile(model, (x,), verbose=False)[0]),
    "ptflops_pytorch": lambda model, x: ptflops_macs(model, x, "pytorch"),
    "ptflops_aten": lambda model, x: ptflops_macs(model, x, "aten"),
    "torchinfo": torchinfo_summary, "torchsummary": torchsummary_text,
}


def built(factory, shape):
    """Build a model; one for images of full size gets zeros for weights, to draw them for every tool takes minutes."""
    if len(shape) != 4 or shape[-1] < 224:
        return factory().eval()
    with torch.device("meta"):
        model = factory().eval()
    model.to_empty(device="cpu")
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.detach().zero_()
    return model


def ask(tool, factory, shape, tokens):
    """Return what a tool says of a fresh model, or why it said nothing."""
    x = torch.zeros(shape, dtype=torch.int64 if tokens else torch.float32)
    quiet = io.StringIO()
    try:
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            said = TOOLS[tool](built(factory, shape), x)
    except Exception as error:  # whatever a tool raises is its answer
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0][:120]}" if str(error)
                else type(error).__name__}
    return said if said is not None else {"failed": "gave None"}


def both_passes(layers, batch):
    """FLOPs of forward and of forward with backward of a stack of linear layers, by torch's counter."""
    model, x = nn.Sequential(*(nn.Linear(n, m) for n, m in layers)), torch.randn(batch, layers[0][0])
    with FlopCounterMode(display=False) as forward:
        model(x)
    with FlopCounterMode(display=False) as both:
        model(x).sum().backward()
    return {"forward": forward.get_total_flops(), "both": both.get_total_flops()}


def write(said) -> None:
    """Write the file."""
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8", newline="\n")


def main() -> None:
    """Ask every tool about every case and write the file."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    said = {"about": "made by benchmarks/other_tools.py; stored, not computed when the pages are built",
            "date": time.strftime("%Y-%m-%d"), "python": platform.python_version(),
            "versions": {name: version(name) for name in PACKAGES}, "cases": {},
            "backward": {"784-128-10": both_passes(((784, 128), (128, 10)), 1),
                         "128-128-128": both_passes(((128, 128), (128, 128)), 1)},
            "cards": {name: {"num_params": card.DEFAULT.meta["num_params"], "gflops": card.DEFAULT.meta["_ops"]}
                      for name, card in CARDS.items()}}
    for case, (factory, shape, tokens) in CASES.items():
        start = time.perf_counter()
        answers = {tool: ask(tool, factory, shape, tokens) for tool in (list(TOOLS)[:3] if case in LONG else TOOLS)}
        said["cases"][case] = {"shape": list(shape), **answers}
        write(said)
        print(f"{case}: {time.perf_counter() - start:.1f} s")
    print(RESULT)


if __name__ == "__main__":
    main()

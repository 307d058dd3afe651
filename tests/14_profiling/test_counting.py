"""What is computed: closed forms, cost rules, counting on shapes, the report. Arithmetic beside every number."""

import importlib
import json
import pkgutil
import tracemalloc
from html.parser import HTMLParser
from itertools import product, takewhile
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch import core
from tinytorch.core import tensor as ops
from tinytorch.core.activations import ReLU, softmax
from tinytorch.core.autograd import no_grad
from tinytorch.core.embeddings import Embedding
from tinytorch.core.layers import Dropout, Layer, Linear, Sequential, linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Op, OpEvent, Tensor, listen, scope, shape_only
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.profiling import (
    CONTRACTIONS,
    CONVENTION,
    FLOPS,
    FlopReport,
    LayerCost,
    MachineLimits,
    _rows,
    attention_flops,
    conv2d_flops,
    count_flops,
    count_parameters,
    event_flops,
    flop_report,
    flop_table,
    flops,
    free,
    is_contraction,
    linear_flops,
    matmul_flops,
    per_output,
    profile_forward_pass,
    run_on_shapes,
    sum_by_scope,
    tally,
)


def square(n):
    return Linear(n, n, bias=False)


class Model(Layer):
    """A layer whose forward is given; ``parts`` become attributes."""

    def __init__(self, run, **parts):
        self.run = run
        self.__dict__.update(parts)

    def forward(self, x):
        return self.run(self, x)


# ---------------------------------------------------------------- closed forms


def loops(shape):
    """Walk a shape one element at a time: what a formula must agree with."""
    return sum(1 for _ in product(*map(range, shape)))


@settings(max_examples=40)
@given(st.lists(st.integers(1, 3), max_size=2), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_matmul_formula_is_observation_is_loop(stack, m, k, n):
    a, b = (*stack, m, k), (*stack[-1:], k, n)  # the second operand's stack broadcasts
    heard = []
    with listen(lambda event: heard.append(event_flops(event))):
        out = Tensor(np.ones(a)) @ Tensor(np.ones(b))
    multiply_adds = sum(1 for _ in range(loops(out.shape)) for _ in range(k))
    assert matmul_flops(a, b) == sum(heard) == 2 * multiply_adds


@settings(max_examples=40)
@given(st.lists(st.integers(1, 4), max_size=3), st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_linear_formula_is_observation_is_loop(leading, features, out, bias):
    shape = (*leading, features)
    report = flop_report(Linear(features, out, bias=bias), shape)
    multiply_adds = sum(1 for _ in range(loops((*leading, out))) for _ in range(features))
    assert linear_flops(shape, out) == report.total == report.contractions == 2 * multiply_adds


@settings(max_examples=40)
@given(
    st.integers(1, 2),
    st.integers(1, 2),
    st.tuples(*[st.integers(1, 6)] * 2),
    st.integers(1, 2),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(0, 2)] * 2),
    st.tuples(*[st.integers(1, 2)] * 2),
    st.integers(1, 2),
)
def test_conv2d_formula_is_loop(batch, per_group, image, out_per_group, kernel, stride, padding, dilation, groups):
    padded = [n + 2 * p for n, p in zip(image, padding)]
    reach = [d * (k - 1) for k, d in zip(kernel, dilation)]
    arguments = ((batch, per_group * groups, *image), out_per_group * groups, kernel, stride, padding, dilation, groups)
    if any(r >= n for n, r in zip(padded, reach)):
        with pytest.raises(ValueError, match="reaches over"):
            conv2d_flops(*arguments)
        return
    multiply_adds = 0
    for _ in product(
        range(batch),
        range(out_per_group * groups),
        range(0, padded[0] - reach[0], stride[0]),
        range(0, padded[1] - reach[1], stride[1]),
    ):
        multiply_adds += per_group * kernel[0] * kernel[1]
    assert conv2d_flops(*arguments) == 2 * multiply_adds


@settings(max_examples=40)
@given(st.integers(1, 3), st.integers(1, 5), st.sampled_from([1, 2, 4]), st.integers(1, 3))
def test_attention_formula_is_observation(batch, length, heads, head):
    dim = heads * head
    model = attention(dim, heads)
    assert attention_flops(batch, length, dim, heads) == flop_report(model, (batch, length, dim)).contractions
    # 8 b s d² + 4 b h s² d_k
    assert (
        attention_flops(batch, length, dim, heads) == 8 * batch * length * dim**2 + 4 * batch * heads * length**2 * head
    )


def attention(dim, heads):
    """Attention as a function inside a forward: no layer of its own for the two products."""

    def run(self, x):
        def split(y):
            return y.reshape(x.shape[0], x.shape[1], heads, dim // heads).transpose(0, 2, 1, 3)

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        mixed = softmax(q @ k.T * (dim // heads) ** -0.5) @ v
        return self.out(mixed.transpose(0, 2, 1, 3).reshape(*x.shape))

    return Model(run, q=Linear(dim, dim), k=Linear(dim, dim), v=Linear(dim, dim), out=Linear(dim, dim))


def test_closed_forms_of_the_cases():
    assert linear_flops((5, 7, 8), 4) == 2 * 5 * 7 * 8 * 4 == 2240
    assert linear_flops((8,), 4) == 64
    assert conv2d_flops((1, 3, 10, 12), 8, 3, padding=1) == 2 * 10 * 12 * 8 * 27 == 51_840
    assert conv2d_flops((1, 3, 15, 17), 8, (3, 5), 2, dilation=2) == 2 * 6 * 5 * 8 * 45 == 21_600
    assert conv2d_flops((2, 2, 9, 11), 5, (1, 7), (2, 3), (0, 3)) == 2 * 2 * 5 * 5 * 4 * 14 == 5600
    assert conv2d_flops((1, 4, 8, 8), 6, 3, groups=2) == 2 * 6 * 6 * 6 * 18 == 7776
    assert conv2d_flops((1, 3, 32, 32), 16, 3) == 777_600
    assert conv2d_flops((1, 3, 224, 224), 64, 7, stride=2, padding=3) == 236_027_904
    first, second = conv2d_flops((5, 1, 8, 8), 2, 3), conv2d_flops((5, 2, 6, 6), 3, 3)
    assert first + second == 5 * (6 * 6 * 9 * 1 * 2 * 2 + 4 * 4 * 9 * 2 * 3 * 2)
    assert matmul_flops((2, 3, 4), (2, 4, 5)) == 2 * 2 * 3 * 4 * 5 == 240
    assert matmul_flops((2, 25, 16), (2, 16, 9)) == 14_400
    # one head's scores and mixture: 2 products of 2·h·T²·d, heads 2, T 8, d 4
    assert 2 * matmul_flops((1, 2, 8, 4), (1, 2, 4, 8)) == 2048
    assert attention_flops(1, 10, 64, 4) == 4 * 2 * 10 * 64 * 64 + 2 * 2 * 10 * 10 * 64 == 353_280
    feed_forward = linear_flops((32, 512, 768), 3072), linear_flops((32, 512, 3072), 768)
    assert feed_forward == (77_309_411_328, 77_309_411_328) and sum(feed_forward) == 154_618_822_656


def test_published_models_from_their_configuration():
    def gpt(T, D, heads, blocks, V=50_257):
        block = attention_flops(1, T, D, heads) + linear_flops((1, T, D), 4 * D) + linear_flops((1, T, 4 * D), D)
        return blocks * block + linear_flops((1, T, D), V)

    assert gpt(1024, 768, 12, 12) == 291_648_307_200
    assert gpt(1, 768, 12, 12) == 247_100_928
    assert gpt(1024, 1600, 25, 48) == 3_506_703_564_800
    assert gpt(2048, 12_288, 96, 96) == 734_804_261_732_352


def test_closed_forms_return_python_integers():
    big = np.int32(70_000)  # a product that would overflow 32 bits
    assert linear_flops((big, big), big) == 2 * 70_000**3
    assert {
        type(n)
        for n in (
            linear_flops((big, big), big),
            matmul_flops((big, big), (big, big)),
            attention_flops(big, big, big, np.int8(1)),
            conv2d_flops((np.int16(300), 3, 300, 300), np.int16(300), np.int16(3)),
        )
    } == {int}


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: matmul_flops((2, 3), (2, 3)), ValueError, "inner sizes 3 and 2 differ"),
        (lambda: matmul_flops((), (3,)), ValueError, "a_shape is empty"),
        (lambda: matmul_flops((2, 3), 3), TypeError, "b_shape is 3"),
        (lambda: matmul_flops((2, True), (1, 3)), TypeError, "a_shape.1. is True"),
        (lambda: matmul_flops((2, 1, 3), (3, 3, 2)), ValueError, "sizes 2 and 3 do not broadcast"),
        (lambda: linear_flops((2, 0), 3), ValueError, "input_shape.1. is 0"),
        (lambda: count_flops(Linear(3, 2), (10**30, 3)), ValueError, "more elements than an array can have"),
        (lambda: linear_flops((2, 3), 2.0), TypeError, "out_features is 2.0"),
        (lambda: linear_flops((2, 3), True), TypeError, "out_features is True"),
        (lambda: conv2d_flops((3, 8, 8), 2, 3), ValueError, "want 4 axes, not 3"),
        (lambda: conv2d_flops((1, 3, 8, 8), 2, (3, 3, 3)), ValueError, "kernel_size is .*one integer or two"),
        (lambda: conv2d_flops((1, 3, 8, 8), 2, 0), ValueError, "kernel_size is 0; want 1 or more"),
        (lambda: conv2d_flops((1, 3, 8, 8), 2, 3, stride=0), ValueError, "stride is 0"),
        (lambda: conv2d_flops((1, 3, 8, 8), 2, 3, padding=-1), ValueError, "padding is -1; want 0 or more"),
        (lambda: conv2d_flops((1, 3, 8, 8), 2, 3, dilation=True), TypeError, "dilation is True"),
        (lambda: conv2d_flops((1, 3, 8, 8), 2, 9), ValueError, "reaches over 9 pixels; the padded image has 8"),
        (lambda: conv2d_flops((1, 3, 8, 8), 4, 3, groups=2), ValueError, "groups is 2; it must divide 3"),
        (lambda: conv2d_flops((1, 4, 8, 8), 3, 3, groups=2), ValueError, "and 3 output channels"),
        (lambda: conv2d_flops((1, 4, 8, 8), 0, 3), ValueError, "out_channels is 0"),
        (lambda: attention_flops(1, 10, 64, 5), ValueError, "cannot be cut into 5 heads"),
        (lambda: attention_flops(1, 0, 64, 4), ValueError, "length is 0"),
        (lambda: attention_flops(1, 10, 64, False), TypeError, "heads is False"),
    ],
)
def test_bad_sizes(call, error, says):
    with pytest.raises(error, match=says):
        call()


# ---------------------------------------------------------------- the price list


def all_ops():
    found = {}
    for name in (file.name for file in pkgutil.iter_modules(core.__path__)):
        module = importlib.import_module(f"tinytorch.core.{name}")
        found.update({value: f"{name}.{key}" for key, value in vars(module).items() if isinstance(value, Op)})
    return found


def test_every_op_has_a_price():
    assert {name for op, name in all_ops().items() if op not in FLOPS} == set()
    assert is_contraction(ops.matmul) and is_contraction(linear) and not is_contraction(ops.add)


def priced(op, *inputs, **attrs):
    heard = []
    with listen(heard.append):
        op(*inputs, **attrs)
    return event_flops(heard[-1])


def test_prices_by_kind():
    a, b = Tensor(np.ones((4, 1))), Tensor(np.ones(3))
    assert priced(ops.add, a, b) == priced(ops.greater, a, b) == priced(ops.maximum, a, b) == 12  # outputs
    m = Tensor(np.ones((4, 3)))
    assert (
        priced(ops.reduce_sum, m, axis=1) == priced(ops.reduce_max, m) == priced(ops.argmax, m, axis=0) == 12
    )  # inputs
    for op, attrs in (
        (ops.reshape, {"shape": (12,)}),
        (ops.transpose, {"axes": (1, 0)}),
        (ops.cast, {"dtype": np.float16}),
        (ops.index, {"key": ([0, 2],)}),
        (ops.broadcast_to, {"shape": (2, 4, 3)}),
        (ops.put, {"key": (slice(4),), "shape": (9, 3)}),
    ):
        assert priced(op, m, **attrs) == 0
    assert priced(ops.where, m > 0, m, 0.0) == priced(ops.concatenate, m, m, axis=0) == 0
    assert priced(ops.add, Tensor(np.ones((0, 3))), b) == priced(ops.matmul, Tensor(np.ones((0, 3))), b) == 0


def test_unknown_is_not_zero():
    @ops.op(shape=ops.same_shape)
    def novelty(a):
        """Do something nobody has priced."""
        return a

    event = OpEvent(novelty, ((3,),), (3,), 24, {}, (), 0, 0)
    assert event_flops(event) is None
    report = flop_report(lambda x: novelty(novelty(x)) + 1.0, (2, 3))
    assert report.uncounted == {"novelty": 2} and report.total == 6
    assert "UNCOUNTED, no cost rule: novelty x2" in str(report)
    try:
        flops(novelty)(per_output)
        assert flop_report(lambda x: novelty(x), (2, 3)).total == 6
    finally:
        FLOPS.pop(novelty, None)


def test_one_owner_per_price():
    @ops.op(shape=ops.same_shape)
    def owned(a):
        """Do nothing."""
        return a

    def rule_from(module, value):
        scope_of = {"__name__": module}
        exec(f"def rule(out_shape, *in_shapes, **attrs): return {value}", scope_of)
        return scope_of["rule"]

    event = OpEvent(owned, ((3,),), (3,), 24, {}, (), 0, 0)
    try:
        flops(owned)(rule_from("one", 1))
        flops(owned, contraction=True)(rule_from("one", 2))  # the same module: a cell run again
        assert event_flops(event) == 2 and is_contraction(owned)
        for register in (lambda: flops(owned)(rule_from("two", 3)), lambda: free(owned)):
            with pytest.raises(ValueError, match="owned: .*cost rule"):
                register()
        assert event_flops(event) == 2
    finally:
        FLOPS.pop(owned, None)
        CONTRACTIONS.discard(owned)
    free(owned)
    free(owned)
    assert FLOPS.pop(owned)((3,), (3,)) == 0
    with pytest.raises(TypeError, match="want an op"):
        flops("add")


# ---------------------------------------------------------------- counting


def test_numbers_that_must_come_out():
    assert count_flops(Linear(128, 64), (1, 128)) == count_flops(Linear(128, 64), (32, 128)) == 2 * 128 * 64 == 16_384
    assert (
        count_flops(Linear(256, 128), (32, 256)) == 65_536
        and flop_report(Linear(256, 128), (32, 256)).total == 2_097_152
    )
    assert count_flops(Linear(4, 3), (7, 5, 4)) == 5 * 2 * 4 * 3 == 120
    assert count_flops(Linear(8, 4), (8,)) == 64
    model = Sequential(Linear(4, 3), ReLU(), Linear(3, 2))
    assert count_flops(model, (1, 4)) == count_flops(model, (7, 4)) == 24 + 3 + 12 == 39
    assert (
        flop_report(Sequential(Linear(64, 32), ReLU(), Linear(32, 10)), (1, 64)).contractions
        == 2 * (64 * 32 + 32 * 10)
        == 4736
    )
    assert count_flops(Tensor(np.ones((2, 2))), (4, 8)) == flop_report(Tensor([1.0]), (4, 8)).total == 32


def test_shared_skip_tied():
    shared = square(10)
    two = Sequential(Sequential(shared), Sequential(shared))
    assert count_flops(two, (2, 10)) == 400 and flop_report(two, (2, 10)).total == 800 and count_parameters(two) == 100
    skip = Model(lambda self, x: x + self.inner(x), inner=square(10))
    report = flop_report(skip, (1, 10))
    assert (report.contractions, report.elementwise, report.total) == (200, 10, 210)
    table = Tensor(np.ones((100, 16)), requires_grad=True)
    tied = Model(lambda self, x: x @ self.table.T, table=table)
    assert flop_report(tied, (1, 5, 16)).contractions == 2 * 5 * 16 * 100 == 16_000


def test_cases_that_need_later_modules():
    block = flop_report(TransformerBlock(64, 4), (1, 10, 64))
    # attention 353,280; feed-forward 2 * 2 * 10 * 64 * 256
    assert (block.contractions, block.parameters) == (353_280 + 655_360, 49_984) and block.contractions == 1_008_640
    assert count_flops(Embedding(100, 16), (1, 5)) == 0 and count_parameters(Embedding(100, 16)) == 1600
    for layer, shape, out, contractions in (
        (Conv2d(3, 8, (3, 5), stride=2, dilation=2), (1, 3, 15, 17), (1, 8, 6, 5), 21_600),
        (Conv2d(2, 5, (1, 7), stride=(2, 3), padding=(0, 3)), (2, 2, 9, 11), (2, 5, 5, 4), 5_600),
        (Conv2d(4, 6, 3, groups=2, bias=False), (1, 4, 8, 8), (1, 6, 6, 6), 7_776),
    ):
        assert flop_report(layer, shape).contractions == contractions
        assert run_on_shapes(layer, shape).output.shape == out
    assert count_parameters(Conv2d(4, 6, 3, groups=2, bias=False)) == 108


def test_multi_head_attention():
    for heads in (1, 2, 4, 8):
        model = attention(64, heads)
        assert flop_report(model, (1, 10, 64)).contractions == 353_280 and count_parameters(model) == 16_640
        for parameter in model.parameters():
            parameter.requires_grad = False
        with no_grad():
            assert flop_report(model.eval(), (1, 10, 64)).contractions == 353_280


def test_train_and_eval_differ_only_by_what_ran():
    model = Sequential(square(4), Dropout(0.5))
    assert count_flops(model, (1, 4)) == 32 + 4 + 4  # the mask and the product
    assert count_flops(model.eval(), (1, 4)) == 32


def test_forward_called_by_name_counts_the_same():
    model = Model(lambda self, x: self.inner.forward(x), inner=square(4))
    assert count_flops(model, (1, 4)) == 32
    assert [child.name for child in flop_report(model, (1, 4)).by_layer.children] == ["inner"]


def test_a_loss_is_counted_too():
    targets = np.zeros(5, np.int64)
    report = flop_report(lambda x: CrossEntropyLoss()(x, Tensor(targets)), (5, 3))
    # max 15, subtract 15, exp 15, sum 15, log 5, subtract 15, pick 0, sum 5, divide 1, negative 1
    assert report.total == 87 and report.uncounted == {}
    assert report.per_sample is None  # five targets do not go with one row, and 87 does not divide by 5


def test_models_that_fix_their_batch():
    fixed = Model(lambda self, x: self.inner(x.reshape(32, -1)), inner=square(6))
    assert count_flops(fixed, (32, 6)) == 72
    with pytest.raises(ValueError, match="last axis is 12"):  # its own error, about the shape that came
        count_flops(fixed, (64, 6))
    odd = Model(lambda self, x: x.reshape(32, -1) * (self.weight + 1.0), weight=Tensor([1.0], requires_grad=True))
    with pytest.raises(ValueError, match=r"193.*32"):
        count_flops(odd, (32, 6))
    assert flop_report(odd, (32, 6)).total == 193 and flop_report(odd, (32, 6)).per_sample is None


def test_a_batch_that_hides_in_broadcasting():
    table = Tensor(np.ones((4, 8)), requires_grad=True)
    hides = Model(lambda self, x: x + self.table, table=table)  # one sample would be stretched to four
    assert count_flops(hides, (4, 8)) == 8 and flop_report(hides, (4, 8)).per_sample == 8
    assert profile_forward_pass(hides, Tensor(np.ones((4, 8))), limits=MachineLimits(1, 1, 1), clock=int)[
        "flops_per_sample"] == 8
    assert count_flops(hides, (1, 8)) == 32  # here one sample really is stretched
    # what stretches something of its own does so whatever the batch: 1 product per element of the table, and 8 a sample
    own = Model(lambda self, x: x + (Tensor(np.ones((1, 8))) * self.table).max(axis=0), table=table)
    assert count_flops(own, (4, 8)) == 32 + 32 + 8


def test_what_values_decide_is_counted_on_zeros():
    model = Model(lambda self, x: x * 2.0 if not x.data.any() else x @ self.inner, inner=Tensor(np.ones((4, 4))))
    assert count_flops(model, (1, 4)) == 4  # shapes hold zeros only: the docstring says so
    seen = profile_forward_pass(model, Tensor(np.ones((1, 4))), limits=MachineLimits(1, 1, 1), clock=int)
    assert seen["flops"] == 32 and "zeros" in count_flops.__doc__


def test_the_batch_is_not_divided_where_it_does_not_multiply():
    model = Model(lambda self, x: x @ (self.weight * 2.0), weight=Tensor(np.ones((4, 4)), requires_grad=True))
    assert count_flops(model, (8, 4)) == 16 + 32  # the weight is doubled once however many samples there are
    assert flop_report(model, (8, 4)).total == 16 + 8 * 32


def test_errors_of_the_model_pass_unchanged():
    class Own(Exception):
        pass

    error = Own("mine")

    def run(self, x):
        raise error

    for call in (count_flops, flop_report):
        with pytest.raises(Own) as caught:
            call(Model(run), (2, 3))
        assert caught.value is error
    with pytest.raises(ValueError, match="must not decide by"):
        count_flops(Model(lambda self, x: x if x.sum().item() > 0 else -x), (2, 3))


def test_counting_is_private():
    heard, opened = [], []
    with scope("outside"), listen(heard.append, lambda *news: opened.append(news)):
        events = run_on_shapes(Sequential(square(3)), (2, 3)).events
        assert count_flops(square(3), (2, 3)) == 18
    assert heard == [] and opened == []
    assert [entry.name for entry in events[0].scope] == ["Sequential", "Linear"]


def test_large_models_cost_neither_time_nor_memory():
    with shape_only():
        model = Sequential(*(Linear(20_000, 20_000) for _ in range(10)))
    tracemalloc.start()
    try:
        start = perf_counter()
        assert count_flops(model, (64, 20_000)) == 10 * 2 * 20_000**2
        assert count_parameters(model) == 10 * (20_000**2 + 20_000)
        took, peak = perf_counter() - start, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000 and took < 0.5  # a weight of this model has 1.6 GB; measured: 2 ms


def test_real_weights_are_not_touched_either():
    model = Sequential(Linear(500, 500), ReLU())
    tracemalloc.start()
    try:
        flop_report(model, (256, 500))
        assert tracemalloc.get_traced_memory()[1] < model.layers[0].weight.nbytes / 4
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- the report


def every(cost):
    yield cost
    for child in cost.children:
        yield from every(child)


def check_tree(report):
    """At every depth: children and own ops add up, and nothing is negative."""
    assert report.by_layer.flops == report.total and report.by_layer.contractions == report.contractions
    assert report.by_layer.bytes == report.bytes_moved and report.by_layer.parameters == report.parameters
    for cost in every(report.by_layer):
        assert min(cost.own("flops"), cost.own("contractions"), cost.own("bytes"), cost.calls) >= 0


def test_leaves_and_own_ops_add_up_to_the_root():
    model = Sequential(Linear(8, 8), ReLU(), attention(8, 2), Model(lambda self, x: self.inner(x) + x, inner=square(8)))
    report = flop_report(model, (3, 5, 8))
    check_tree(report)
    leaves = sum(cost.flops for cost in every(report.by_layer) if not cost.children)
    own = sum(cost.own("flops") for cost in every(report.by_layer) if cost.children)
    assert leaves + own == report.total == sum(report.by_op.values())
    assert [child.name for child in report.by_layer.children] == [f"layers.{i}" for i in range(4)]
    assert report.num_ops == sum(report.op_calls.values()) and report.op_calls["linear"] == 6


def test_shared_layers_are_right_in_both_parents_and_marked():
    shared = square(10)
    report = flop_report(Sequential(Sequential(shared), Sequential(shared)), (2, 10))
    check_tree(report)
    left, right = report.by_layer.children
    assert left.flops == right.flops == 400 and report.by_layer.parameters == left.parameters == 100
    assert left.children[0].shared and right.children[0].shared and not left.shared
    assert "* shared" in str(report)
    tied = Sequential(square(4), square(4))
    tied.layers[1].weight = Tensor(tied.layers[0].weight.data.T)
    assert [child.shared for child in flop_report(tied, (1, 4)).by_layer.children] == [True, True]
    assert "* shared" not in str(flop_report(Sequential(square(4), square(4)), (1, 4)))


def test_one_layer_called_three_times():
    inner = square(10)
    report = flop_report(Sequential(inner, inner, inner), (1, 10))
    check_tree(report)
    (child,) = report.by_layer.children
    assert (child.calls, child.flops, child.parameters, child.shared) == (3, 600, 100, False)
    assert "x3" in str(report)


def test_recursion():
    class Node(Layer):
        def __init__(self, depth):
            self.depth, self.linear, self.other = depth, square(4), None

        def forward(self, x):
            if self.depth == 0:
                return self.linear(x)
            self.depth -= 1
            return self.other(self.linear(x))

    a = Node(3)
    a.other = Model(lambda self, x: self.back(x) + 1.0, back=a)  # a calls other, other calls a
    report = flop_report(a, (1, 4))
    check_tree(report)
    assert report.total == 4 * 32 + 3 * 4  # four linears, three additions
    assert a.depth == 3
    inner = [cost for cost in every(report.by_layer) if cost.type == "Node"]
    assert [cost.flops for cost in inner] == [140, 104, 68, 32]


def test_never_called():
    model = Model(lambda self, x: self.used(x), used=square(10), spare=Linear(10, 10), box=Sequential(square(2)))
    report = flop_report(model, (1, 10))
    assert report.never_called == ["spare", "box"]
    assert (report.parameters, report.total) == (100 + 110 + 4, 200)
    assert "never called: spare, box" in str(report)
    by_hand = Model(
        lambda self, x: self.steps.layers[1](self.steps.layers[0](x)), steps=Sequential(square(3), ReLU(), square(3))
    )
    assert flop_report(by_hand, (1, 3)).never_called == ["steps.layers.2"]  # the list itself was used, by hand


def test_scopes_that_are_no_layers():
    def run(self, x):
        with scope("scores"):
            return self.inner(x) * 2.0

    report = flop_report(Model(run, inner=square(4)), (1, 4))
    check_tree(report)
    (region,) = report.by_layer.children
    assert (region.name, region.type, region.flops, region.parameters) == ("scores", "scope", 36, 0)
    assert [(child.name, child.flops) for child in region.children] == [("inner", 32)]


def test_plain_objects_and_functions_as_root():
    class Plain:
        def __init__(self):
            self.blocks = [square(4), {"deep": square(4)}]

        def forward(self, x):
            return self.blocks[1]["deep"](self.blocks[0](x)) + x

    report = flop_report(Plain(), (2, 4))
    check_tree(report)
    assert (report.by_layer.type, [child.name for child in report.by_layer.children]) == (
        "Plain",
        ["blocks.0", "blocks.1.deep"],
    )
    assert report.total == 2 * (32 + 32 + 4) and report.per_sample == 68
    assert flop_report(lambda x: x * 2.0, (2, 4)).by_layer.own("flops") == 8


@pytest.mark.parametrize("model", [Sequential(), ReLU(), Sequential(Dropout(0.5)).eval(), Tensor([1.0])], ids=repr)
def test_tables_of_almost_nothing(model):
    report = flop_report(model, (1, 3))
    assert count_parameters(model) == 0
    assert all(len(line) <= 80 for line in str(report).splitlines())


def test_three_calls_and_two_prints_are_equal():
    model = Sequential(Linear(4, 3), ReLU())
    assert count_flops(model, (2, 4)) == count_flops(model, (2, 4)) == count_flops(model, (2, 4)) == 27
    reports = [flop_report(model, (2, 4)) for _ in range(3)]
    assert reports[0] == reports[1] == reports[2] and str(reports[0]) == str(reports[0]) == str(reports[2])


def test_tables_fit_the_screen():
    class AVeryLongNameForALayerThatDoesNotFitIntoAnyColumnAtAll(Layer):
        def __init__(self):
            self.an_attribute_whose_name_is_longer_than_the_column_it_is_shown_in = square(3)

        def forward(self, x):
            return self.an_attribute_whose_name_is_longer_than_the_column_it_is_shown_in(x)

    with shape_only():
        large = Sequential(*(Sequential(Linear(50_000, 50_000), ReLU()) for _ in range(30)))
    for model, shape in (
        (large, (10_000_000, 50_000)),
        (AVeryLongNameForALayerThatDoesNotFitIntoAnyColumnAtAll(), (1, 3)),
        (Sequential(*(square(3) for _ in range(300))), (1, 3)),
    ):
        text = str(flop_report(model, shape))
        assert max(map(len, text.splitlines())) <= 80 and len(text.splitlines()) <= 50
    report = flop_report(large, (1, 50_000))
    assert len(flop_table(report, max_rows=1000).splitlines()) > 90 > len(str(report).splitlines())


def test_to_dict_is_json():
    report = flop_report(Sequential(Linear(4, 3), ReLU(), Linear(3, 2)), (7, 4))
    plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert (
        plain["total"] == 273
        and plain["per_sample"] == 39
        and plain["elementwise"] == 21
        and plain["contractions"] == 252
    )
    assert plain["by_op"] == {"linear": 252, "relu": 21} and plain["input_shape"] == [7, 4]
    assert plain["by_layer"]["children"][1]["type"] == "ReLU" and plain["convention"] == report.convention == CONVENTION
    assert CONVENTION.split(",")[0] in str(report)


@pytest.mark.parametrize("model", [
    Sequential(Linear(4, 3), Sequential(ReLU(), Linear(3, 2))), Sequential(), ReLU(), Tensor([1.0]),
    Sequential(*[square(4)] * 3), Model(lambda self, x: x * 2.0, spare=square(2))], ids=repr)
def test_reports_come_back_from_json(model):
    report = flop_report(model, (7, 4))
    again = FlopReport.from_dict(json.loads(json.dumps(report.to_dict(), allow_nan=False)))
    assert again == report and str(again) == str(report) and again.to_dict() == report.to_dict()
    assert LayerCost.from_dict(json.loads(json.dumps(report.by_layer.to_dict()))) == report.by_layer
    assert again.elementwise == report.elementwise and again._repr_html_() == report._repr_html_()


class Rows(HTMLParser):
    """Reads a table: the text of every cell, and whether every tag was closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.cells, self.text = [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)
        if tag in ("td", "th"):
            self.text = ""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self.cells.append(self.text)

    def handle_data(self, data):
        self.text += data


def test_html_for_a_notebook():
    model = Sequential(Linear(4, 3), ReLU(), square(3))
    page = Rows(flop_report(model, (7, 4))._repr_html_())
    assert page.open == [] and page.cells[:4] == ["layer", "parameters", "FLOPs", "%"]
    assert page.cells[4:12] == ["Sequential", "24", "315", "100.0", "layers.0 Linear", "15", "168", "53.3"]
    odd = type("<b>&Odd", (Layer,), {"forward": lambda self, x: x + 1.0})()
    text = flop_report(Sequential(odd), (1, 3))._repr_html_()
    assert "&lt;b&gt;&amp;Odd" in text and "<b>" not in text and Rows(text).open == []


@pytest.mark.parametrize("width", [40, 60, 79, 80, 120])
def test_a_table_of_any_width(width):
    with shape_only():
        large = Sequential(*(Sequential(Linear(50_000, 50_000), ReLU()) for _ in range(3)))
    for model, shape in ((large, (10_000, 50_000)), (Sequential(), (1, 3)), (Sequential(*[square(3)] * 2), (1, 3))):
        table = flop_table(flop_report(model, shape), width=width)
        lines = table.splitlines()
        assert max(map(len, lines)) <= width and lines[1].split()[0] == "layer" and lines[1].split()[-1] == "%"
        assert width < 60 or ".." not in "".join(lines[1:6])  # names are readable
    assert ("2.5G" if width < 80 else "2,500,050,000") in flop_table(flop_report(large, (1, 50_000)), width=width)


def test_lines_of_a_table_add_up_at_every_depth():
    def run(self, x):
        return self.inner(x) * self.scale + x

    model = Sequential(Model(run, inner=Sequential(square(4), ReLU()), scale=Tensor(np.ones(4), requires_grad=True)),
                       Model(lambda self, x: self.a(x), a=square(4), spare=square(4)))
    report = flop_report(model, (2, 4))
    for levels in range(4):
        rows = _rows(report.by_layer, levels)
        for i, (depth, _, parameters, cost) in enumerate(rows):
            inside = list(takewhile(lambda row, depth=depth: row[0] > depth, rows[i + 1:]))
            below = [row for row in inside if row[0] == depth + 1]
            if below:
                assert sum(row[2] for row in below) == parameters and sum(row[3] for row in below) == cost
    # the scale's 4 and x * scale + x, 16 FLOPs; a layer never called owns 16 parameters
    own = [row[2:] for row in _rows(report.by_layer, 9) if row[1] == "(own)"]
    assert own == [(4, 16), (16, 0)]


def test_bytes_moved_are_the_events_bytes():
    report = flop_report(Linear(4, 3), (7, 4))
    assert report.bytes_moved == 4 * (7 * 4 + 4 * 3 + 3 + 7 * 3)  # input, weight, bias read; output written


def test_sums_and_tallies_of_any_events():
    model, x = Sequential(square(3), ReLU()), Tensor(np.ones((2, 3)))
    events = []
    with listen(events.append):
        model(x)
    assert tally(events)["total"] == 36 + 6 and tally([])["total"] == 0
    assert sum_by_scope(events, lambda event: event.num_bytes)[()] == tally(events)["bytes_moved"]


def test_hollow_and_real_runs_hear_the_same():
    model, x = attention(8, 2), Tensor(np.ones((2, 5, 8)))
    real = []
    with listen(real.append):
        model(x)
    shapes = run_on_shapes(model, (2, 5, 8)).events
    assert [e[:3] for e in real] == [e[:3] for e in shapes]
    copied = [a.num_bytes - b.num_bytes for a, b in zip(real, shapes) if a.num_bytes != b.num_bytes]
    assert copied == [2 * 2 * 5 * 8 * 4]  # joining the heads again copies, which only a real run can see

"""The cases of counting, forwards and for the backward pass that ran: contractions, with the arithmetic beside them.

A contraction of F FLOPs has two gradients of F each: one for its input and one for its weight. What wants none, costs
none: the first layer's input, frozen weights.
"""

import numpy as np
import pytest

from tinytorch.core.activations import ReLU, softmax
from tinytorch.core.attention import MultiHeadAttention, scaled_dot_product_attention
from tinytorch.core.embeddings import Embedding
from tinytorch.core.layers import Layer, Linear, Sequential
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import SGD, Adam, AdamW
from tinytorch.core.spatial import BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor, op, same_shape, thread_state
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.profiling import (
    MachineLimits,
    count_both_passes,
    flop_report,
    optimizer_bytes,
    profile_backward_pass,
)

MACHINE = MachineLimits(peak_gflops=50, bandwidth_gbs=20, dispatch_us=5)
MB = 1024**2


def still():
    """A clock for tests in which no time needs to pass."""
    return 0


def ones(*shape, **more):
    return Tensor(np.ones(shape, np.float32), **more)


def contractions(model, x):
    """(forward, backward) when the input wants no gradient, and backward when it does."""
    plain = [work.contractions for work in count_both_passes(model, x)]
    wanted = Tensor(x.data, requires_grad=True)
    return (*plain, count_both_passes(model, wanted)[1].contractions)


class Own(Layer):
    """A layer of a given forward; other things become attributes."""

    def __init__(self, run, **things):
        self.run = run
        self.__dict__.update(things)

    def forward(self, x):
        return self.run(self, x)


def square(n):
    return Linear(n, n, bias=False)


# ---------------------------------------------------------------- linear layers and products


@pytest.mark.parametrize(("layer", "shape", "forward"), [
    (Linear(8, 4), (5, 7, 8), 2 * 5 * 7 * 8 * 4), (Linear(8, 4), (8,), 2 * 8 * 4), (Linear(8, 4), (5, 8), 320)])
def test_linear(layer, shape, forward):
    assert contractions(layer, ones(*shape)) == (forward, forward, 2 * forward)


@pytest.mark.parametrize(("a", "b", "forward"), [
    ((2, 3, 4), (2, 4, 5), 240), ((2, 25, 16), (2, 16, 9), 14_400), ((2, 3, 4), (4, 5), 240)])
def test_products(a, b, forward):
    model = Own(lambda self, x: x @ self.other, other=ones(*b, requires_grad=True))
    assert contractions(model, ones(*a)) == (forward, forward, 2 * forward)
    model.other.requires_grad = False
    assert contractions(model, ones(*a)) == (forward, 0, forward)


def test_mlp():
    # forward 2(784*128 + 128*10); weights' gradients as much again; one input gradient, that of the second layer
    model = Sequential(Linear(784, 128), ReLU(), Linear(128, 10))
    first, second = 2 * 784 * 128, 2 * 128 * 10
    assert contractions(model, ones(1, 784)) == (first + second, first + 2 * second, 2 * (first + second))
    assert first + second == 203_264 and 2 * first + 3 * second == 409_088


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("make", [lambda: square(6), lambda: Conv2d(4, 4, 3, padding=1, bias=False)])
def test_equal_layers_cost_two_l_minus_one(layers, make):
    x = ones(3, 6) if isinstance(make(), Linear) else ones(2, 4, 5, 5)
    forward, backward = count_both_passes(Sequential(*[make() for _ in range(layers)]), x)
    assert backward.contractions * layers == forward.contractions * (2 * layers - 1)


# ---------------------------------------------------------------- convolutions


@pytest.mark.parametrize(("layer", "shape", "forward"), [
    (Conv2d(3, 8, 3, padding=1), (1, 3, 10, 12), 2 * 10 * 12 * 8 * 3 * 9),  # 51,840
    (Conv2d(3, 8, (3, 5), stride=2, dilation=2), (1, 3, 15, 17), 2 * 6 * 5 * 8 * 3 * 15),  # 21,600
    (Conv2d(2, 5, (1, 7), stride=(2, 3), padding=(0, 3)), (2, 2, 9, 11), 2 * 2 * 5 * 4 * 5 * 2 * 7),  # 5,600
    (Conv2d(4, 6, 3, groups=2), (1, 4, 8, 8), 2 * 6 * 6 * 6 * 2 * 9),  # 7,776
    (Conv2d(4, 4, 3, groups=4, padding=1), (2, 4, 8, 8), 2 * 2 * 8 * 8 * 4 * 9),  # depthwise
    (Conv2d(4, 8, 3, groups=4, stride=2), (2, 4, 9, 9), 2 * 2 * 4 * 4 * 8 * 9),  # depthwise, two filters a channel
    (Conv2d(3, 16, 3), (1, 3, 32, 32), 777_600), (Conv2d(8, 4, 1), (2, 8, 5, 5), 2 * 2 * 25 * 4 * 8)])
def test_convolutions(layer, shape, forward):
    assert contractions(layer, ones(*shape)) == (forward, forward, 2 * forward)
    assert flop_report(layer, shape).contractions == forward
    layer.weight.requires_grad = False
    assert contractions(layer, ones(*shape)) == (forward, 0, forward)  # the bias's gradient is a sum, no contraction


def test_two_convolutions():
    first, second = 5 * 6 * 6 * 9 * 1 * 2 * 2, 5 * 4 * 4 * 9 * 2 * 3 * 2
    model = Sequential(Conv2d(1, 2, 3), Conv2d(2, 3, 3))
    assert contractions(model, ones(5, 1, 8, 8)) == (first + second, first + 2 * second, 2 * (first + second))


def test_everything_of_a_small_network():
    # conv 1->2, k3 on 6x6: 4x4; relu; pool 2: 2x2; a linear layer 8 -> 3
    class Net(Layer):
        def __init__(self):
            self.conv, self.relu, self.pool, self.head = Conv2d(1, 2, 3), ReLU(), MaxPool2d(2), Linear(8, 3)

        def forward(self, x):
            return self.head(self.pool(self.relu(self.conv(x))).reshape(1, 8))

    got = profile_backward_pass(Net(), ones(1, 1, 6, 6), limits=MACHINE, clock=still)
    conv, head = 2 * 16 * 2 * 9, 2 * 8 * 3
    assert (got["forward_contractions"], got["backward_contractions"]) == (conv + head, conv + 2 * head)
    assert got["by_op"]["forward"] == {"conv2d": conv, "linear": head, "relu": 32, "max_pool2d": 32, "reshape": 0}
    behind = got["by_op"]["backward"]
    # the pool's windows again 8*4; relu's mask 32; two sums for biases: 3 and 32 elements
    assert (behind["conv2d_weight_gradient"], behind["matmul"], behind["max_pool2d_gradient"]) == (conv, 2 * head, 32)
    assert behind["reduce_sum"] == 3 + 32 and got["backward_flops"] == sum(behind.values())


# ---------------------------------------------------------------- attention, sharing, what is no contraction


def test_functional_attention():
    x = ones(1, 2, 8, 4, requires_grad=True)
    forward, backward = count_both_passes(lambda q: scaled_dot_product_attention(q, q, q), x)
    assert (forward.contractions, backward.contractions) == (2048, 2 * 2048)


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_multi_head_attention(heads):
    # projections 327,680 (three on x, one on what was mixed) + two products 25,600
    forward, backward, wanted = contractions(MultiHeadAttention(64, heads), ones(1, 10, 64))
    assert forward == 353_280
    assert backward == 2 * forward - 3 * 2 * 10 * 64 * 64  # x wants none: q, k and v need no gradient of their input
    assert wanted == 2 * forward


def test_transformer_block():
    model = TransformerBlock(64, 4)
    forward, backward, wanted = contractions(model, ones(1, 10, 64))
    # a layer norm with weights of its own stands before every projection: all inputs of contractions want gradients
    assert (forward, backward, wanted) == (1_008_640, 2 * 1_008_640, 2 * 1_008_640)


def test_a_shared_layer_pays_each_time():
    shared = square(10)
    model = Sequential(Sequential(shared), Sequential(shared))
    assert contractions(model, ones(1, 10)) == (400, 600, 800)
    rows = profile_backward_pass(model, ones(1, 10), limits=MACHINE, clock=still)["layers"]
    assert [(row["depth"], row["forward_flops"], row["backward_contractions"]) for row in rows] == [
        (0, 400, 600), (1, 200, 200), (2, 200, 200), (1, 200, 400), (2, 200, 400)]
    assert [row["parameters"] for row in rows] == [100] * 5


def test_a_tied_table():
    table = Embedding(100, 16)
    model = Own(lambda self, x: self.table(x) @ self.table.weight.T, table=table)
    forward, backward = count_both_passes(model, Tensor(np.array([[1, 2, 3, 4, 5]])))
    assert (forward.contractions, backward.contractions) == (16_000, 32_000)  # looking up multiplies nothing
    assert [work.contractions for work in count_both_passes(table, Tensor(np.array([[1, 2]])))] == [0, 0]


def test_a_skip_connection():
    model = Own(lambda self, x: x + self.inner(x), inner=square(10))
    assert contractions(model, ones(1, 10)) == (200, 200, 400)


def test_what_is_no_contraction():
    for model, shape in ((Sequential(), (2, 3)), (ReLU(), (2, 3)), (BatchNorm2d(3), (2, 3, 4, 4)),
                         (lambda x: softmax(x), (2, 3))):
        assert contractions(model, ones(*shape)) == (0, 0, 0)
    relu = count_both_passes(ReLU(), ones(2, 3, requires_grad=True))
    assert [work.flops for work in relu] == [6, 6]  # a comparison each way; selecting is free


# ---------------------------------------------------------------- layer by layer


def test_layers_of_both_passes_add_up():
    scaled = Own(lambda self, x: x * self.w, w=ones(4, requires_grad=True))
    model = Sequential(Linear(6, 5), ReLU(), Sequential(Linear(5, 4), scaled))
    loss, targets = CrossEntropyLoss(), Tensor(np.array([0, 1, 2]))
    got = profile_backward_pass(model, ones(3, 6), lambda y: loss(y, targets), limits=MACHINE, clock=still)
    rows = got["layers"]
    assert [(row["name"], row["type"], row["depth"]) for row in rows][:5] == [
        ("Sequential", "Sequential", 0), ("layers.0", "Linear", 1), ("layers.1", "ReLU", 1),
        ("layers.2", "Sequential", 1), ("layers.2.layers.0", "Linear", 2)]
    for side, between in (("forward", 0), ("backward", 12)):  # two gradients of the loss's 3 x 4 inputs are added
        assert rows[0][f"{side}_flops"] == got[f"{side}_flops"] == sum(got["by_op"][side].values())
        assert rows[0][f"{side}_contractions"] == got[f"{side}_contractions"]
        assert rows[3][f"{side}_flops"] == rows[4][f"{side}_flops"] + rows[5][f"{side}_flops"]
        assert sum(row[f"{side}_flops"] for row in rows if row["depth"] == 1) == rows[0][f"{side}_flops"] - between
    assert (rows[-1]["type"], rows[-1]["depth"]) == ("CrossEntropyLoss", 1)  # the loss is a layer, outside the model
    # the scale: 12 products forwards; backwards 12 for x, 12 for w, and a sum of 12 over the batch
    assert (rows[5]["forward_flops"], rows[5]["backward_flops"]) == (12, 36)
    # first layer 2*3*6*5 = 180 for its weight, 15 for its bias; the second 120 for its weight, 120 for its input, 12
    assert (rows[1]["backward_flops"], rows[4]["backward_flops"]) == (195, 252)


def test_models_that_are_no_layers_have_rows_too():
    got = profile_backward_pass(lambda x: x * 2.0, ones(3, 4, requires_grad=True), limits=MACHINE, clock=still)
    assert len(got["layers"]) == 1 and got["layers"][0]["forward_flops"] == got["forward_flops"] == 12
    assert got["layers"][0]["backward_flops"] == got["backward_flops"] == 12


def test_an_op_without_a_price_is_named():
    from tinytorch.core.autograd import VJP, vjp

    @op(shape=same_shape)
    def unpriced(a):
        """Copy."""
        return a + 0

    vjp(unpriced)(lambda g, out, a: (lambda: unpriced(g),))
    try:
        got = profile_backward_pass(unpriced, ones(2, 3, requires_grad=True), limits=MACHINE, clock=still)
    finally:
        VJP.pop(unpriced)
    assert got["uncounted"] == ["unpriced"] and got["total_flops"] == 0


# ---------------------------------------------------------------- an optimizer that is handed in


@pytest.mark.parametrize(("make", "arrays"), [
    (lambda p: SGD(p, lr=0.1), 0), (lambda p: SGD(p, lr=0.1, momentum=0.9), 1), (Adam, 2), (AdamW, 2)])
@pytest.mark.parametrize("steps", [0, 1])
def test_an_optimizers_state_is_weighed(make, arrays, steps):
    model, x = Sequential(Linear(20, 30), ReLU(), Linear(30, 10, bias=False)), ones(4, 20)
    optimizer = make(model.parameters())
    for _ in range(steps):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    before = [p.data for p in model.parameters()], [p.data.copy() for p in model.parameters()]
    state = [dict(memory) for memory in optimizer.state]
    copies = [{k: np.copy(v) for k, v in memory.items()} for memory in state]
    got = profile_backward_pass(model, x, optimizer=optimizer, limits=MACHINE, clock=still)
    nbytes = arrays * 4 * (20 * 30 + 30 + 300)
    assert got["optimizer_state_mb"] * MB == nbytes
    assert all(p.data is a and (a == b).all() and p.grad is None for p, a, b in zip(model.parameters(), *before))
    assert optimizer.state == state and all((np.asarray(m[k]) == c[k]).all() for m, c in zip(state, copies) for k in m)
    assert optimizer_bytes(optimizer, model) == (nbytes if steps else 0)


def test_frozen_weights_have_no_state():
    model = Sequential(Linear(4, 4), Linear(4, 4))
    for weight in model.layers[0].parameters():
        weight.requires_grad = False
    got = profile_backward_pass(model, ones(2, 4), optimizer=Adam(model.parameters()), limits=MACHINE, clock=still)
    assert got["optimizer_state_mb"] * MB == 2 * 4 * 20 == got["optimizer_memory_estimates"]["adam"] * MB


@pytest.mark.parametrize("optimizer", ["adam", 3, Adam])
def test_what_is_no_optimizer_is_refused(optimizer):
    with pytest.raises(TypeError, match="optimizer is .*want one of Module 06"):
        profile_backward_pass(Linear(4, 3), ones(2, 4), optimizer=optimizer, limits=MACHINE, clock=still)


@pytest.mark.parametrize("loss_fn", [3, "mse", ones(1)])
def test_a_loss_that_is_no_function_is_refused(loss_fn):
    with pytest.raises(TypeError, match="want a function from the output to a scalar Tensor"):
        profile_backward_pass(Linear(4, 3), ones(2, 4), loss_fn, limits=MACHINE, clock=still)
    assert thread_state().hearers == ()


def test_an_optimizer_that_fails_leaves_everything_as_it_was():
    model = Linear(4, 3)

    class Fails(SGD):
        def step(self):
            super().step()
            raise RuntimeError("mine")

    weight = model.weight.data.copy()
    with pytest.raises(RuntimeError, match="mine"):
        fails = Fails(model.parameters(), lr=1.0)
        profile_backward_pass(model, ones(2, 4), optimizer=fails, limits=MACHINE, clock=still)
    assert (model.weight.data == weight).all() and model.weight.grad is None


# ---------------------------------------------------------------- the peak of both passes


def test_the_peak_of_training_is_the_sum_by_hand():
    n, d = 1000, 128  # one array: half a MB; a weight: 64 kB
    model = Sequential(square(d), ReLU(), square(d))
    got = profile_backward_pass(model, ones(n, d), limits=MACHINE, clock=still, iterations=1)
    array, weight = 4 * n * d, 4 * d * d
    # the highest point is relu's gradient: hidden, rectified, output and the ones it started from are alive, the
    # gradient that arrives and the one that leaves, a mask of one byte each, and the last weight's gradient
    peak = 2 * weight + array + (6 * array + array // 4 + weight)
    assert got["peak_memory_mb"] * MB == pytest.approx(peak, rel=0.02)
    assert got["activation_memory_mb"] * MB == 3 * array and got["gradient_memory_mb"] * MB == 2 * weight
    assert got["forward_memory_mb"] * MB == pytest.approx(2 * weight + 4 * array, rel=0.02)
    assert any("estimates" in text for text in got["assumptions"]) and got["omissions"]

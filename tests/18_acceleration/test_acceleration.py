"""Tiles, pieces, GELU and its chain in one op: edges, layouts, refusals, gradients, what the door sees."""

from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.activations import gelu
from tinytorch.core.autograd import check_gradient, check_rule
from tinytorch.core.layers import Linear, Sequential, linear
from tinytorch.core.tensor import Tensor, hollow, listen, matmul, shape_only
from tinytorch.perf.acceleration import (
    BLOCK,
    FusedGELU,
    LinearGELU,
    fused_gelu,
    fused_gelu_gradient,
    gelu_curve,
    gelu_into,
    gelu_slope,
    in_pieces,
    linear_gelu,
    tiled_matmul,
    tiled_traffic,
)
from tinytorch.perf.profiling import event_bytes, event_flops, inside, measure_memory, observe, work_of

# torch 2.13.0, float64: torch.nn.functional.gelu(x, approximate="tanh"), its gradient, and the gradient of that
PLACES = [-4.0, -2.0, -1.0, -0.5, 0.0, 0.3, 1.0, 2.0, 5.0]
VALUES = [-7.02459481923e-05, -0.0454023059122, -0.158808009392, -0.154285990175, 0.0, 0.185370923543, 0.841191990608,
          1.95459769409, 4.99999977082]
SLOPES = [-0.000335123197122, -0.0860992566236, -0.0829640838458, 0.132630096465, 0.5, 0.732295451639, 1.08296408385,
          1.08609925662, 1.00000154636]
CURVES = [-0.00147405966377, -0.107875079951, 0.242148197984, 0.615506895116, 0.797884560803, 0.728148448434,
          0.242148197984, -0.107875079951, -9.93413222489e-06]


def formula(x):
    """GELU's tanh form in float64, written down as in the book."""
    x = np.asarray(x, np.float64)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def normal(*shape, seed=0, scale=2.0):
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def double(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal(shape), True, dtype=np.float64)


def heard(function):
    events = []
    with listen(events.append):
        function()
    return events


# Tiles


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(1, 11))
@settings(max_examples=60, deadline=None)
def test_tiles_are_the_product(m, k, n, tile):
    """Whole numbers: equal to the last digit, whatever is ragged or empty."""
    rng = np.random.default_rng(m + 10 * k + 100 * n)
    a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
    got = tiled_matmul(Tensor(a), Tensor(b), tile=tile)
    assert (got.shape, got.dtype) == ((m, n), np.int64)
    np.testing.assert_array_equal(got.data, a @ b)


@pytest.mark.parametrize(("shapes", "tile", "error", "says"), [
    (((2, 3), (4, 5)), 2, ValueError, "inner sizes 3 and 4 differ"),
    (((2, 2, 3), (3, 4)), 2, ValueError, "want two matrices"),
    (((3,), (3, 4)), 2, ValueError, "want two matrices"),
    (((2, 3), (3, 4)), 0, ValueError, "tile is 0; want a positive integer"),
    (((2, 3), (3, 4)), 2.0, TypeError, "tile is 2.0; want a positive integer"),
    (((2, 3), (3, 4)), True, TypeError, "tile is True"),
])
@pytest.mark.parametrize("hollowed", [False, True])
def test_tiles_refuse(shapes, tile, error, says, hollowed):
    inputs = [Tensor(np.zeros(shape, np.float32)) for shape in shapes]
    with pytest.raises(error, match=f"tiled_matmul: .*{says}"):
        if hollowed:
            with shape_only():
                tiled_matmul(*inputs, tile=tile)
        else:
            tiled_matmul(*inputs, tile=tile)


def test_tiles_of_other_layouts_and_types():
    a, b = normal(9, 6).T, normal(9, 14, seed=1)[:, ::2]
    np.testing.assert_allclose(tiled_matmul(Tensor(a), Tensor(b), tile=4).data, a @ b, rtol=1e-5, atol=1e-5)
    mixed = tiled_matmul(Tensor(np.ones((2, 2), np.int64)), Tensor(np.ones((2, 2), np.float32)))
    assert mixed.dtype == np.float32


def test_tiles_have_the_gradient_of_the_product():
    a, b = double(5, 7), double(7, 3, seed=1)
    assert check_gradient(lambda a, b: tiled_matmul(a, b, tile=2), a, b) < 1e-6
    with pytest.raises(ValueError, match="tile is -1"):
        tiled_matmul(a, b, tile=-1)


@pytest.mark.parametrize(("m", "k", "n", "tile"), [(4, 6, 8, 2), (5, 7, 3, 2), (10, 10, 10, 1), (2, 3, 4, 99)])
def test_what_tiles_move(m, k, n, tile):
    """The event's bytes are the formula's numbers at four bytes each; the price is the product's."""
    a, b = Tensor(normal(m, k)), Tensor(normal(k, n))
    (tiled,), (whole,) = heard(lambda: tiled_matmul(a, b, tile=tile)), heard(lambda: matmul(a, b))
    products = ceil(m / tile) * ceil(k / tile) * ceil(n / tile)
    assert event_bytes(tiled) == 4 * tiled_traffic(m, k, n, tile)
    assert event_flops(tiled) == event_flops(whole) == 2 * m * k * n
    assert (inside(tiled).products, inside(tiled).pieces, inside(tiled).steps) == (products, products, 2 * products)


@pytest.mark.parametrize(("tile", "error"), [(0, ValueError), (-2, ValueError), (0.5, TypeError)])
def test_traffic_of_no_tiles_is_refused(tile, error):
    with pytest.raises(error, match=f"tile is {tile}; want a positive integer"):
        tiled_traffic(4, 4, 4, tile)


def test_no_tiles_move_in_an_empty_product():
    (event,) = heard(lambda: tiled_matmul(Tensor(np.zeros((0, 3))), Tensor(np.zeros((3, 2)))))
    assert (event_flops(event), event_bytes(event)) == (0, event.num_bytes)


# Pieces


@pytest.mark.parametrize("inputs", [(np.zeros(5),), (np.zeros(6), np.zeros((6, 1, 2)))])
def test_pieces_refuse_another_size(inputs):
    out = np.zeros((2, 3))
    with pytest.raises(ValueError, match=r"out \(2, 3\) with .*: want inputs of its size"):
        list(in_pieces(out, *inputs))


@pytest.mark.parametrize("view", [lambda a: a[:, ::2], lambda a: a.T])
def test_pieces_refuse_an_out_whose_pieces_would_be_copies(view):
    """Writing would be lost in silence."""
    with pytest.raises(ValueError, match="an out that lies in one piece"):
        list(in_pieces(view(np.zeros((4, 6)))))


@pytest.mark.parametrize(("block", "error"), [(0, ValueError), (-4, ValueError), (2.0, TypeError)])
def test_pieces_of_no_size_are_refused(block, error):
    """A block below 0 gave no pieces at all: a result that nobody has written."""
    with pytest.raises(error, match=f"block is {block}; want a positive integer"):
        list(in_pieces(np.zeros(8), block=block))


@given(st.integers(0, 50), st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_pieces_cover_everything_once(size, block):
    out, x = np.zeros(size), np.arange(size)
    for piece, source in in_pieces(out, x, block=block):
        assert 0 < len(piece) <= block
        piece += source + 1
    np.testing.assert_array_equal(out, x + 1)


# GELU


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (7, 0, 2), (BLOCK,), (BLOCK + 1,), (3, BLOCK // 2 + 5)])
def test_fused_is_composed(shape):
    x = normal(*shape)
    before, got = x.copy(), fused_gelu(Tensor(x))
    assert (got.shape, got.dtype) == (shape, np.float32)
    np.testing.assert_allclose(got.data, gelu(Tensor(x)).data, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got.data, formula(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::2, ::-1], lambda a: a[:, 1:3], np.asfortranarray])
def test_fused_reads_any_layout(view):
    x, g = view(normal(6, 10)), view(normal(6, 10, seed=1))
    np.testing.assert_allclose(fused_gelu(Tensor(x)).data, formula(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fused_gelu_gradient(Tensor(g), Tensor(x)).data, g * gelu_slope(x), rtol=1e-6)


def test_torch_agrees():
    x = Tensor(PLACES, dtype=np.float64)
    np.testing.assert_allclose(fused_gelu(x).data, VALUES, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gelu_slope(x.data), SLOPES, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gelu_curve(x).data, CURVES, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("given_type", "wanted"), [(np.int8, np.float32), (bool, np.float32), (np.float16, np.float16),
                                                    (np.float32, np.float32), (np.float64, np.float64)])
def test_types(given_type, wanted):
    x = Tensor(np.array([0, 1], given_type), dtype=given_type)
    assert fused_gelu(x).dtype == wanted
    np.testing.assert_allclose(fused_gelu(x).data, [0, 0.841192], atol=1e-3)
    assert fused_gelu_gradient(x, x).dtype == wanted


def test_far_out():
    """NaN stays NaN; where x² is beyond every number, gelu is x, or 0, without a warning."""
    got = fused_gelu(Tensor([np.nan, 1e30, -1e30, np.inf, 300.0, -300.0])).data
    np.testing.assert_array_equal(got, np.array([np.nan, 1e30, 0, np.inf, 300, 0], np.float32))
    half = np.array([300, -300, 60_000, -60_000], np.float16)  # 2 · 60,000 is beyond float16
    np.testing.assert_array_equal(fused_gelu(Tensor(half)).data, np.array([300, 0, 60_000, 0], np.float16))
    most = np.finfo(np.float32).max
    np.testing.assert_array_equal(fused_gelu(Tensor([most, -most])).data, np.array([most, 0], np.float32))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_the_slope_far_out(kind):
    """1 and 0, where x² is inf and 1 - t² is 0, whose product would be NaN; NaN stays. Without a warning."""
    most = float(np.finfo(kind).max)
    x = Tensor(np.array([most, -most, 300, -300, np.inf, np.nan]), True, dtype=kind)
    got = fused_gelu_gradient(Tensor(np.full(6, 2), dtype=kind), x)
    assert got.dtype == kind
    np.testing.assert_array_equal(got.data, np.array([2, 0, 2, 0, 2, np.nan], kind))
    near = np.array([-16.0, -6.0, 6.0, 16.0])  # FAR changes nothing: its own slope is 1, or 0, to the last digit
    got = fused_gelu_gradient(np.ones(4), Tensor(near, dtype=np.float64))
    np.testing.assert_array_equal(got.data, gelu_slope(near))


def test_what_the_door_sees_of_the_way_back():
    """40,000 numbers, 2 pieces: a clip (2 FLOPs), 15 operations of the slope, g times it; 17 NumPy calls a piece."""
    g = Tensor(normal(40_000))
    (event,) = heard(lambda: fused_gelu_gradient(g, g))
    assert event_flops(event) == (2 + 15 + 1) * 40_000 == 720_000
    assert inside(event).steps == 2 * 17 - 1
    assert event_bytes(event) == 3 * 4 * 40_000


def test_gradients_once_and_twice():
    x = np.linspace(-3, 3, 24).reshape(4, 6)
    assert check_rule(fused_gelu, x) < 1e-6
    assert check_rule(fused_gelu_gradient, normal(4, 6).astype(np.float64), x) < 1e-6


@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((4,), (5,)), ((), (1,))])
@pytest.mark.parametrize("hollowed", [False, True])
def test_a_gradient_is_not_stretched(shapes, hollowed):
    g, a = (Tensor(hollow(shape) if hollowed else np.zeros(shape)) for shape in shapes)
    with pytest.raises(ValueError, match="fused_gelu_gradient: g .* with a .*: want the same shape"):
        if hollowed:
            with shape_only():
                fused_gelu_gradient(g, a)
        else:
            fused_gelu_gradient(g, a)


def test_gelu_into_makes_no_array():
    x = normal(1000)
    out = np.full_like(x, np.nan)
    assert gelu_into(out, x) is None
    np.testing.assert_allclose(out, formula(x), rtol=1e-5, atol=1e-6)


def test_what_the_door_sees():
    """One op for nine, 9 FLOPs for each number as before, 2 numbers moved in place of 22."""
    x = Tensor(normal(100, 1000))  # 100,000 numbers: 4 pieces
    composed, fused = (observe(lambda f=f: f(x))[0] for f in (gelu, fused_gelu))
    assert (len(composed), len(fused)) == (9, 1)
    assert work_of(composed).flops == work_of(fused).flops == 900_000
    assert work_of(fused).bytes_moved == 800_000
    assert work_of(composed).bytes_moved == pytest.approx(22 * 400_000, rel=1e-4)
    assert work_of(composed).transcendentals == work_of(fused).transcendentals == 100_000
    assert inside(fused[0]).steps == 4 * 8 - 1
    assert not work_of(fused).uncounted


def test_what_is_kept_for_the_way_back():
    """Of Linear and GELU: the linear layer's output and the result; of both in one: the result. 8 x 1,024 float32."""
    layer, array = Linear(16, 1024), 8 * 1024 * 4 / 1024**2
    kept = [measure_memory(model, (8, 16))["activation_memory_mb"]
            for model in (Sequential(layer, FusedGELU()), LinearGELU(layer))]
    assert kept == [2 * array, array]


# Linear and GELU


@pytest.mark.parametrize(("leading", "features"), [((), 5), ((0,), 5), ((1,), 1), ((3, 4), 5), ((2, 0, 3), 4),
                                                   ((9,), BLOCK // 4), ((3,), BLOCK + 1), ((BLOCK + 2,), 1)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_one_op_is_linear_then_gelu(leading, features, with_bias):
    x, weight = Tensor(normal(*leading, 3)), Tensor(normal(3, features, seed=1))
    inputs = (x, weight, Tensor(normal(features, seed=2))) if with_bias else (x, weight)
    before, got = [one.data.copy() for one in inputs], linear_gelu(*inputs)
    assert (got.shape, got.dtype) == ((*leading, features), np.float32)
    np.testing.assert_allclose(got.data, gelu(linear(*inputs)).data, rtol=1e-4, atol=1e-5)
    for one, as_before in zip(inputs, before):
        np.testing.assert_array_equal(one.data, as_before)


@pytest.mark.parametrize("shapes", [((2, 3), (4, 5)), ((), (4, 5)), ((2, 3), (3,)), ((2, 3), (3, 4), (5,)),
                                    ((2, 3), (3, 4), (1,))])
def test_what_linear_refuses_is_refused(shapes):
    """With the same words, but for the op's name."""
    inputs = [Tensor(np.zeros(shape)) for shape in shapes]
    with pytest.raises(ValueError) as wanted:
        linear(*inputs)
    with pytest.raises(ValueError) as came:
        linear_gelu(*inputs)
    assert str(came.value) == str(wanted.value).replace("linear:", "linear_gelu:")


def test_types_of_the_chain():
    x, weight = np.array([[1, 2]], np.int64), normal(2, 3)
    assert linear_gelu(Tensor(x), Tensor(weight)).dtype == np.float32
    rows, bias = Tensor(normal(5, 2)), Tensor(np.array([1e-9, 0, 0]), dtype=np.float64)  # float64 in, float64 out
    got = linear_gelu(rows, Tensor(weight), bias)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got.data, formula(linear(rows, Tensor(weight), bias).data), rtol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_of_the_chain(bias):
    """As linear and gelu have them, to twelve digits; the linear part is computed again once."""
    def inputs():
        return [double(2, 5, 3), double(3, 4, seed=1), *([double(4, seed=2)] if bias else [])]

    ours, theirs = inputs(), inputs()
    (linear_gelu(*ours) * 2.0).sum().backward()
    (gelu(linear(*theirs)) * 2.0).sum().backward()
    for one, other in zip(ours, theirs):
        np.testing.assert_allclose(one.grad.data, other.grad.data, rtol=1e-12, atol=1e-12)
    out = linear_gelu(*inputs()).sum()
    names = [event.op.name for event in heard(out.backward)]
    assert (names.count("linear"), names.count("fused_gelu_gradient")) == (1, 1)


def test_frozen_weights_get_no_gradient():
    x, weight, bias = double(2, 3), Tensor(normal(3, 4)), double(4)
    linear_gelu(x, weight, bias).sum().backward()
    assert (x.grad.shape, weight.grad, bias.grad.shape) == ((2, 3), None, (4,))


def test_what_the_door_sees_of_the_chain():
    """21 rows of 4,096: pieces of 8 rows, 3 of them, 9 calls each. Price 2 · 21 · 3 · 4096 + 9 · 21 · 4096."""
    x, weight, bias = Tensor(normal(7, 3, 3)), Tensor(normal(3, 4096)), Tensor(normal(4096))
    (event,) = heard(lambda: linear_gelu(x, weight, bias))
    assert event_flops(event) == 2 * 21 * 3 * 4096 + 9 * 21 * 4096 == 1_290_240
    assert inside(event).steps == 27
    numbers = 7 * 3 * 3 + 3 * 4096 + 4096 + 3 * 21 * 4096  # in, and the result written, read, written
    assert event_bytes(event) == 4 * numbers
    with shape_only():
        said = linear_gelu(*(Tensor(hollow(t.shape)) for t in (x, weight, bias)))
    assert (said.shape, said.dtype) == ((7, 3, 4096), np.float32)


def test_only_a_linear_has_weights_to_hold():
    with pytest.raises(TypeError, match="LinearGELU: a FusedGELU came; want a Linear"):
        LinearGELU(FusedGELU())


def test_the_layer_holds_the_same_weights():
    for bias in (True, False):
        layer = Linear(3, 4, bias=bias)
        fused = LinearGELU(layer)
        assert fused.weight is layer.weight and fused.bias is layer.bias
        assert repr(fused) == repr(layer).replace("Linear", "LinearGELU")
        assert [name for name, _ in fused.named_parameters()] == [name for name, _ in layer.named_parameters()]

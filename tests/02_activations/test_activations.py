"""Activations: extreme numbers, types, shapes, and their place in the layer tree."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinytorch.core.activations import (
    GELU,
    ReLU,
    Scoped,
    Sigmoid,
    Softmax,
    Tanh,
    exp,
    gelu,
    log,
    relu,
    sigmoid,
    softmax,
    tanh,
)
from tinytorch.core.tensor import Tensor, hollow, listen, shape_only, thread_state

few = settings(max_examples=60, deadline=None)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
OPS = [relu, exp, log, sigmoid, tanh]
DTYPES = ["bool", "int8", "uint8", "int16", "int64", "float16", "float32", "float64"]
CLASSES = [ReLU, Sigmoid, Tanh, GELU, Softmax]


# --- shapes and types


@few
@given(shapes, st.sampled_from(DTYPES), st.sampled_from([*OPS, gelu]), st.booleans())
def test_shape_and_type_are_the_same_on_shapes_only(shape, dtype, function, spread):
    array = np.ones((*shape[:-1], shape[-1] * 2), dtype)[..., ::2] if spread and shape else np.ones(shape, dtype)
    x = Tensor(array, dtype=dtype)
    real = function(x)
    with shape_only():
        thin = function(x)
    want = dtype if dtype.startswith("float") or function is relu else "float32"
    assert (real.shape, real.dtype) == (thin.shape, thin.dtype) == (shape, np.dtype(want))


@few
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
def test_softmax_adds_up_along_any_axis(data, shape):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = data.draw(hnp.arrays(np.float32, shape, elements=st.floats(-(2.0**99), 2.0**99, width=32)))
    out = softmax(Tensor(x), axis=axis)
    assert out.shape == shape
    np.testing.assert_allclose(out.data.sum(axis=axis), 1, rtol=1e-5)
    assert (out.data >= 0).all()
    with shape_only():
        assert softmax(Tensor(x), axis=axis).shape == shape


# --- values against Python's own mathematics


@given(st.floats(-700, 700))
def test_values_in_double_precision(a):
    x = Tensor([a], dtype=np.float64)
    assert math.isclose(exp(x).item(), math.exp(a), rel_tol=1e-13)
    assert math.isclose(sigmoid(x).item(), 1 / (1 + math.exp(-a)), rel_tol=1e-13)
    assert math.isclose(tanh(x).item(), math.tanh(a), rel_tol=1e-13)
    cubic = math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)
    assert math.isclose(gelu(x).item(), 0.5 * a * (1 + math.tanh(cubic)), rel_tol=1e-9, abs_tol=1e-12)
    if a > 0:
        assert math.isclose(log(x).item(), math.log(a), rel_tol=1e-13, abs_tol=1e-13)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_ends_of_every_type_are_quiet(dtype):
    largest = np.finfo(dtype).max
    x = Tensor(np.array([-np.inf, -largest, 0, largest, np.inf], dtype), dtype=dtype)
    with np.errstate(all="raise", under="ignore"):
        assert sigmoid(x).data.tolist() == [0, 0, 0.5, 1, 1]
        assert tanh(x).data.tolist() == [-1, -1, 0, 1, 1]
        assert relu(x).data.tolist() == [0, 0, 0, largest, np.inf]
        assert exp(x).data.tolist() == [0, 0, 1, np.inf, np.inf]
        assert log(x).data[2] == -np.inf
        assert np.isnan(log(x).data[:2]).all()


def test_nan_stays_nan():
    for function in (*OPS, gelu):
        assert np.isnan(function(Tensor([np.nan, 1.0])).data).tolist() == [True, False]
    assert np.isnan(softmax(Tensor([[np.nan, 1.0], [1.0, 1.0]])).data).tolist() == [[True, True], [False, False]]


def test_small_integers_are_widened_before_they_overflow():
    top = Tensor(np.array([127, -128], np.int8))
    assert math.isclose(exp(top).data[0], math.inf)  # e^127 is 1.4e55, beyond float32 too
    assert math.isclose(exp(Tensor(np.array([88], np.uint8))).item(), math.exp(88), rel_tol=1e-6)
    assert sigmoid(top).data[0] == 1
    assert math.isclose(sigmoid(Tensor(np.array([-20], np.int8))).item(), math.exp(-20), rel_tol=1e-6)
    assert relu(top).data.tolist() == [127, 0]


def test_inputs_are_left_as_they_were():
    for function in (*OPS, gelu, softmax):
        array = np.array([-1.0, 0.5, 2.0], np.float32)
        before = array.copy()
        out = function(Tensor(array))
        np.testing.assert_array_equal(array, before)
        assert not np.shares_memory(out.data, array)


# --- softmax


def test_softmax_reads_axis_and_dim():
    x = Tensor(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(softmax(x).data, softmax(x, axis=1).data)
    np.testing.assert_array_equal(softmax(x, dim=0).data, softmax(x, axis=-2).data)
    with pytest.raises(TypeError, match="two names of one argument"):
        softmax(x, axis=0, dim=0)
    with pytest.raises(ValueError, match="reduce_max: .*2"):
        softmax(x, axis=2)
    with pytest.raises(ValueError, match="reduce_max: "):
        softmax(Tensor(1.0))


def test_softmax_of_ties_and_masked_scores():
    assert softmax(Tensor([7.0, 7.0, 7.0, 7.0])).data.tolist() == [0.25] * 4
    assert softmax(Tensor([-np.inf, 5.0])).data.tolist() == [0, 1]
    assert softmax(Tensor([3.0])).data.tolist() == [1]


def test_a_shift_does_not_change_softmax():
    x = np.array([0.5, -1.25, 2.0], np.float32)
    np.testing.assert_allclose(softmax(Tensor(x + 1024)).data, softmax(Tensor(x)).data, rtol=1e-6)


def test_softmax_keeps_float16_and_takes_integers():
    assert softmax(Tensor(np.array([1, 2], np.float16))).dtype == np.float16
    np.testing.assert_allclose(softmax(Tensor(np.array([1, 3], np.int8))).data, [0.119203, 0.880797], rtol=1e-5)


# --- the door sees them


def passed(function, *args):
    """Return the names of the ops that passed the door, and the scopes of the first."""
    events = []
    with listen(events.append):
        function(*args)
    return [e.op.name for e in events], [s.name for s in events[0].scope]


def test_ops_are_one_pass_and_compositions_many():
    x = Tensor([[1.0, 2.0]])
    assert passed(relu, x)[0] == ["relu"]
    assert passed(softmax, x)[0] == ["reduce_max", "subtract", "exp", "reduce_sum", "divide"]
    assert len(passed(gelu, x)[0]) == 9


def test_nothing_is_allocated_on_shapes_only():
    with shape_only():
        for function in (*OPS, gelu, softmax):
            out = function(Tensor(hollow((100_000, 100_000))))
            assert out.shape == (100_000, 100_000)
            assert not any(out.data.strides)


# --- objects


@pytest.mark.parametrize("kind", CLASSES)
def test_an_activation_is_found_at_the_door_however_it_is_called(kind):
    one, x = kind(), Tensor([[1.0, 2.0]])
    assert passed(one, x)[1] == passed(one.forward, x)[1] == [kind.__name__]
    np.testing.assert_array_equal(one(x).data, one.forward(x).data)
    events = []
    with listen(events.append):
        one(x)
    assert events[0].scope[0].owner == id(one)


@pytest.mark.parametrize("kind", CLASSES)
def test_an_activation_answers_what_a_layer_answers(kind):
    one = kind()
    assert one.parameters() == one.named_parameters() == one.children() == []
    assert one.training
    assert one.eval() is one
    assert not one.training
    assert one.train() is one
    assert one.training
    assert kind.training  # the class itself is untouched
    assert repr(one) == f"{kind.__name__}()"


def test_softmax_object_takes_an_axis():
    x = Tensor(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(Softmax(dim=0)(x).data, softmax(x, axis=0).data)
    assert repr(Softmax(axis=1)) == "Softmax(axis=1)"
    with pytest.raises(TypeError, match="give one"):
        Softmax(axis=0, dim=0)


def test_a_scope_is_closed_when_forward_raises():
    with pytest.raises(ValueError, match="4"):
        Softmax(axis=4)(Tensor([1.0]))
    assert thread_state().path == ()


def test_super_forward_does_not_open_the_scope_twice():
    class Doubled(ReLU):
        def forward(self, x):
            return super().forward(x) * 2

    events = []
    with listen(events.append):
        Doubled()(Tensor([1.0]))
    assert [[s.name for s in e.scope] for e in events] == [["Doubled"], ["Doubled"]]


def test_one_inside_another_of_the_same_kind_has_a_path_of_two():
    class Twice(Scoped):
        def __init__(self, inner):
            self.inner = inner

        def forward(self, x):
            return self.inner(x)

    assert passed(Twice(Twice(ReLU())), Tensor([1.0]))[1] == ["Twice", "Twice", "ReLU"]


def test_a_class_without_forward_says_so():
    class Empty(Scoped):
        pass

    with pytest.raises(TypeError, match="Empty has no forward of its own; write one"):
        Empty()(Tensor([1.0]))


def test_forward_keeps_its_name_and_docstring():
    assert ReLU.forward.__name__ == "forward"
    assert ReLU.forward.__doc__ == "Return relu(x), same shape."

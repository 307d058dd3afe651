"""Operators, types of results, odd numbers, views."""

import itertools
from contextlib import nullcontext

import numpy as np
import pytest

from tinytorch.core import tensor as door
from tinytorch.core.tensor import (
    Tensor,
    add,
    argmax,
    broadcast_to,
    cast,
    concatenate,
    divide,
    equal,
    index,
    matmul,
    maximum,
    multiply,
    negative,
    power,
    put,
    reduce_max,
    reduce_sum,
    reshape,
    shape_only,
    sqrt,
    subtract,
    transpose,
    where,
)

DTYPES = [np.int8, np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64]


# --- operators on either side


def test_numbers_on_the_left():
    x = Tensor([1.0, 4.0])
    assert (2 - x).data.tolist() == [1, -2]
    assert (2 + x).data.tolist() == [3, 6]
    assert (2 * x).data.tolist() == [2, 8]
    assert (2 / x).data.tolist() == [2, 0.5]
    assert (x < 3).data.tolist() == [True, False]
    assert (-x).data.tolist() == [-1, -4]


@pytest.mark.parametrize(
    "operate",
    [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: a @ b,
        lambda a, b: a == b,
        lambda a, b: a >= b,
    ],
)
def test_an_array_on_the_left_still_makes_a_tensor(operate):
    array, x = np.array([1, 2], np.float32), Tensor([3.0, 4.0])
    out = operate(array, x)
    assert isinstance(out, Tensor)
    np.testing.assert_array_equal(out.data, operate(array, x.data))


def test_numpy_functions_cannot_compute_behind_the_door():
    with pytest.raises(TypeError):
        np.add(Tensor([1.0]), Tensor([2.0]))
    with pytest.raises(TypeError):
        np.exp(Tensor([1.0]))


def test_in_place_operators_make_a_new_tensor():
    x = Tensor([1.0])
    y = x
    x += 1
    assert (x.item(), y.item()) == (2, 1)


@pytest.mark.parametrize("other", ["a", None, {}, object()])
def test_what_is_no_number_is_refused_by_name(other):
    with pytest.raises(TypeError, match=f"multiply: a {type(other).__name__} came; want Tensors, arrays or numbers"):
        Tensor([1.0]) * other


def test_power_wants_a_number():
    for exponent in (Tensor([2.0]), "2", True, None):
        with pytest.raises(TypeError, match="power: .*want a number"):
            Tensor([1.0]) ** exponent


# --- types of results


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_python_number_takes_the_type_it_meets(dtype):
    x = Tensor(np.ones(2, dtype), dtype=dtype)
    assert (x + 1).dtype == dtype
    assert (x * 0.5).dtype == (dtype if np.dtype(dtype).kind == "f" else np.float32)


def test_a_number_too_large_for_the_integers_it_meets_keeps_its_own_type():
    assert (Tensor(np.array([100], np.int8)) + 300).data.tolist() == [400]
    assert (Tensor(np.array([0, 255], np.uint8)) == -1).data.tolist() == [False, False]


@pytest.mark.parametrize(("left", "right"), list(itertools.product(DTYPES, DTYPES)))
def test_types_of_two_operands_are_what_the_rule_says(left, right):
    a, b = Tensor(np.ones((2, 2), left), dtype=left), Tensor(np.ones((2, 2), right), dtype=right)
    floats = [d for d in (left, right) if np.dtype(d).kind == "f"]
    want = np.result_type(*(floats or (left, right)))  # integers beside a float do not widen it
    for operation in (add, subtract, multiply, maximum, matmul, concatenate):
        assert operation(a, b).dtype == operation.out_dtype(a.dtype, b.dtype) == want, operation
    assert divide(a, b).dtype == (want if floats else np.float32)
    assert where(a > 0, a, b).dtype == want
    assert equal(a, b).dtype == bool


@pytest.mark.parametrize("dtype", [np.bool_, *DTYPES])
def test_shapes_only_gives_the_type_that_the_real_run_gives(dtype):
    a = Tensor(np.ones((2, 3), dtype), dtype=dtype)
    runs = [
        lambda: a + a,
        lambda: a * a,
        lambda: a / a,
        lambda: a * 0.5,
        lambda: a * 2,
        lambda: a**2,
        lambda: a**0.5,
        lambda: a**-1,
        lambda: sqrt(a),
        lambda: a.sum(),
        lambda: a.sum(axis=0),
        lambda: a.mean(),
        lambda: a.max(axis=1),
        lambda: a.argmax(axis=0),
        lambda: a.astype(np.int16),
        lambda: a.T,
        lambda: a[0],
        lambda: a[[1, 0]],
        lambda: a.reshape(-1),
        lambda: where(a > 0, a, 0),
        lambda: maximum(a, a),
        lambda: put(a[0], key=1, shape=(4, 3)),
        lambda: concatenate(a, a, axis=1),
        lambda: broadcast_to(a, shape=(4, 2, 3)),
        lambda: a @ a.T,
        lambda: a >= 1,
    ]
    for i, run in enumerate(runs):
        real = run()
        with shape_only():
            hollow = run()
        assert (hollow.shape, hollow.dtype) == (real.shape, real.dtype), i


def test_powers_of_integers():
    x = Tensor(np.array([1, 4, 9], np.int64))
    assert (x**2).data.tolist() == [1, 16, 81]
    assert (x**2).dtype == np.int64
    assert (x**0.5).data.tolist() == [1, 2, 3]
    np.testing.assert_allclose((x**-1).data, [1, 1 / 4, 1 / 9], rtol=1e-6)
    assert (x ** np.int64(2)).dtype == np.int64


def test_sums_of_small_integers_do_not_wrap_around():
    assert Tensor(np.full(1000, 100, np.int8)).sum().item() == 100_000
    assert Tensor(np.ones(1000, np.bool_)).sum().item() == 1000
    assert Tensor(np.full(4, 200, np.uint8)).mean().item() == 200


def test_float64_stays_where_it_was_asked_for():
    x = Tensor([1.0, 2.0], dtype=np.float64)
    assert (x * 2 + 1).dtype == np.float64
    assert (x / 3).sum().dtype == np.float64
    assert (x + Tensor([1.0])).dtype == np.float64


# --- odd numbers


def test_division_by_zero_is_quiet():
    assert (Tensor([1.0, -1.0, 0.0]) / 0).data.tolist()[:2] == [np.inf, -np.inf]
    assert np.isnan((Tensor([0.0]) / 0).item())
    assert np.isnan(sqrt(Tensor([-1.0])).item())
    assert (Tensor([0.0]) ** -1).item() == np.inf


def test_nan_and_inf_pass_through():
    x = Tensor([np.nan, np.inf, -np.inf, 1.0])
    np.testing.assert_array_equal((x + 1).data, [np.nan, np.inf, -np.inf, 2.0])
    assert np.isnan(x.max().item())
    assert np.isnan(maximum(x, 0.0).data[0])
    assert (x == x).data.tolist() == [False, True, True, True]
    assert not (x > 0).data[0]


def test_an_empty_sum_is_zero_and_an_empty_maximum_an_error():
    empty = Tensor(np.zeros((0, 3)))
    assert empty.sum().item() == 0
    assert empty.sum(axis=0).data.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match=r"reduce_max: \(0, 3\) along axis 0"):
        empty.max(axis=0)


# --- reductions and views


def test_axis_and_dim_are_two_words_for_one_thing():
    x = Tensor(np.arange(6.0).reshape(2, 3))
    assert x.sum(dim=1).data.tolist() == x.sum(axis=1).data.tolist() == [3, 12]
    assert x.mean(dim=-1, keepdims=True).data.tolist() == [[1], [4]]
    assert x.argmax(dim=1).data.tolist() == [2, 2]
    assert x.sum(axis=(0, 1)).item() == x.sum(axis=()).data.sum() == 15
    with pytest.raises(TypeError, match="two names of one argument"):
        x.sum(axis=0, dim=0)


def test_mean_over_several_axes():
    assert Tensor(np.arange(24.0).reshape(2, 3, 4)).mean(axis=(0, 2)).data.tolist() == [
        7.5,
        11.5,
        15.5,
    ]  # (0..3, 12..15) / 8


def test_views_share_memory_and_writes_show_through():
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    for view in (x.T, x.reshape(3, 2), x[1:], x[..., None], broadcast_to(x, shape=(4, 2, 3)), x.transpose()):
        assert np.shares_memory(view.data, x.data)
    x.data[0, 0] = 7
    assert x.T.data[0, 0] == 7


def test_T_swaps_the_last_two_axes_and_leaves_vectors_alone():
    assert Tensor(np.zeros((2, 3, 4))).T.shape == (2, 4, 3)
    assert Tensor([1.0, 2.0]).T.shape == (2,)
    assert Tensor(1.0).T.shape == ()
    assert Tensor(np.zeros((2, 3, 4))).transpose().shape == (4, 3, 2)
    assert Tensor(np.zeros((2, 3, 4))).transpose(-1, 0, 1).shape == (4, 2, 3)


def test_reshape_takes_sizes_or_one_tuple():
    x = Tensor(np.zeros((2, 6)))
    assert x.reshape(3, 4).shape == x.reshape((3, 4)).shape == x.reshape([3, -1]).shape == (3, 4)
    assert Tensor([5.0]).reshape().shape == ()


@pytest.mark.parametrize(
    "key",
    [
        0,
        -1,
        slice(1, None),
        (slice(None), 1),
        None,
        ...,
        (0, 1),
        [1, 0],
        np.array([0, 0]),
        np.array([True, False]),
        (slice(None), [2, 0]),
        Tensor(np.array([1, 0])),
    ],
)
def test_indexing_follows_numpy(key):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    plain = key.data if isinstance(key, Tensor) else key
    np.testing.assert_array_equal(Tensor(array)[key].data, array[plain])


def test_put_adds_where_the_key_points_twice():
    out = put(Tensor([1.0, 2.0, 4.0]), key=np.array([0, 2, 0]), shape=(4,))
    assert out.data.tolist() == [5, 0, 2, 0]


def test_put_undoes_index():
    x = Tensor(np.arange(6.0).reshape(2, 3))
    assert put(x[:, 1], key=(slice(None), 1), shape=(2, 3)).data.tolist() == [[0, 1, 0], [0, 4, 0]]


def test_concatenate_joins_along_any_axis():
    a, b = Tensor(np.zeros((2, 3))), Tensor(np.ones((2, 1)))
    assert concatenate(a, b, axis=-1).shape == (2, 4)
    with pytest.raises(ValueError, match="concatenate: .*sizes differ off axis 0"):
        concatenate(a, b, axis=0)


# --- messages


@pytest.mark.parametrize(
    ("run", "error", "words"),
    [
        (lambda: add(Tensor([1, 2]), Tensor([1, 2, 3])), ValueError, r"add: (?=.*\(2,\)).*\(3,\)"),
        (
            lambda: matmul(Tensor([[1, 2]]), Tensor([[1, 2]])),
            ValueError,
            r"matmul: .*\(1, 2\)",
        ),
        (lambda: matmul(Tensor(1.0), Tensor([1.0])), ValueError, "matmul: "),
        (
            lambda: reduce_sum(Tensor([1.0]), axis=1),
            ValueError,
            "reduce_sum: .*1",
        ),
        (lambda: reduce_max(Tensor([[1.0]]), axis=(0, 0)), ValueError, "reduce_max: "),
        (lambda: reduce_sum(Tensor([1.0]), axis=0.5), TypeError, "reduce_sum: .*0.5"),
        (lambda: argmax(Tensor([1.0]), axis=3), ValueError, "argmax: .*3"),
        (lambda: reshape(Tensor([1.0, 2.0]), shape=(3,)), ValueError, r"reshape: (?=.*\(2,\)).*\(3,\)"),
        (lambda: transpose(Tensor([[1.0]]), axes=(0, 0)), ValueError, "transpose: .*the same axis twice"),
        (lambda: transpose(Tensor([[1.0]]), axes=(0,)), ValueError, "transpose: .*every axis must be named once"),
        (lambda: broadcast_to(Tensor([1.0, 2.0]), shape=(3,)), ValueError, r"broadcast_to: (?=.*\(2,\)).*\(3,\)"),
        (
            lambda: broadcast_to(Tensor([[1.0, 2.0]]), shape=(2,)),
            ValueError,
            r"broadcast_to: \(1, 2\) does not broadcast to \(2,\)",
        ),
        (lambda: index(Tensor([1.0]), key=4), IndexError, "index: .*index 4 is out of bounds"),
        (lambda: negative(Tensor([True], dtype=bool)), TypeError, "negative: .*boolean"),
        (lambda: cast(Tensor([1.0])), TypeError, "cast: .*dtype"),
        (lambda: power(Tensor([1.0])), TypeError, "power: .*exponent"),
    ],
)
def test_errors_name_the_op_and_what_came(run, error, words):
    with pytest.raises(error, match=words) as caught:
        run()
    assert "\n" not in str(caught.value)
    assert type(caught.value) is error


def test_an_error_is_the_same_on_shapes_only():
    for run in (
        lambda: Tensor([1, 2]) + Tensor([1, 2, 3]),
        lambda: Tensor([[1, 2]]) @ Tensor([[1, 2]]),
        lambda: Tensor([1.0]).sum(axis=1),
        lambda: Tensor([1.0]).reshape(2),
        lambda: Tensor([1.0])[3],
    ):
        with pytest.raises((ValueError, IndexError)) as real:
            run()
        with shape_only(), pytest.raises((ValueError, IndexError)) as hollow:
            run()
        assert str(real.value) == str(hollow.value)
        assert type(real.value) is type(hollow.value)


def test_learners_stubs_are_reported_as_they_are():
    @door.op(shape=door.same_shape)
    def unfinished(a):
        raise NotImplementedError("relu: section 1, cell 2")

    with pytest.raises(NotImplementedError, match="^relu: section 1, cell 2$"):
        unfinished(Tensor([1.0]))


def test_argmax_goes_along_one_axis_for_real_and_on_shapes():
    x = Tensor(np.zeros((2, 3)))
    for room in (nullcontext, shape_only):
        with room(), pytest.raises(TypeError, match="one axis"):
            x.argmax(axis=(0, 1))

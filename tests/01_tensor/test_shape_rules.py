"""Shape rule = computed shape, and a shape-only run = the real run, whatever the shapes."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinytorch.core import tensor as door
from tinytorch.core.tensor import (
    Tensor,
    broadcast_shape,
    matmul_shape,
    normalize_axes,
    reduce_shape,
    reshape_shape,
    shape_only,
    transpose_shape,
)

few = settings(max_examples=60, deadline=None)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def tensor_of(shape, dtype=np.float32, spread=False):
    """Return a tensor of the shape; with ``spread`` one whose elements do not lie side by side."""
    if spread and shape:
        return Tensor(np.ones((*shape[:-1], shape[-1] * 2), dtype)[..., ::2])
    return Tensor(np.ones(shape, dtype))


def agree(operation, *inputs, **attrs):
    """Rule, real run and shape-only run say the same; return the real result."""
    real = operation(*inputs, **attrs)
    assert operation.shape(*[x.shape for x in inputs], **attrs) == real.shape
    assert operation.out_dtype(*[x.dtype for x in inputs], **attrs) == real.dtype
    with shape_only():
        thin = operation(*inputs, **attrs)
    assert (thin.shape, thin.dtype) == (real.shape, real.dtype)
    return real


@few
@given(hnp.mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_side=3), st.booleans())
def test_broadcasting(made, spread):
    a, b, c = (tensor_of(s, spread=spread) for s in made.input_shapes)
    assert broadcast_shape(*made.input_shapes) == made.result_shape
    for operation in (door.add, door.subtract, door.multiply, door.divide, door.maximum, door.less, door.equal):
        agree(operation, a, b)
    assert agree(door.where, a > 0, b, c).shape == made.result_shape


@few
@given(shapes, shapes)
def test_broadcast_shape_refuses_exactly_what_numpy_refuses(a, b):
    try:
        want = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ValueError) as caught:
            broadcast_shape(a, b)
        assert str(a) in str(caught.value)
        assert str(b) in str(caught.value)
    else:
        assert broadcast_shape(a, b) == want


@few
@given(hnp.mutually_broadcastable_shapes(signature=np.matmul.signature, min_side=0, max_side=3), st.booleans())
def test_matrix_products(made, spread):
    a, b = (tensor_of(s, spread=spread) for s in made.input_shapes)
    assert agree(door.matmul, a, b).shape == made.result_shape


@few
@given(shapes, shapes)
def test_matmul_shape_refuses_exactly_what_numpy_refuses(a, b):
    try:
        want = np.matmul(np.ones(a), np.ones(b)).shape
    except ValueError:
        with pytest.raises(ValueError):
            matmul_shape(a, b)
    else:
        assert matmul_shape(a, b) == want


@few
@given(st.data(), shapes, st.booleans(), st.booleans())
def test_reductions(data, shape, keepdims, spread):
    rank = len(shape)
    axis = data.draw(st.none() | (hnp.valid_tuple_axes(rank) if rank else st.just(())))
    x = tensor_of(shape, spread=spread)
    assert (
        agree(door.reduce_sum, x, axis=axis, keepdims=keepdims).shape
        == np.sum(x.data, axis=axis, keepdims=keepdims).shape
    )
    if x.size:
        agree(door.reduce_max, x, axis=axis, keepdims=keepdims)
    if rank and x.size:
        one = data.draw(st.integers(-rank, rank - 1))
        agree(door.reduce_sum, x, axis=one, keepdims=keepdims)
        agree(door.argmax, x, axis=one, keepdims=keepdims)


@few
@given(st.data(), shapes)
def test_reshaping(data, shape):
    size = int(np.prod(shape))
    x = tensor_of(shape)
    target = data.draw(st.permutations(shape).map(tuple))
    agree(door.reshape, x, shape=target)
    if size and target:
        hole = data.draw(st.integers(0, len(target) - 1))
        agree(door.reshape, x, shape=(*target[:hole], -1, *target[hole + 1 :]))


@few
@given(shapes, st.lists(st.integers(-1, 6), max_size=3).map(tuple))
def test_reshape_shape_refuses_what_numpy_refuses(shape, target):
    assume(not (-1 in target and 0 in shape))  # NumPy guesses in some of these; we refuse them all
    try:
        want = np.ones(shape).reshape(target).shape
    except ValueError:
        with pytest.raises(ValueError) as caught:
            reshape_shape(shape, target)
        assert str(shape) in str(caught.value)
        assert str(target) in str(caught.value)
    else:
        assert reshape_shape(shape, target) == want


@few
@given(st.data(), shapes, st.booleans())
def test_transposing(data, shape, spread):
    rank = len(shape)
    axes = tuple(data.draw(st.permutations(range(rank))))
    axes = tuple(a - rank if data.draw(st.booleans()) else a for a in axes)
    agree(door.transpose, tensor_of(shape, spread=spread), axes=axes)
    assert transpose_shape(shape, axes) == np.transpose(np.ones(shape), axes).shape


@few
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
def test_indexing(data, shape):
    key = data.draw(
        hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True) | hnp.integer_array_indices(shape)
    )
    x = Tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    out = agree(door.index, x, key=key)
    np.testing.assert_array_equal(out.data, x.data[key])
    agree(door.put, out, key=key, shape=shape)


@few
@given(shapes, st.sampled_from([np.int8, np.int64, np.float16, np.float32, np.bool_]), st.booleans())
def test_one_operand(shape, dtype, spread):
    x = tensor_of(shape, dtype, spread)
    agree(door.sqrt, x)
    agree(door.cast, x, dtype=np.dtype(np.float16))
    for exponent in (2, 0.5, -1):
        agree(door.power, x, exponent=exponent)
    if dtype is not np.bool_:
        agree(door.negative, x)
    agree(door.broadcast_to, x, shape=(2, *shape))


@few
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))
def test_concatenating(data, shape):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    other = list(shape)
    other[axis] = data.draw(st.integers(0, 3))
    agree(door.concatenate, tensor_of(shape), tensor_of(tuple(other)), tensor_of(shape), axis=axis)


# --- corners


def test_axes_are_counted_from_both_ends():
    assert normalize_axes(3, None) == (0, 1, 2)
    assert normalize_axes(3, -1) == (2,)
    assert normalize_axes(3, (0, -1)) == (0, 2)
    assert normalize_axes(2, np.int64(1)) == (1,)
    assert normalize_axes(0, None) == ()


@pytest.mark.parametrize("axis", [True, 1.0, "0", [0]])
def test_an_axis_is_an_integer(axis):
    with pytest.raises(TypeError, match="want an integer"):
        normalize_axes(2, axis)


def test_a_scalar_has_no_axis():
    with pytest.raises(ValueError, match="axis 0 does not exist in a tensor of 0 axes"):
        normalize_axes(0, 0)
    with pytest.raises(ValueError):
        reduce_shape((), 0)
    assert reduce_shape((), None, keepdims=True) == ()


def test_minus_one_beside_zero_cannot_be_worked_out():
    for shape, target in (((0, 3), (0, -1)), ((0, 3), (-1, 0)), ((6,), (-1, 0)), ((6,), (-2, -3)), ((6,), (-1, -1))):
        with pytest.raises(ValueError) as caught:
            reshape_shape(shape, target)
        assert str(shape) in str(caught.value)
        assert str(target) in str(caught.value)
    assert reshape_shape((0, 3), (-1, 3)) == (0, 3)

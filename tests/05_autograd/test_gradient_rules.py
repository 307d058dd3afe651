"""Every op's gradient equals central differences in float64: shapes, broadcasting, size 0, strides, axes, ties."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core import activations, layers, losses, tensor
from tinytorch.core.autograd import VJP, run_rule, unbroadcast, without_gradient
from tinytorch.core.tensor import Op, Tensor, listen, shape_only

quick = settings(max_examples=30, deadline=None)
sizes = st.integers(0, 3)
shapes = st.lists(sizes, max_size=3).map(tuple)
full = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)
seeds = st.integers(0, 2**31)


def wide(array):
    return Tensor(np.array(array, np.float64), requires_grad=True, dtype=np.float64)


def agrees(function, *arrays, eps=1e-6):
    """Backward through ``function`` equals (f(x + eps) - f(x - eps)) / 2 eps at every element of every array."""
    xs = [wide(a) for a in arrays]
    out = function(*xs)
    weights = np.random.default_rng(5).standard_normal(out.shape)
    out.backward(weights)
    for x in xs:
        expected = np.zeros(x.shape)
        for place in np.ndindex(x.shape):
            here, total = x.data[place], 0.0
            for sign in (1, -1):
                x.data[place] = here + sign * eps
                total += sign * float(np.sum(weights * function(*xs).data))
            x.data[place], expected[place] = here, total / (2 * eps)
        got = np.zeros(x.shape) if x.grad is None else x.grad.data
        assert got.shape == x.shape and got.dtype == np.float64
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@st.composite
def broadcastable(draw):
    """Two shapes that stretch to a third, of up to three axes; sizes 0 and 1 included."""
    target = draw(shapes)
    pair = []
    for _ in range(2):
        shape = tuple(draw(st.sampled_from((n, 1))) for n in target)
        pair.append(shape[draw(st.integers(0, len(shape))):])
    return pair


BINARY = {"add": tensor.add, "subtract": tensor.subtract, "multiply": tensor.multiply, "divide": tensor.divide,
          "maximum": tensor.maximum}


@pytest.mark.parametrize("name", BINARY)
@quick
@given(pair=broadcastable(), seed=seeds)
def test_two_tensors_broadcast(name, pair, seed):
    rng = np.random.default_rng(seed)
    agrees(BINARY[name], rng.uniform(1, 2, pair[0]), rng.uniform(2.1, 3, pair[1]))
    agrees(BINARY[name], rng.uniform(2.1, 3, pair[0]), -rng.uniform(1, 2, pair[1]))


UNARY = {"negative": tensor.negative, "sqrt": tensor.sqrt, "exp": activations.exp, "log": activations.log,
         "relu": activations.relu, "sigmoid": activations.sigmoid, "tanh": activations.tanh}


@pytest.mark.parametrize("name", UNARY)
@quick
@given(shape=shapes, seed=seeds)
def test_one_tensor(name, shape, seed):
    x = np.random.default_rng(seed).uniform(0.1, 3, shape)
    agrees(UNARY[name], x)
    if name not in ("sqrt", "log"):
        agrees(UNARY[name], -x)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, 2.5, np.float64(1.5), np.int64(2)])
def test_power(exponent):
    agrees(lambda x: x**exponent, [0.5, 1.5, 3.0])


@pytest.mark.parametrize(("exponent", "slope"), [(0, 0.0), (0.0, 0.0), (1, 1.0), (2, 0.0), (3, 0.0)])
def test_power_at_zero(exponent, slope):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = Tensor([0.0], requires_grad=True)
        (x**exponent).backward()
    assert x.grad.data.tolist() == [slope]


def test_power_of_a_negative_base():
    agrees(lambda x: x**3, [-1.5, -0.5])


@st.composite
def products(draw):
    """Two shapes that multiply: vectors, matrices, stacks whose leading axes broadcast."""
    m, k, n = (draw(sizes) for _ in range(3))
    lead = draw(st.lists(st.integers(1, 2), max_size=2).map(tuple))
    a_lead, b_lead = (tuple(draw(st.sampled_from((size, 1))) for size in lead)[draw(st.integers(0, len(lead))):]
                      for _ in range(2))
    a = draw(st.sampled_from(((k,), (*a_lead, m, k))))
    b = draw(st.sampled_from(((k,), (*b_lead, k, n))))
    return a, b


@settings(max_examples=120, deadline=None)
@given(pair=products(), seed=seeds)
def test_matmul(pair, seed):
    rng = np.random.default_rng(seed)
    agrees(tensor.matmul, rng.standard_normal(pair[0]), rng.standard_normal(pair[1]))


@quick
@given(lead=shapes.filter(lambda s: len(s) < 3), inner=sizes, out=sizes, bias=st.booleans(), seed=seeds)
def test_linear(lead, inner, out, bias, seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(shape) for shape in ((*lead, inner), (inner, out), (out,))]
    agrees(layers.linear, *arrays[: 2 + bias])


@st.composite
def reductions(draw):
    shape = draw(full)
    axes = draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1),
                          st.sets(st.integers(0, len(shape) - 1)).map(tuple)))
    return shape, axes


@quick
@given(case=reductions(), keepdims=st.booleans(), seed=seeds)
def test_sum_and_max(case, keepdims, seed):
    shape, axis = case
    x = np.random.default_rng(seed).permutation(int(np.prod(shape))).reshape(shape).astype(float)  # no ties
    agrees(lambda t: tensor.reduce_sum(t, axis=axis, keepdims=keepdims), x)
    agrees(lambda t: tensor.reduce_max(t, axis=axis, keepdims=keepdims), x)
    agrees(lambda t: t.mean(axis=axis, keepdims=keepdims), x)


def test_sum_over_an_empty_axis():
    agrees(lambda t: t.sum(axis=0), np.zeros((0, 3)))
    agrees(lambda t: t.sum(axis=1), np.zeros((0, 3)))


def test_ties_of_a_maximum_share_in_equal_parts():
    x = Tensor([[2.0, 2.0, 1.0], [3.0, 3.0, 3.0]], requires_grad=True)
    x.max(axis=1).backward([6.0, 6.0])
    assert x.grad.data.tolist() == [[3.0, 3.0, 0.0], [2.0, 2.0, 2.0]]  # 6 / 2 and 6 / 3
    a, b = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    tensor.maximum(a, b).backward()
    assert (a.grad.item(), b.grad.item()) == (0.5, 0.5)


def test_many_ties_in_float16_do_not_overflow():
    x = Tensor(np.ones(100_000, np.float16), requires_grad=True)
    x.max().backward(np.float16(1000))
    assert x.grad.dtype == np.float16
    np.testing.assert_allclose(x.grad.data[:3].astype(float), 0.01, rtol=1e-3)  # 1000 / 100,000


@quick
@given(shape=full, data=st.data(), seed=seeds)
def test_views(shape, data, seed):
    x = np.random.default_rng(seed).standard_normal(shape)
    order = data.draw(st.permutations(range(len(shape))))
    negative = tuple(axis - len(shape) if data.draw(st.booleans()) else axis for axis in order)
    agrees(lambda t: t.transpose(*negative), x)
    agrees(lambda t: t.reshape(-1), x)
    agrees(lambda t: t.T, x)
    lead = data.draw(st.lists(st.integers(0, 2), max_size=2).map(tuple))
    agrees(lambda t: tensor.broadcast_to(t, shape=(*lead, *shape)), x)
    agrees(lambda t: tensor.broadcast_to(t.sum(axis=0, keepdims=True), shape=shape), x)


KEYS = [0, -1, slice(None), slice(0, 1), slice(None, None, -1), ..., None, (..., 0), (None, slice(1), ..., 1),
        [1, 0, 1], ([0, 1, 1], [2, 2, 2]), (slice(None), [0, 0]), np.array([[0, 1], [1, 1]]),
        np.array([[True, False, True], [False, False, True]]), Tensor(np.array([1, 1])),
        (Tensor(np.array([1])), slice(0, 2)), slice(0, 0)]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_index(key):
    agrees(lambda t: t[key], np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize(("key", "shape"), [([0, 2, 0], (4,)), (slice(1, 4), (5,)), (([0, 1, 0], [1, 1, 1]), (2, 2)),
                                            (slice(None), (2, 3)), ([1, 1, 0], (2,))])
def test_put(key, shape):
    agrees(lambda t: tensor.put(t, key=key, shape=shape), [1.0, 2.0, 3.0])


def test_put_stretches_its_values():
    agrees(lambda t: tensor.put(t, key=[0, 2, 2], shape=(4,)), [1.5])


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_concatenate(axis):
    rng, shape = np.random.default_rng(0), [2, 3]
    arrays = []
    for size in (1, 0, 2):
        shape[axis] = size
        arrays.append(rng.standard_normal(shape))
    agrees(lambda *ts: tensor.concatenate(*ts, axis=axis), *arrays)


def test_concatenate_a_tensor_with_itself():
    x = Tensor([1.0, 2.0], requires_grad=True)
    tensor.concatenate(x, x).backward([1.0, 2.0, 10.0, 20.0])
    assert x.grad.data.tolist() == [11.0, 22.0]  # 1 + 10, 2 + 20


@quick
@given(pair=broadcastable(), seed=seeds)
def test_where(pair, seed):
    rng = np.random.default_rng(seed)
    agrees(lambda a, b: tensor.where(a > 0.0, a, b), rng.choice([-1.0, 1.0], pair[0]), rng.standard_normal(pair[1]))
    condition = Tensor(rng.random((2, *np.broadcast_shapes(*pair))) > 0.5)
    agrees(lambda a, b: tensor.where(condition, a, b), rng.standard_normal(pair[0]), rng.standard_normal(pair[1]))


def test_where_with_a_floating_condition_leaves_it_alone():
    condition, x = Tensor([1.0, 0.0], requires_grad=True), Tensor([5.0, 6.0], requires_grad=True)
    tensor.where(condition * 1.0, x, 0.0).sum().backward()
    assert condition.grad is None
    assert x.grad.data.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("lead", [(), (3,), (2, 2), (0,)])
@pytest.mark.parametrize("kind", [np.int64, np.int8, np.float32])
def test_pick(lead, kind):
    targets = Tensor(np.random.default_rng(0).integers(0, 4, lead).astype(kind))
    agrees(lambda t: losses.pick(t, targets), np.random.default_rng(1).standard_normal((*lead, 4)))


def test_compositions():
    rng = np.random.default_rng(0)
    x, targets = rng.standard_normal((3, 4)), Tensor(np.array([0, 3, 1]))
    agrees(activations.softmax, x)
    agrees(lambda t: activations.softmax(t, axis=0), x)
    agrees(activations.gelu, x)
    agrees(losses.log_softmax, x)
    agrees(lambda t: losses.CrossEntropyLoss()(t, targets), x)
    agrees(lambda t: losses.MSELoss()(t, Tensor(rng.standard_normal((3, 4)) * 0)), x)
    agrees(lambda t: losses.BinaryCrossEntropyLoss()(activations.sigmoid(t), Tensor((x > 0).astype(np.float32))), x)


def test_cast_brings_the_gradient_back_to_the_type():
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    (x.astype(np.float64) * 3.0).sum().backward()
    assert (x.grad.dtype, x.grad.data.tolist()) == (np.float32, [3.0, 3.0])


STRIDED = {"transposed": lambda a: a.T, "every second": lambda a: a[:, ::2], "backwards": lambda a: a[::-1],
           "broadcast": lambda a: np.broadcast_to(a[:1], (4, 6))}


@pytest.mark.parametrize("stride", STRIDED)
def test_strided_memory(stride):
    view = STRIDED[stride](np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32))
    results = []
    for array in (view, np.ascontiguousarray(view)):
        x = Tensor(array, requires_grad=True)
        w = Tensor(np.ones((array.shape[1], 3), np.float32), requires_grad=True)
        (activations.tanh(x @ w).max(axis=1) * x.T.sum(axis=0)).sum().backward()
        results.append((x.grad.data, w.grad.data))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_gradient_has_the_type_of_its_tensor(dtype):
    rng = np.random.default_rng(0)
    x, w, b = (Tensor(rng.standard_normal(s).astype(dtype), True, dtype) for s in ((2, 3), (3, 3), (3,)))
    y = activations.softmax(activations.gelu(layers.linear(x, w, b)) @ w / 2 + x.max(axis=0) ** 2)
    losses.pick(y, Tensor(np.array([0, 2]))).mean().backward()
    assert [t.grad.dtype for t in (x, w, b)] == [dtype] * 3


def test_mixed_types_each_get_their_own():
    a, b = Tensor(np.ones(2, np.float32), True), Tensor(np.ones(2), True, np.float64)
    c = Tensor(np.ones(2, np.float16), True)
    (a * b + c).sum().backward()
    assert [t.grad.dtype for t in (a, b, c)] == [np.float32, np.float64, np.float16]


def test_an_integer_companion_has_no_gradient():
    x, n = Tensor([1.0, 2.0], requires_grad=True), Tensor(np.array([3, 4]))
    (x * n / n * n).sum().backward()
    assert x.grad.data.tolist() == [3.0, 4.0]
    assert x.grad.dtype == np.float32


@quick
@given(pair=broadcastable(), seed=seeds)
def test_unbroadcast_mirrors_broadcast(pair, seed):
    """<stretch(x), g> = <x, unbroadcast(g)> for every x and g: what it means to be the mirror image."""
    rng, target = np.random.default_rng(seed), np.broadcast_shapes(*pair)
    for shape in pair:
        x, g = rng.standard_normal(shape), rng.standard_normal(target)
        back = unbroadcast(Tensor(g, dtype=np.float64), shape)
        assert back.shape == shape
        np.testing.assert_allclose(np.sum(np.broadcast_to(x, target) * g), np.sum(x * back.data), atol=1e-9)


def ops_of(module):
    return {name: value for name, value in vars(module).items() if isinstance(value, Op)}


def test_every_op_has_a_rule_or_is_listed_as_having_none():
    known = {id(o): name for m in (tensor, activations, layers, losses) for name, o in ops_of(m).items()}
    having = {id(o) for o in VJP}
    assert sorted(name for key, name in known.items() if key not in having) == []
    none = {o.name for o, rule in VJP.items() if rule is without_gradient}
    assert none >= {"argmax", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "dropout_mask"}


CASES = {
    "matmul": (lambda a, b: a @ b.T, [(4, 3), (5, 3)]),
    "linear": (layers.linear, [(2, 4, 3), (3, 5), (5,)]),
    "max": (lambda a: a.max(axis=1), [(4, 3)]),
    "index": (lambda a: a[[0, 0, 1]], [(4, 3)]),
    "concatenate": (lambda a, b: tensor.concatenate(a, b, axis=1), [(4, 3), (4, 2)]),
    "where": (lambda a, b: tensor.where(a > b, a, b), [(4, 3), (3,)]),
    "softmax": (activations.softmax, [(4, 3)]),
    "relu": (activations.relu, [(4, 3)]),
    "power": (lambda a: a**2 + a**0, [(4, 3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_backward_on_shapes_makes_the_same_ops(name):
    """Rules look at no values: on hollow arrays the walk makes the same events with the same shapes."""
    function, in_shapes = CASES[name]

    def ops_heard():
        heard = []
        xs = [Tensor(np.ones(shape), requires_grad=True) for shape in in_shapes]
        with listen(lambda event: heard.append((event.op.name, event.in_shapes, event.out_shape))):
            out = function(*xs)
            out.backward(np.ones(out.shape))
        return heard, [x.grad.shape for x in xs]

    real = ops_heard()
    with shape_only():
        hollow = ops_heard()
    assert hollow == real


def test_cross_entropy_backward_on_shapes():
    with shape_only():
        logits = Tensor(tensor.hollow((30_000, 50_000)), requires_grad=True)  # 6 GB if it were real
        losses.CrossEntropyLoss()(logits, Tensor(tensor.hollow((30_000,), np.int64))).backward()
        assert logits.grad.shape == (30_000, 50_000)


def test_only_the_recipes_asked_for_are_made_of_work():
    heard = []
    with listen(heard.append):
        run_rule(tensor.multiply, np.ones(3), np.ones(3), np.ones(3))
    assert [event.op.name for event in heard] == ["multiply"] * 3  # forward, and one for each input


def test_second_derivatives_from_rules_alone():
    """Rules are made of ops, so a rule's own result can be differentiated: (x³)'' = 6 x."""
    x = wide([1.0, 2.0])
    out = x**3
    (slope,) = VJP[tensor.power](Tensor(np.ones(2), dtype=np.float64), out, x, exponent=3)
    slope().sum().backward()
    np.testing.assert_allclose(x.grad.data, [6.0, 12.0])

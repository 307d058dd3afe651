"""Every op of the framework has its three rules, and they hold: shape, gradient (or none, by name), price."""

import importlib
import pkgutil

import numpy as np
import pytest

from tinytorch import core, perf
from tinytorch.core.autograd import VJP, check_rule, run_rule, without_gradient
from tinytorch.core.tensor import Op, Tensor, broadcast_shape, hollow, same_shape, shape_only
from tinytorch.perf.profiling import FLOPS

FILES = [importlib.import_module(f"{package.__name__}.{file.name}") for package in (core, perf)
         for file in pkgutil.iter_modules(package.__path__)]
OPS = {value.name: value for file in FILES for value in vars(file).values() if isinstance(value, Op)}
GAUSS = np.random.default_rng(0)


def real(*shape):
    """Standard-normal float64, distinct enough that maxima are not tied."""
    return GAUSS.standard_normal(shape)


def above(*shape):
    return np.abs(real(*shape)) + 0.5


PAIR = (real(2, 3), above(1, 3))
WINDOW = {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 1)}  # of (5, 4): (3, 5) windows
IMAGE = real(2, 2, 5, 4)
POOLED = OPS["max_pool2d"](Tensor(IMAGE, dtype=np.float64), **WINDOW).data
CONV = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}
SAMPLES = {  # op: (inputs, attributes); what works element by element needs no line of its own
    **{name: (PAIR, {}) for name, op in OPS.items() if op.shape is broadcast_shape},
    **{name: ((above(2, 3),), {}) for name, op in OPS.items() if op.shape is same_shape},
    "power": ((above(2, 3),), {"exponent": 3}),
    "cast": ((real(2, 3),), {"dtype": np.dtype(np.float64)}),
    "where": ((np.array([True, False, True]), real(2, 3), real(2, 1)), {}),
    "matmul": ((real(2, 1, 3, 4), real(5, 4, 2)), {}),
    "reduce_sum": ((real(2, 3, 4),), {"axis": (0, 2), "keepdims": True}),
    "reduce_max": ((real(2, 3, 4),), {"axis": 1}),
    "argmax": ((real(2, 3, 4),), {"axis": 1}),
    "reshape": ((real(2, 3),), {"shape": (3, -1)}),
    "transpose": ((real(2, 3, 4),), {"axes": (2, 0, 1)}),
    "broadcast_to": ((real(2, 1),), {"shape": (4, 2, 3)}),
    "index": ((real(4, 3),), {"key": (np.array([0, 0, 2]), slice(1, None))}),
    "put": ((real(3, 2),), {"key": (np.array([0, 0, 2]), slice(1, None)), "shape": (4, 3)}),
    "concatenate": ((real(2, 3), real(2, 1)), {"axis": 1}),
    "linear": ((real(2, 5, 3), real(3, 4), real(4)), {}),
    "dropout_mask": ((real(2, 3),), {"p": 0.5, "rng": np.random.default_rng(0)}),
    "pick": ((real(2, 3, 4), np.array([[0, 3, 1], [2, 2, 0]])), {}),
    "conv2d": ((real(2, 4, 5, 6), real(6, 2, 3, 2), real(6)), CONV),
    "max_pool2d": ((real(2, 2, 5, 4),), WINDOW),
    "avg_pool2d": ((real(2, 2, 5, 4),), WINDOW),
    "conv2d_input_gradient": ((real(2, 6, 3, 4), real(6, 2, 3, 2)), {**CONV, "size": (5, 6)}),
    "conv2d_weight_gradient": ((real(2, 6, 3, 4), real(2, 4, 5, 6)), {**CONV, "kernel": (3, 2)}),
    "max_pool2d_gradient": ((real(2, 2, 3, 5), POOLED, IMAGE), WINDOW),
    "max_pool2d_pick": ((real(2, 2, 5, 4), POOLED, IMAGE), WINDOW),
    "avg_pool2d_gradient": ((real(2, 2, 3, 5),), {**WINDOW, "size": (5, 4)}),
    "sinusoids": ((), {"length": 5, "embed_dim": 4, "dtype": np.dtype(np.float64)}),
    "causal_mask": ((), {"queries": 2, "keys": 5}),
    "tiled_matmul": ((real(5, 7), real(7, 3)), {"tile": 2}),
    "fused_gelu": ((real(2, 3),), {}),
    "fused_gelu_gradient": ((real(2, 3), real(2, 3)), {}),
    "linear_gelu": ((real(2, 5, 3), real(3, 4), real(4)), {}),
    "store": ((real(2, 3),), {"place": np.zeros((2, 3), np.float32)}),
    "quantize": ((real(2, 3), np.float32([0.1, 0.2, 0.3]), np.int8([0, -5, 7])), {}),
    "dequantize": ((np.int8([[1, -2], [3, 127]]), np.float32(0.1), np.int8(-128)), {}),
    "integer_linear": ((np.int8([[[1, -128]]]), np.int8(-128), np.int8([[1, 2], [127, 4]]), np.int8([5, -7])), {}),
}


@pytest.mark.parametrize("name", OPS)
def test_an_op_has_inputs_to_be_tried_on(name):
    assert name in SAMPLES, f"{name} has no inputs to be tried on: give it a line in SAMPLES, (inputs, attributes)"


def test_a_sample_has_its_op():
    assert sorted(SAMPLES.keys() - OPS) == [], "lines of SAMPLES whose op is gone"


@pytest.mark.parametrize("name", SAMPLES)
def test_the_shape_rule_is_the_computed_shape(name):
    """On shapes only the output has the shape and dtype that computing gives, and holds no memory."""
    inputs, attrs = SAMPLES[name]
    computed = OPS[name](*map(Tensor, inputs), **attrs)
    with shape_only():
        stand_ins = [Tensor(hollow(x.shape, np.asarray(Tensor(x).data).dtype)) for x in inputs]
        said = OPS[name](*stand_ins, **attrs)
    assert (said.shape, said.dtype) == (computed.shape, computed.dtype)
    assert computed.shape == OPS[name].shape(*[x.shape for x in inputs], **attrs)
    assert said.size < 2 or not all(said.data.strides) or name in ("reshape",)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_gradient_is_the_slope(name):
    """The rule agrees with central differences in float64, or the op is listed as having no gradient."""
    assert OPS[name] in VJP, f"{name} has no gradient rule and is not listed with no_gradient"
    inputs, attrs = SAMPLES[name]
    if VJP[OPS[name]] is without_gradient:
        assert all(found is None for found in run_rule(OPS[name], 1.0, *inputs, **attrs))
    else:
        check_rule(OPS[name], *inputs, **attrs)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_price_is_a_whole_number(name):
    assert OPS[name] in FLOPS, f"{name} has no cost rule and is not registered as free"
    inputs, attrs = SAMPLES[name]
    shapes = [x.shape for x in inputs]
    price = FLOPS[OPS[name]](OPS[name].shape(*shapes, **attrs), *shapes, **attrs)
    assert isinstance(price, int) and price >= 0

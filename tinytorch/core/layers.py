from functools import wraps
from math import prod, sqrt
from types import FunctionType, MethodType, ModuleType

import numpy as np

from tinytorch.core.tensor import Tensor, hollow, is_shape_only, op, scope, thread_state


_generator = np.random.default_rng()


def default_generator():
    """Return the generator that initializers and dropout draw from unless they are given one."""
    return _generator


def manual_seed(seed):
    """Start the default generator anew from ``seed``, so that weights and dropout repeat."""
    _generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state


def _weight(shape, draw):
    """Make a trainable float32 tensor from ``draw(shape)``, or a hollow one when only shapes are wanted."""
    if is_shape_only():
        return Tensor(hollow(shape), requires_grad=True)
    return Tensor(draw(shape).astype(np.float32), requires_grad=True)


def xavier_limit(fan_in, fan_out):
    """Half-width of the uniform distribution of Glorot and Bengio (2010): sqrt(6 / (fan_in + fan_out))."""
    return sqrt(6 / (fan_in + fan_out))


def he_std(fan_in):
    """Standard deviation of the normal distribution of He and others (2015): sqrt(2 / fan_in)."""
    return sqrt(2 / fan_in)


def xavier_uniform(fan_in, fan_out, rng=None):
    """Return a trainable (fan_in, fan_out) tensor, uniform within ``xavier_limit``."""
    limit = xavier_limit(fan_in, fan_out)
    return _weight((fan_in, fan_out), lambda shape: (rng or _generator).uniform(-limit, limit, shape))


def he_normal(fan_in, fan_out, rng=None):
    """Return a trainable (fan_in, fan_out) tensor, normal with ``he_std``."""
    return _weight((fan_in, fan_out), lambda shape: (rng or _generator).normal(0, he_std(fan_in), shape))


def zeros(*shape):
    """Return a trainable tensor of zeros: the usual start of a bias."""
    return _weight(shape, np.zeros)


def linear_shape(x, weight, bias=None):
    """Return (..., out) for x (..., in), weight (in, out) and a bias (out,) or none, or raise ``ValueError``."""
    if len(weight) != 2:
        raise ValueError(f"weight {weight}: want two axes, (in, out)")
    if not x or x[-1] != weight[0]:
        last = x[-1] if x else "missing"
        raise ValueError(f"x {x} with weight {weight}: the last axis is {last}, want {weight[0]}")
    if bias is not None and tuple(bias) != weight[1:]:
        raise ValueError(f"bias {bias} with weight {weight}: want {weight[1:]}")
    return (*x[:-1], weight[1])


@op(shape=linear_shape)
def linear(x, weight, bias=None):
    """x @ weight + bias: (..., in) @ (in, out) + (out,) -> (..., out); the bias is added in place."""
    if x.ndim > 2:
        out = (x.reshape(prod(x.shape[:-1]), x.shape[-1]) @ weight).reshape(*x.shape[:-1], weight.shape[1])
    else:
        out = x @ weight
    if bias is None:
        return out
    if out.dtype == np.result_type(out, bias):
        out += bias
        return out
    return out + bias


def parts(thing):
    """Return what is directly inside as (name, value): items of a dict, list or tuple, attributes of an object."""
    if isinstance(thing, dict):
        return [(str(key), value) for key, value in thing.items()]
    if isinstance(thing, (list, tuple)):
        return [(str(i), value) for i, value in enumerate(thing)]
    closed = (type, Tensor, np.ndarray, np.random.Generator, FunctionType, MethodType, ModuleType)
    return [] if isinstance(thing, closed) else list(getattr(thing, "__dict__", {}).items())


def named_tensors(thing):
    """Return (name, tensor) for every Tensor reachable by attribute, list or dict; each object once, cycles allowed."""
    found, seen = [], {}

    def look(name, value):
        if id(value) in seen:
            return
        seen[id(value)] = value
        if isinstance(value, Tensor):
            found.append((name, value))
        for part, inner in parts(value):
            look(f"{name}.{part}" if name else part, inner)

    look("", thing)
    return found


def _in_scope(forward):
    """Wrap ``forward`` so that events inside carry the layer; a ``super().forward`` does not open it twice."""
    @wraps(forward)
    def run(self, *args, **kwargs):
        path = thread_state().path
        if path and path[-1].owner == id(self):
            return forward(self, *args, **kwargs)
        with scope(type(self).__name__, id(self)):
            return forward(self, *args, **kwargs)
    return run


class Layer:
    """Base of all layers: write ``forward``, put tensors and layers on ``self``, and they are found."""

    training = True

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "forward" in cls.__dict__:
            cls.forward = _in_scope(cls.forward)

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, *args, **kwargs):
        """Compute the layer's output; every layer writes its own."""
        raise TypeError(f"{type(self).__name__} has no forward of its own; write one")

    def named_parameters(self):
        """Return (name, tensor) for each tensor the layer holds, frozen ones included."""
        return named_tensors(self)

    def parameters(self):
        """Return the layer's tensors, each once."""
        return [tensor for _, tensor in named_tensors(self)]

    def children(self):
        """Return (name, layer) for the layers directly inside, through lists, dicts and plain objects."""
        found, seen = [], {id(self): self}

        def look(name, value):
            if id(value) in seen:
                return
            seen[id(value)] = value
            if isinstance(value, Layer):
                found.append((name, value))
                return
            for part, inner in parts(value):
                look(f"{name}.{part}", inner)

        for name, value in parts(self):
            look(name, value)
        return found

    def train(self, mode=True):
        """Switch this layer and all below it to training (or, with False, to evaluation); return the layer."""
        todo, seen = [self], set()
        while todo:
            layer = todo.pop()
            if id(layer) not in seen:
                seen.add(id(layer))
                layer.training = bool(mode)
                todo += [child for _, child in layer.children()]
        return self

    def eval(self):
        """Switch to evaluation: dropout off."""
        return self.train(False)

    def __repr__(self):
        return f"{type(self).__name__}()"


def positive(what, value):
    """Return ``value`` as an int; ``TypeError`` unless an integer (a bool is not), ``ValueError`` unless above 0."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{what} is {value!r}; want a positive integer")
    if value < 1:
        raise ValueError(f"{what} is {value}; want a positive integer")
    return int(value)


class Linear(Layer):
    """Fully connected layer: x (..., in_features) -> (..., out_features), with weight (in_features, out_features)."""

    def __init__(self, in_features, out_features, bias=True, rng=None):
        """Draw the weight with ``xavier_uniform``; start the bias at zero, or leave it out with ``bias=False``."""
        self.in_features = positive("in_features", in_features)
        self.out_features = positive("out_features", out_features)
        self.weight = xavier_uniform(self.in_features, self.out_features, rng)
        self.bias = zeros(self.out_features) if bias else None

    def forward(self, x):
        """Compute x @ weight + bias: (..., in_features) -> (..., out_features)."""
        return linear(x, self.weight) if self.bias is None else linear(x, self.weight, self.bias)

    def __repr__(self):
        return f"Linear({self.in_features}, {self.out_features}" + (")" if self.bias is not None else ", bias=False)")


class Sequential(Layer):
    """Layers one after another: ``Sequential(Linear(4, 3), ReLU())`` or ``Sequential([...])``; kept in ``layers``."""

    def __init__(self, *layers):
        """Keep the layers, given one by one or as one list."""
        if len(layers) == 1 and isinstance(layers[0], (list, tuple)):
            layers = layers[0]
        self.layers = list(layers)

    def forward(self, x):
        """Pass x through every layer in turn."""
        for layer in self.layers:
            x = layer(x)
        return x

    def __repr__(self):
        return f"Sequential({', '.join(map(repr, self.layers))})"


@op(shape=lambda a, **attrs: a)
def dropout_mask(a, p, rng):
    """Return 0 with probability ``p``, else 1 / (1 - p), for every element of ``a``."""
    scale = 1 / (1 - p) if p < 1 else 0
    return (rng.random(a.shape) >= p).astype(a.dtype) * a.dtype.type(scale)


class Dropout(Layer):
    """Zero each element with probability ``p`` in training and scale the rest by 1/(1-p); do nothing in evaluation."""

    def __init__(self, p=0.5, rng=None):
        """Keep ``p`` (0 to 1) and the generator to draw from (None: the default one)."""
        if isinstance(p, bool) or not 0 <= p <= 1:
            raise ValueError(f"p is {p!r}; want a probability from 0 to 1")
        self.p, self.rng = float(p), rng

    def forward(self, x):
        """Return x with some elements dropped in training, x itself in evaluation."""
        if not self.training or self.p == 0:
            return x
        return x * dropout_mask(x, p=self.p, rng=self.rng or default_generator())

    def __repr__(self):
        return f"Dropout({self.p})"

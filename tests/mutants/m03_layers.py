"""Wrong and right solutions of module 03, as small edits of the reference."""

WRONG = [
    {"name": "xaviers-deviation", "cell": "initial-scale",
     "old": "sqrt(6 / (fan_in + fan_out))", "new": "sqrt(2 / (fan_in + fan_out))",
     "caught": "test-initial-scale: xavier_limit(2, 4)", "says": "that is the standard deviation"},
    {"name": "sum-of-the-fans", "cell": "initial-scale",
     "old": "sqrt(6 / (fan_in + fan_out))", "new": "sqrt(3 / (fan_in + fan_out))",
     "caught": "test-initial-scale: xavier_limit(2, 4)", "says": "the sum of the fans"},
    {"name": "he-without-its-two", "cell": "initial-scale",
     "old": "sqrt(2 / fan_in)", "new": "sqrt(1 / fan_in)",
     "caught": "test-initial-scale: he_std(8)", "says": "ReLU's half"},
    {"name": "hes-variance", "cell": "initial-scale",
     "old": "sqrt(2 / fan_in)", "new": "2 / fan_in",
     "caught": "test-initial-scale: he_std(8)", "says": "that is the variance"},
    {"name": "from-0-to-the-limit", "cell": "initial-weights",
     "old": "rng.uniform(-limit, limit, shape)", "new": "rng.uniform(0, limit, shape)",
     "caught": "test-initial-weights: xavier_uniform draws from rng", "says": "from 0"},
    {"name": "rng-not-used", "cell": "initial-weights",
     "old": "rng, limit = generator(rng), xavier_limit(fan_in, fan_out)",
     "new": "rng, limit = generator(None), xavier_limit(fan_in, fan_out)",
     "caught": "test-initial-weights: xavier_uniform draws from rng"},
    {"name": "fan-out-for-fan-in", "cell": "initial-weights",
     "old": "rng, std = generator(rng), he_std(fan_in)", "new": "rng, std = generator(rng), he_std(fan_out)",
     "caught": "test-initial-weights: he_normal draws from rng", "says": "fan_out in place of fan_in"},
    {"name": "seed-of-its-own", "cell": "initial-weights",
     "old": "rng, std = generator(rng), he_std(fan_in)",
     "new": "rng, std = rng or np.random.default_rng(), he_std(fan_in)",
     "caught": "test-initial-weights: without rng, a seed repeats the weights", "says": "generator(rng)"},
    {"name": "weight-the-other-way-round", "cell": "linear-shape",
     "old": "return (*x[:-1], weight[1])", "new": "return (*x[:-1], weight[0])",
     "caught": "test-linear-op: the rule says the same", "says": "the weight is (in, out)"},
    {"name": "leading-axes-dropped", "cell": "linear-shape",
     "old": "return (*x[:-1], weight[1])", "new": "return (x[0], weight[1])",
     "caught": "test-linear-op: the rule says the same", "says": "the axes in the middle"},
    {"name": "bias-not-compared", "cell": "linear-shape",
     "old": "if bias is not None and tuple(bias) != weight[1:]:", "new": "if False:",
     "caught": "test-linear-op: bias (2,) where (3,) is wanted, naming (2,)"},
    {"name": "bias-missing", "cell": "linear-op",
     "old": "    if out.dtype == np.result_type(out, bias):\n        out += bias\n        return out\n"
            "    return out + bias",
     "new": "    return out",
     "caught": "test-linear-op: one row", "says": "the bias is missing"},
    {"name": "bias-added-in-place", "cell": "linear-op",
     "old": "    if out.dtype == np.result_type(out, bias):\n        out += bias\n        return out\n"
            "    return out + bias",
     "new": "    out += bias.astype(out.dtype)\n    return out",
     "caught": "test-linear-op: a float64 bias is not rounded", "says": "added in place"},
    {"name": "shared-tensors-listed-again", "cell": "named-tensors",
     "old": "        seen[id(value)] = value\n        if isinstance(value, Tensor):\n"
            "            found.append((name, value))\n",
     "new": "        if isinstance(value, Tensor):\n            found.append((name, value))\n        else:\n"
            "            seen[id(value)] = value\n",
     "caught": "test-named-tensors: names in order", "says": "listed again"},
    {"name": "names-without-the-way", "cell": "named-tensors",
     "old": 'look(f"{name}.{part}" if name else part, inner)', "new": "look(part, inner)",
     "caught": "test-named-tensors: names in order", "says": "the way to it"},
    {"name": "only-direct-tensors", "cell": "named-tensors",
     "old": '            look(f"{name}.{part}" if name else part, inner)',
     "new": "            if isinstance(inner, Tensor):\n"
            '                look(f"{name}.{part}" if name else part, inner)',
     "caught": "test-named-tensors: names in order", "says": "lists or dicts were not looked into"},
    {"name": "weight-transposed", "cell": "linear-layer",
     "old": "xavier_uniform(self.in_features, self.out_features, rng)",
     "new": "xavier_uniform(self.out_features, self.in_features, rng)",
     "caught": "test-linear-layer: weight is (in, out)", "says": "the other way round"},
    {"name": "bias-drawn", "cell": "linear-layer",
     "old": "zeros(self.out_features) if bias",
     "new": "trainable((self.out_features,), generator(rng).standard_normal) if bias",
     "caught": "test-linear-layer: the bias starts at zero", "says": "the bias was drawn"},
    {"name": "bias-not-trainable", "cell": "linear-layer",
     "old": "zeros(self.out_features) if bias", "new": "Tensor(np.zeros(self.out_features)) if bias",
     "caught": "test-linear-layer: they want gradients", "says": "does not want one"},
    {"name": "rng-not-handed-on", "cell": "linear-layer",
     "old": "xavier_uniform(self.in_features, self.out_features, rng)",
     "new": "xavier_uniform(self.in_features, self.out_features)",
     "caught": "test-linear-layer: the weight is drawn from rng"},
    {"name": "bias-always", "cell": "linear-layer",
     "old": "zeros(self.out_features) if bias else None", "new": "zeros(self.out_features)",
     "caught": "test-linear-layer: bias=False", "says": "bias=False was ignored"},
    {"name": "only-the-last-layer", "cell": "sequential",
     "old": "x = layer(x)", "new": "y = layer(x)\n        x = y if layer is self.layers[-1] else x",
     "caught": "test-sequential: add 1 to 3, then double", "says": "only the last layer counts"},
    {"name": "backwards", "cell": "sequential",
     "old": "for layer in self.layers:", "new": "for layer in reversed(self.layers):",
     "caught": "test-sequential: add 1 to 3, then double", "says": "the last layer came first"},
    {"name": "list-in-a-list", "cell": "sequential",
     "old": "        if len(layers) == 1 and isinstance(layers[0], (list, tuple)):\n            layers = layers[0]\n",
     "new": "",
     "caught": "test-sequential: a list is accepted", "says": "the list itself"},
    {"name": "dropout-not-scaled", "cell": "dropout",
     "old": "* a.dtype.type(scale)", "new": "",
     "caught": "test-dropout: survivors are scaled by 4/3", "says": "not scaled"},
    {"name": "scaled-by-1-over-p", "cell": "dropout",
     "old": "1 / (1 - p) if p < 1 else 0", "new": "1 / p",
     "caught": "test-dropout: survivors are scaled by 4/3", "says": "scaled by 1/p"},
    {"name": "kept-with-probability-p", "cell": "dropout",
     "old": "rng.random(a.shape) >= p", "new": "rng.random(a.shape) < p",
     "caught": "test-dropout: the share that is dropped", "says": "p is the share that goes"},
    {"name": "always-on", "cell": "dropout",
     "old": "if not self.training or self.p == 0:", "new": "if self.p == 0:",
     "caught": "test-dropout: eval() reaches into Sequential", "says": "dropout is still on"},
    {"name": "own-generator-not-used", "cell": "dropout",
     "old": "rng=generator(self.rng)", "new": "rng=generator(None)",
     "caught": "test-dropout: the same seed, the same mask", "says": "rng is not used"},
]

RIGHT = [
    {"name": "scales-by-powers", "cell": "initial-scale", "code": '''
#| export
def xavier_limit(fan_in, fan_out):
    """Half-width of the uniform distribution of Glorot and Bengio (2010)."""
    mean_fan = (fan_in + fan_out) / 2
    return sqrt(3) * mean_fan**-0.5


def he_std(fan_in):
    """Standard deviation of the normal distribution of He and others (2015)."""
    return (fan_in / 2) ** -0.5
'''},
    {"name": "linear-by-matmul", "cell": "linear-op", "code": '''
#| export
@op(shape=linear_shape)
def linear(x, weight, bias=None):
    """x @ weight + bias: (..., in) @ (in, out) + (out,) -> (..., out), in the result type of all."""
    linear_shape(x.shape, weight.shape, None if bias is None else bias.shape)
    product = np.matmul(x, weight)
    return product if bias is None else product + bias
'''},
    {"name": "walk-by-a-stack", "cell": "named-tensors", "code": '''
#| export
def named_tensors(thing):
    """Return (name, tensor) for every Tensor reachable by attribute, list or dict; each object once, cycles allowed."""
    found, seen, stack = [], {}, [("", thing)]
    while stack:
        name, value = stack.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, Tensor):
            found.append((name, value))
        stack.extend([(f"{name}.{part}" if name else part, inner) for part, inner in parts(value)][::-1])
    return found
'''},
    {"name": "dropout-by-where", "cell": "dropout", "code": '''
#| export
@op(shape=lambda a, **attrs: a)
def dropout_mask(a, p, rng):
    """Return 0 with probability ``p``, else 1 / (1 - p), for every element of ``a``."""
    goes = rng.random(a.shape) < p
    return np.where(goes, 0, 1 / (1 - p) if p < 1 else 0).astype(a.dtype)


class Dropout(Layer):
    """Zero each element with probability ``p`` in training and scale the rest by 1/(1-p); do nothing in evaluation."""

    def __init__(self, p=0.5, rng=None):
        """Keep ``p`` (0 to 1) and the generator to draw from (None: the default one)."""
        if isinstance(p, bool) or not 0 <= p <= 1:
            raise ValueError(f"p is {p!r}; want a probability from 0 to 1")
        generator(rng)
        self.p, self.rng = float(p), rng

    def forward(self, x):
        """Return x with some elements dropped in training, x itself in evaluation."""
        if self.training and self.p > 0:
            x = dropout_mask(x, p=self.p, rng=generator(self.rng)) * x
        return x

    def __repr__(self):
        return f"Dropout({self.p})"
'''},
]

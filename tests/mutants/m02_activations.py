"""Wrong and right solutions of module 02, as small edits of the reference."""

WRONG = [
    {"name": "absolute-value", "cell": "relu",
     "old": "np.maximum(a, a.dtype.type(0))", "new": "np.abs(a)",
     "caught": "test-relu: relu of six numbers", "says": "absolute value"},
    {"name": "the-smaller", "cell": "relu",
     "old": "np.maximum", "new": "np.minimum",
     "caught": "test-relu: relu of six numbers", "says": "the smaller of both"},
    {"name": "by-comparison", "cell": "relu",
     "old": "np.maximum(a, a.dtype.type(0))", "new": "np.where(a > 0, a, a.dtype.type(0))",
     "caught": "test-relu: NaN stays NaN", "says": "a comparison turns NaN into 0"},
    {"name": "by-a-product", "cell": "relu",
     "old": "np.maximum(a, a.dtype.type(0))", "new": "a * (np.isnan(a) | (a > 0)).astype(a.dtype)",
     "caught": "test-relu: minus infinity becomes 0", "says": "-inf times 0"},
    {"name": "in-place", "cell": "relu",
     "old": "return np.maximum(a, a.dtype.type(0))", "new": "a[a < 0] = 0\n    return a",
     "caught": "test-relu: the input is left as it was", "says": "zeros were written into the input"},
    {"name": "int8-to-exp", "cell": "exp-log",
     "old": "np.exp(in_floats(a))", "new": "np.exp(a)",
     "caught": "test-exp-log: exp of the int8 number 12", "says": "int8 became float16"},
    {"name": "two-to-the-power", "cell": "exp-log",
     "old": "np.exp(in_floats(a))", "new": "np.exp2(in_floats(a))",
     "caught": "test-exp-log: exp", "says": "2 to the power"},
    {"name": "base-10", "cell": "exp-log",
     "old": "np.log(in_floats(a))", "new": "np.log10(in_floats(a))",
     "caught": "test-exp-log: log", "says": "base 10"},
    {"name": "overflow-is-not-quiet", "cell": "exp-log",
     "old": '    with np.errstate(over="ignore"):\n        return np.exp(in_floats(a))',
     "new": "    return np.exp(in_floats(a))",
     "caught": "test-exp-log: what NumPy said to all that", "says": "np.errstate"},
    {"name": "sign-in-the-exponent", "cell": "sigmoid-tanh",
     "old": "np.where(a >= 0, 1, small)", "new": "np.where(a >= 0, small, 1)",
     "caught": "test-sigmoid-tanh: sigmoid", "says": "the sign in the exponent"},
    {"name": "sigmoid-through-tanh", "cell": "sigmoid-tanh",
     "old": "return np.where(a >= 0, 1, small) / (1 + small)",
     "new": "return (0.5 * (np.tanh(0.5 * in_floats(a)) + 1)).astype(small.dtype)",
     "caught": "test-sigmoid-tanh: sigmoid(-80), as a multiple of e^-80", "says": "rounded to 0"},
    {"name": "textbook-sigmoid", "cell": "sigmoid-tanh",
     "old": "    small = np.exp(-np.abs(in_floats(a)))\n    return np.where(a >= 0, 1, small) / (1 + small)",
     "new": "    with np.errstate(over='ignore'):\n        return 1 / (1 + np.exp(-in_floats(a)))",
     "caught": "test-sigmoid-tanh: sigmoid(-12) in float16", "says": "the textbook formula"},
    {"name": "not-divided", "cell": "softmax",
     "old": "return powers / powers.sum(axis=axis, keepdims=True)", "new": "return powers",
     "caught": "test-softmax: softmax of 2, 1, 0", "says": "not divided by the sum"},
    {"name": "unstable", "cell": "softmax",
     "old": "exp(x - x.max(axis=axis, keepdims=True).detach())", "new": "exp(x)",
     "caught": "test-softmax: 88 higher: the same", "says": "overflow"},
    {"name": "one-maximum-for-all", "cell": "softmax",
     "old": "x.max(axis=axis, keepdims=True).detach()", "new": "(x.max() if x.size else 0)",
     "caught": "test-softmax: every row has its own maximum", "says": "one maximum for all rows"},
    {"name": "a-constant-subtracted", "cell": "softmax",
     "old": "x.max(axis=axis, keepdims=True).detach()", "new": "90.0",
     "caught": "test-softmax: far below zero", "says": "the largest score, not a constant"},
    {"name": "always-the-last-axis", "cell": "softmax",
     "old": "powers.sum(axis=axis, keepdims=True)", "new": "powers.sum(axis=-1, keepdims=True)",
     "caught": "test-softmax: down the columns, axis=0", "says": "summed along the last axis"},
    {"name": "summed-over-everything", "cell": "softmax",
     "old": "powers.sum(axis=axis, keepdims=True)", "new": "powers.sum()",
     "caught": "test-softmax: every row has its own maximum", "says": "one sum for all rows"},
    {"name": "keepdims-missing", "cell": "softmax",
     "old": "powers.sum(axis=axis, keepdims=True)", "new": "powers.sum(axis=axis)",
     "caught": "test-softmax: every row has its own maximum", "says": "keepdims is missing"},
    {"name": "no-cubic-term", "cell": "gelu",
     "old": "(x + 0.044715 * x * x * x)", "new": "x",
     "caught": "test-gelu: gelu", "says": "cubic term"},
    {"name": "no-root-of-2-over-pi", "cell": "gelu",
     "old": "sqrt(2 / pi) * ", "new": "",
     "caught": "test-gelu: gelu", "says": "sqrt(2/pi)"},
    {"name": "half-forgotten", "cell": "gelu",
     "old": "0.5 * x * (1 + tanh(inner))", "new": "x * (1 + tanh(inner))",
     "caught": "test-gelu: gelu", "says": "the factor 0.5"},
    {"name": "the-one-forgotten", "cell": "gelu",
     "old": "(1 + tanh(inner))", "new": "tanh(inner)",
     "caught": "test-gelu: gelu", "says": "the 1 +"},
    {"name": "past-the-door", "cell": "gelu",
     "old": "tanh(inner)", "new": "np.tanh(inner.data)",
     "caught": "test-gelu: the one tanh passes the door", "says": "not your tanh op"},
]

RIGHT = [
    {"name": "relu-by-clip", "cell": "relu", "code": '''
#| export
@op(shape=same_shape)
def relu(a):
    """Return the larger of a and 0, element by element; NaN stays NaN."""
    out = a.copy()
    out[a < 0] = 0
    return out
'''},
    {"name": "sigmoid-by-two-branches", "cell": "sigmoid-tanh", "code": '''
#| export
@op(shape=same_shape, dtype=floating)
def sigmoid(a):
    """Squeeze a into the interval from 0 to 1."""
    a = in_floats(a)
    right = 1 / (1 + np.exp(-np.maximum(a, 0)))
    power = np.exp(np.minimum(a, 0))
    return np.where(a < 0, power / (1 + power), right)


@op(shape=same_shape, dtype=floating)
def tanh(a):
    """Squeeze a into the interval from -1 to 1."""
    return np.tanh(in_floats(a))
'''},
    {"name": "gelu-factored", "cell": "gelu", "code": '''
#| export
def gelu(x):
    """Gaussian error linear unit in its tanh form."""
    cubic = x + x * x * x * 0.044715
    return x * (tanh(cubic * (2 / pi) ** 0.5) + 1) * 0.5
'''},
]

"""Wrong and right solutions of module 04, as small edits of the reference."""

WRONG = [
    {"name": "shapes-not-compared", "cell": "mse",
     "old": "if predictions.shape != targets.shape:", "new": "if predictions.size != targets.size:",
     "caught": "test-mse: (3, 1) against (3,), naming (3, 1)"},
    {"name": "empty-let-through", "cell": "mse",
     "old": "if predictions.size == 0:", "new": "if predictions.shape == (0,):",
     "caught": "test-mse: nothing to average"},
    {"name": "sum-for-mean", "cell": "mse",
     "old": "(error * error).mean()", "new": "(error * error).sum()",
     "caught": "test-mse: predictions 1 and 5, targets 1 and 2", "says": "the sum, not the mean"},
    {"name": "not-squared", "cell": "mse",
     "old": "(error * error).mean()", "new": "(error * error.detach().data ** 0 * np.sign(error.data)).mean()",
     "caught": "test-mse: predictions 1 and 5, targets 1 and 2", "says": "the absolute error"},
    {"name": "mean-of-the-rows", "cell": "mse",
     "old": "(error * error).mean()", "new": "(error * error).sum() / len(error.data)",
     "caught": "test-mse: two axes", "says": "averaged over the rows only"},
    {"name": "half-the-square", "cell": "mse",
     "old": "(error * error).mean()", "new": "(error * error).mean() * 0.5",
     "caught": "test-mse: predictions 1 and 5, targets 1 and 2", "says": "half"},
    {"name": "root-of-it", "cell": "mse",
     "old": "(error * error).mean()", "new": "(error * error).mean() ** 0.5",
     "caught": "test-mse: predictions 1 and 5, targets 1 and 2", "says": "the root"},
    {"name": "softmax-itself", "cell": "log-softmax",
     "old": "return shifted - log(exp(shifted).sum(axis=axis, keepdims=True))",
     "new": "return exp(shifted) / exp(shifted).sum(axis=axis, keepdims=True)",
     "caught": "test-log-softmax: log_softmax of 2, 1, 0", "says": "the softmax itself"},
    {"name": "log-of-the-softmax", "cell": "log-softmax",
     "old": "return shifted - log(exp(shifted).sum(axis=axis, keepdims=True))",
     "new": "return log(exp(shifted) / exp(shifted).sum(axis=axis, keepdims=True))",
     "caught": "test-log-softmax: scores 100 apart", "says": "rounded to 0"},
    {"name": "not-shifted", "cell": "log-softmax",
     "old": "shifted = x - x.max(axis=axis, keepdims=True).detach()", "new": "shifted = x",
     "caught": "test-log-softmax: scores 100 apart", "says": "a power overflowed"},
    {"name": "sum-forgotten", "cell": "log-softmax",
     "old": "return shifted - log(exp(shifted).sum(axis=axis, keepdims=True))", "new": "return shifted",
     "caught": "test-log-softmax: log_softmax of 2, 1, 0", "says": "only the largest was subtracted"},
    {"name": "always-the-last-axis", "cell": "log-softmax",
     "old": "exp(shifted).sum(axis=axis, keepdims=True)", "new": "exp(shifted).sum(axis=-1, keepdims=True)",
     "caught": "test-log-softmax: down the columns, axis=0", "says": "summed along the last axis"},
    {"name": "a-table-not-a-pick", "cell": "pick",
     "old": "np.take_along_axis(log_probs, index[..., None], axis=-1)[..., 0]",
     "new": "log_probs[:, index] if log_probs.ndim == 2 else np.take(log_probs, index, axis=-1)",
     "caught": "test-pick: one entry per row", "says": "a table, not a pick"},
    {"name": "first-axis-picked", "cell": "pick",
     "old": "np.take_along_axis(log_probs, index[..., None], axis=-1)[..., 0]",
     "new": "np.take_along_axis(np.moveaxis(log_probs, -1, 0), index[None] % len(log_probs), axis=0)[0]",
     "caught": "test-pick: one entry per row"},
    {"name": "axis-kept", "cell": "pick",
     "old": "axis=-1)[..., 0]", "new": "axis=-1)",
     "caught": "test-pick: one entry per row", "says": "an axis of length 1"},
    {"name": "one-hot-rows-let-through", "cell": "pick-shape",
     "old": "if tuple(targets) != tuple(log_probs[:-1]):",
     "new": "if tuple(targets) not in (tuple(log_probs), tuple(log_probs[:-1])):",
     "caught": "test-pick: one-hot rows"},
    {"name": "no-classes-let-through", "cell": "pick-shape",
     "old": "if not log_probs:", "new": "if log_probs is None:",
     "caught": "test-pick: no axis of classes"},
    {"name": "sign-missing", "cell": "cross-entropy",
     "old": "return -pick(", "new": "return pick(",
     "caught": "test-cross-entropy: two rows", "says": "the sign is missing"},
    {"name": "summed", "cell": "cross-entropy",
     "old": "targets).mean()", "new": "targets).sum()",
     "caught": "test-cross-entropy: two rows", "says": "the sum, not the mean"},
    {"name": "softmax-before", "cell": "cross-entropy",
     "old": "log_softmax(logits)", "new": "log_softmax(exp(log_softmax(logits)))",
     "caught": "test-cross-entropy: two rows", "says": "softmax was applied to the logits first"},
    {"name": "raw-scores", "cell": "cross-entropy",
     "old": "pick(log_softmax(logits), targets)", "new": "pick(logits, targets)",
     "caught": "test-cross-entropy: two rows", "says": "log_softmax is missing"},
    {"name": "shares-not-logarithms", "cell": "cross-entropy",
     "old": "log_softmax(logits)", "new": "exp(log_softmax(logits))",
     "caught": "test-cross-entropy: two rows", "says": "the logarithm is missing"},
    {"name": "log-of-a-share", "cell": "cross-entropy",
     "old": "log_softmax(logits)", "new": "log(exp(log_softmax(logits)))",
     "caught": "test-cross-entropy: sure and wrong: large, not infinite", "says": "a share of 0"},
    {"name": "one-class-only", "cell": "binary",
     "old": "t * log(maximum(p, TINY)) + (1 - t) * log(maximum(1 - p, TINY))", "new": "t * log(maximum(p, TINY))",
     "caught": "test-binary: p = 0.8 and 0.3", "says": "the second term is missing"},
    {"name": "targets-swapped", "cell": "binary",
     "old": "t * log(maximum(p, TINY)) + (1 - t) * log(maximum(1 - p, TINY))",
     "new": "(1 - t) * log(maximum(p, TINY)) + t * log(maximum(1 - p, TINY))",
     "caught": "test-binary: p = 0.8 and 0.3", "says": "the targets are swapped"},
    {"name": "no-floor", "cell": "binary",
     "old": "t * log(maximum(p, TINY)) + (1 - t) * log(maximum(1 - p, TINY))",
     "new": "t * log(p) + (1 - t) * log(1 - p)",
     "caught": "test-binary: sure and wrong: large, not infinite", "says": "log(0)"},
    {"name": "shift-not-added-back", "cell": "binary",
     "old": "return top + log(", "new": "return log(",
     "caught": "test-binary: logits of 0.8 and 0.3", "says": "the shift was not added back"},
    {"name": "logits-overflow", "cell": "binary",
     "old": "top = relu(z).detach()", "new": "top = relu(z).detach() * 0",
     "caught": "test-binary: logits of 1000", "says": "a power overflowed"},
    {"name": "plus-z-t", "cell": "binary",
     "old": "- z * t", "new": "+ z * t",
     "caught": "test-binary: logits of 0.8 and 0.3", "says": "z t is taken away"},
]

RIGHT = [
    {"name": "log-softmax-by-the-log-of-a-quotient", "cell": "log-softmax", "code": '''
#| export
def log_softmax(x, axis=None, dim=None):
    """Return log(softmax(x)) along ``axis``, for scores of any size."""
    axis = _one_axis(axis, dim)
    if axis is None:
        axis = -1
    low = x - x.max(axis=axis, keepdims=True).detach()
    powers = exp(low)
    return log(1 / powers.sum(axis=axis, keepdims=True)) + low
'''},
    {"name": "pick-by-flat-rows", "cell": "pick", "code": '''
#| export
@op(shape=pick_shape, dtype=lambda log_probs, targets: log_probs)
def pick(log_probs, targets):
    """Take the entry of the target class: log_probs (..., C), targets (...) of whole numbers -> (...)."""
    pick_shape(log_probs.shape, targets.shape)
    index = class_numbers(targets, log_probs.shape[-1])
    table, flat = log_probs.reshape(index.size, log_probs.shape[-1]), index.ravel()
    return table[np.arange(flat.size), flat].reshape(index.shape)
'''},
    {"name": "binary-by-the-absolute-value", "cell": "binary", "code": '''
#| export
TINY = 1e-7  # the smallest probability a logarithm sees


def binary_from_probabilities(p, t):
    """Return -(t log p + (1 - t) log(1 - p)) for each element, no logarithm seeing less than ``TINY``."""
    yes, no = log(maximum(p, TINY)), log(maximum(1 - p, TINY))
    return t * -yes - (1 - t) * no


def binary_from_logits(z, t):
    """Return log(e^z + 1) - z t for each element, shifted so that no power exceeds 1."""
    size = relu(z) + relu(-z)
    return relu(z) - z * t + log(exp(-size) + 1)
'''},
]

"""Wrong and right solutions of module 12, as small edits of the reference."""

WRONG = [
    {"name": "powers-not-shares", "cell": "attention-by-loops",
     "old": "shares = [power / sum(powers) for power in powers]", "new": "shares = powers",
     "caught": "test-attention-by-loops: weights", "says": "divide by their sum"},
    {"name": "scale-left-out", "cell": "attention-by-loops",
     "old": "scale * sum(", "new": "sum(",
     "caught": "test-attention-by-loops: weights", "says": "the scale is left out"},
    {"name": "unstable-loops", "cell": "attention-by-loops",
     "old": "np.exp(score - max(scores))", "new": "np.exp(score)",
     "caught": "test-attention-by-loops: scores of 10,000 and 0", "says": "overflow"},
    {"name": "two-results-exchanged", "cell": "attention-by-loops",
     "old": "return np.array(weights), np.array(mixed)", "new": "return np.array(mixed), np.array(weights)",
     "caught": "test-attention-by-loops: weights", "says": "the weights come first"},
    {"name": "not-scaled", "cell": "attention-scores",
     "old": "(query * scale) @ key.T", "new": "query @ key.T",
     "caught": "test-attention-scores: scores, d = 4", "says": "not scaled"},
    {"name": "by-d-not-its-root", "cell": "attention-scores",
     "old": "query.shape[-1] ** -0.5", "new": "1 / query.shape[-1]",
     "caught": "test-attention-scores: scores, d = 4", "says": "not by its root"},
    {"name": "root-of-the-keys", "cell": "attention-scores",
     "old": "query.shape[-1] ** -0.5", "new": "key.shape[-2] ** -0.5",
     "caught": "test-attention-scores: scores, d = 4", "says": "the number of keys"},
    {"name": "multiplied-by-the-root", "cell": "attention-scores",
     "old": "query.shape[-1] ** -0.5", "new": "query.shape[-1] ** 0.5",
     "caught": "test-attention-scores: scores, d = 4", "says": "multiplied by sqrt(d)"},
    {"name": "keys-against-queries", "cell": "attention-scores",
     "old": "(query * scale) @ key.T", "new": "(key * scale) @ query.T",
     "caught": "test-attention-scores: scores, d = 4", "says": "one row for each key"},
    {"name": "scores-scaled-afterwards", "cell": "attention-scores",
     "old": "(query * scale) @ key.T", "new": "(query @ key.T) * scale",
     "caught": "test-attention-scores: ops that write an array as large as the scores", "says": "scale the query"},
    {"name": "empty-row-is-nan", "cell": "safe-softmax",
     "old": "scores - where(top == -np.inf, 0.0, top)", "new": "scores - top",
     "caught": "test-safe-softmax: a forbidden key, and a row of them", "says": "the empty row is NaN"},
    {"name": "divided-by-nothing", "cell": "safe-softmax",
     "old": "return powers / where(total == 0.0, 1.0, total)", "new": "return powers / total",
     "caught": "test-safe-softmax: a forbidden key, and a row of them", "says": "the empty row is NaN"},
    {"name": "a-small-number-added", "cell": "safe-softmax",
     "old": "return powers / where(total == 0.0, 1.0, total)", "new": "return powers / (total + 1e-9)",
     "caught": "test-safe-softmax: a stack is a softmax along the last axis", "says": "something was added to the sum"},
    {"name": "one-maximum-for-all", "cell": "safe-softmax",
     "old": "top = scores.max(axis=-1, keepdims=True).detach()", "new": "top = scores.max(keepdims=True).detach()",
     "caught": "test-safe-softmax: low scores beside high ones", "says": "the low row vanished"},
    {"name": "along-the-queries", "cell": "safe-softmax",
     "old": "total = powers.sum(axis=-1, keepdims=True)", "new": "total = powers.sum(axis=-2, keepdims=True)",
     "caught": "test-safe-softmax: a forbidden key, and a row of them", "says": "along the queries"},
    {"name": "no-maximum", "cell": "safe-softmax",
     "old": "exp(scores - where(top == -np.inf, 0.0, top))", "new": "exp(scores)",
     "caught": "test-safe-softmax: scores of 10,000", "says": "overflow"},
    {"name": "upside-down", "cell": "causal-mask",
     "old": "places[:, None] >= np.arange(keys)", "new": "places[:, None] <= np.arange(keys)",
     "caught": "test-causal-mask: three words", "says": "the wrong way round"},
    {"name": "not-even-itself", "cell": "causal-mask",
     "old": "places[:, None] >= np.arange(keys)", "new": "places[:, None] > np.arange(keys)",
     "caught": "test-causal-mask: three words", "says": "a word may look at itself"},
    {"name": "true-where-forbidden", "cell": "causal-mask",
     "old": "places[:, None] >= np.arange(keys)", "new": "places[:, None] < np.arange(keys)",
     "caught": "test-causal-mask: three words", "says": "True where it is forbidden"},
    {"name": "the-first-queries", "cell": "causal-mask",
     "old": "np.arange(queries) + keys - queries", "new": "np.arange(queries)",
     "caught": "test-causal-mask: the last two of four", "says": "the queries are the last ones"},
    {"name": "booleans-added", "cell": "mask-scores",
     "old": "return where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask",
     "new": "return scores + mask",
     "caught": "test-mask-scores: boolean", "says": "the booleans were added"},
    {"name": "zero-not-infinity", "cell": "mask-scores",
     "old": "return where(mask, scores, -np.inf)", "new": "return where(mask, scores, 0.0)",
     "caught": "test-mask-scores: boolean", "says": "0 is a score like any other"},
    {"name": "a-low-number", "cell": "mask-scores",
     "old": "return where(mask, scores, -np.inf)", "new": "return where(mask, scores, -1e9)",
     "caught": "test-mask-scores: boolean", "says": "however low"},
    {"name": "mask-turned-over", "cell": "mask-scores",
     "old": "return where(mask, scores, -np.inf)", "new": "return where(mask, -np.inf, scores)",
     "caught": "test-mask-scores: boolean", "says": "True takes part"},
    {"name": "causal-replaces", "cell": "mask-scores",
     "old": "        if mask is not None:  # these are small: the scores are passed over once, below\n"
            "            causal = mask * causal if mask.dtype == bool else where(causal, mask, -np.inf)\n",
     "new": "",
     "caught": "test-mask-scores: causal and boolean", "says": "has replaced the one that was given"},
    {"name": "given-replaces", "cell": "mask-scores",
     "old": "    if is_causal:\n", "new": "    if is_causal and mask is None:\n",
     "caught": "test-mask-scores: causal and boolean", "says": "the causal one is forgotten"},
    {"name": "additive-times-causal", "cell": "mask-scores",
     "old": "mask * causal if mask.dtype == bool else where(causal, mask, -np.inf)", "new": "mask * causal",
     "caught": "test-mask-scores: causal and additive", "says": "0 forbids nothing in a mask that is added"},
    {"name": "is-causal-not-handed-on", "cell": "attention",
     "old": "safe_softmax(mask_scores(attention_scores(query, key), mask, is_causal))",
     "new": "safe_softmax(mask_scores(attention_scores(query, key), mask))",
     "caught": "test-attention: causal: the first query's weights", "says": "is_causal is not handed on"},
    {"name": "masked-after-the-softmax", "cell": "attention",
     "old": "safe_softmax(mask_scores(attention_scores(query, key), mask, is_causal))",
     "new": "mask_scores(safe_softmax(attention_scores(query, key)), mask, is_causal)",
     "caught": "test-attention: causal: the first query's weights", "says": "masked after the softmax"},
    {"name": "keys-mixed", "cell": "attention",
     "old": "attention_weights(query, key, mask, is_causal) @ value  #",
     "new": "attention_weights(query, key, mask, is_causal) @ key  #",
     "caught": "test-attention: mixed values of the last query", "says": "that mixes the keys"},
    {"name": "reshaped-without-transposing", "cell": "split-heads",
     "old": "    x = x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)  # (..., T, h, dk)\n"
            "    return x.transpose(swapped(x.ndim))  # (..., h, T, dk)\n",
     "new": "    return x.reshape(*x.shape[:-2], num_heads, x.shape[-2], x.shape[-1] // num_heads)\n",
     "caught": "test-heads: two words, three heads", "says": "that mixes the words"},
    {"name": "cut-and-not-swapped", "cell": "split-heads",
     "old": "    return x.transpose(swapped(x.ndim))  # (..., h, T, dk)\n", "new": "    return x\n",
     "caught": "test-heads: two words, three heads", "says": "cut, and not swapped"},
    {"name": "features-before-heads", "cell": "split-heads",
     "old": "num_heads, x.shape[-1] // num_heads)", "new": "x.shape[-1] // num_heads, num_heads)",
     "caught": "test-heads: two words, three heads", "says": "cut into (dk, h)"},
    {"name": "glued-without-swapping", "cell": "split-heads",
     "old": "    x = x.transpose(swapped(x.ndim))  # (..., T, h, dk)\n"
            "    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])  # (..., T, D)",
     "new": "    return x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3] * x.shape[-1])",
     "caught": "test-heads: joined, two heads of three words", "says": "glued without swapping back"},
    {"name": "one-axis-short", "cell": "padding-mask",
     "old": "present.shape[:-1], 1, 1, present", "new": "present.shape[:-1], 1, present",
     "caught": "test-padding-mask: two texts of three", "says": "one axis short"},
    {"name": "words-not-last", "cell": "padding-mask",
     "old": "(*present.shape[:-1], 1, 1, present.shape[-1])", "new": "(*present.shape, 1, 1)",
     "caught": "test-padding-mask: two texts of three", "says": "the words must stay the last axis"},
    {"name": "value-through-k-proj", "cell": "multi-head-attention",
     "old": "split_heads(self.v_proj(value)", "new": "split_heads(self.k_proj(value)",
     "caught": "test-multi-head-attention: cross attention, head by head: second text, second query",
     "says": "went through k_proj"},
    {"name": "value-from-key", "cell": "multi-head-attention",
     "old": "split_heads(self.v_proj(value)", "new": "split_heads(self.v_proj(key)",
     "caught": "test-multi-head-attention: cross attention, head by head: second text, second query",
     "says": "the values come from key"},
    {"name": "out-proj-missing", "cell": "multi-head-attention",
     "old": "return self.out_proj(join_heads(weights @ v))", "new": "return join_heads(weights @ v)",
     "caught": "test-multi-head-attention: cross attention, head by head: second text, second query",
     "says": "out_proj is missing"},
    {"name": "head-mask-not-handed-on", "cell": "multi-head-attention",
     "old": "attention_weights(q, k, mask, is_causal)", "new": "attention_weights(q, k, None, is_causal)",
     "caught": "test-multi-head-attention: a mask for each text: second text, second query",
     "says": "the mask is not handed on"},
    {"name": "dropout-on-the-output", "cell": "multi-head-attention",
     "old": "        weights = self.dropout(attention_weights(q, k, mask, is_causal))  # (..., h, Tq, Tk)\n"
            "        return self.out_proj(join_heads(weights @ v))",
     "new": "        weights = attention_weights(q, k, mask, is_causal)\n"
            "        return self.dropout(self.out_proj(join_heads(weights @ v)))",
     "caught": "test-multi-head-attention: in training, dropout is on the weights", "says": "dropout is on the output"},
    {"name": "bias-not-handed-on", "cell": "multi-head-attention",
     "old": "self.v_proj = Linear(self.embed_dim, self.embed_dim, bias, rng)",
     "new": "self.v_proj = Linear(self.embed_dim, self.embed_dim, rng=rng)",
     "caught": "test-multi-head-attention: bias=False", "says": "one projection does not get bias"},
]

RIGHT = [
    {"name": "loops-with-numpy-rows", "cell": "attention-by-loops", "code": '''
def attention_by_loops(query, key, value, scale=1.0):
    """Attention as its formula says: (Tq, d), (Tk, d), (Tk, dv) -> weights (Tq, Tk) and mixed values (Tq, dv)."""
    query, key, value = np.array(query, float), np.array(key, float), np.array(value, float)
    weights, mixed = np.zeros((len(query), len(key))), np.zeros((len(query), value.shape[1]))
    for i, q in enumerate(query):
        scores = key @ q * scale
        weights[i] = np.exp(scores - scores.max())
        weights[i] /= weights[i].sum()
        for share, row in zip(weights[i], value):
            mixed[i] += share * row
    return weights, mixed
'''},
    {"name": "mask-by-tri", "cell": "causal-mask", "code": '''
#| export
def causal_shape(queries, keys):
    """Return (queries, keys), or raise ``ValueError`` when one of them is not a size."""
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in (queries, keys)):
        raise ValueError(f"queries {queries!r} and keys {keys!r}: want two sizes, whole numbers from 0")
    return int(queries), int(keys)


@op(shape=causal_shape, dtype=np.bool_)
def causal_mask(queries, keys):
    """Return (queries, keys) booleans: True where a query may look, at keys no later than itself."""
    queries, keys = causal_shape(queries, keys)
    return np.tri(queries, keys, keys - queries, dtype=bool)


no_gradient(causal_mask)
'''},
    {"name": "masks-made-additive", "cell": "mask-scores", "code": '''
#| export
def mask_scores(scores, mask=None, is_causal=False):
    """Rule out keys: scores (..., Tq, Tk) -> the same shape, -inf where a query may not look."""
    mask = None if mask is None else fitted_mask(mask, scores)
    causal = causal_mask(queries=scores.shape[-2], keys=scores.shape[-1]) if is_causal else None
    if mask is None and causal is None:
        return scores
    if mask is None or mask.dtype == bool:
        both = causal if mask is None else mask if causal is None else where(causal, mask, False)
        return where(both, scores, -np.inf)
    return scores + (mask if causal is None else where(causal, mask, -np.inf))
'''},
    {"name": "joined-by-concatenating", "cell": "split-heads", "code": '''
#| export
def split_heads(x, num_heads):
    """Cut the features into heads: (..., T, D) -> (..., h, T, dk) with dk = D / h."""
    if x.ndim < 2 or x.shape[-1] % num_heads:
        raise ValueError(f"x {x.shape} with {num_heads} heads: want (..., T, D) with D a multiple of {num_heads}")
    *leading, words, features = x.shape
    axes = list(range(len(leading) + 3))
    axes[-3], axes[-2] = axes[-2], axes[-3]
    return x.reshape(*leading, words, num_heads, features // num_heads).transpose(*axes)


def join_heads(x):
    """Put the heads side by side again: (..., h, T, dk) -> (..., T, D) with D = h dk."""
    *leading, heads, words, features = x.shape
    axes = list(range(x.ndim))
    axes[-3], axes[-2] = axes[-2], axes[-3]
    return x.transpose(*axes).reshape(*leading, words, heads * features)
'''},
]

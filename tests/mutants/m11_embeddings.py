"""Wrong and right solutions of module 11, as small edits of the reference."""

WRONG = [
    {"name": "vocabulary-first", "cell": "one-hot",
     "old": "column = tokens.reshape(*tokens.shape, 1)\n"
            "    return equal(column, Tensor(np.arange(vocab_size))).astype(np.float32)",
     "new": "column = Tensor(np.arange(vocab_size)).reshape(vocab_size, *[1] * tokens.ndim)\n"
            "    return equal(column, tokens).astype(np.float32)",
     "caught": "test-one-hot: three tokens of four", "says": "the vocabulary is the last axis"},
    {"name": "booleans", "cell": "one-hot",
     "old": ".astype(np.float32)", "new": "",
     "caught": "test-one-hot: three tokens of four", "says": "as numbers, not as booleans"},
    {"name": "by-indexing", "cell": "one-hot",
     "old": "    column = tokens.reshape(*tokens.shape, 1)\n"
            "    return equal(column, Tensor(np.arange(vocab_size))).astype(np.float32)",
     "new": "    return Tensor(np.eye(vocab_size, dtype=np.float32)[tokens.data.astype(int) % vocab_size])",
     "caught": "test-one-hot: token -1 of 3 has no place", "says": "compare, do not index"},
    {"name": "counted-from-1", "cell": "one-hot",
     "old": "np.arange(vocab_size)", "new": "np.arange(1, vocab_size + 1)",
     "caught": "test-one-hot: three tokens of four", "says": "tokens are counted from 0"},
    {"name": "size-let-through", "cell": "refuse-strangers",
     "old": "(ids < vocab_size)", "new": "(ids <= vocab_size)",
     "caught": "test-refuse-strangers: the size itself: named"},
    {"name": "negative-let-through", "cell": "refuse-strangers",
     "old": "(ids >= 0) & ", "new": "",
     "caught": "test-refuse-strangers: below zero: named"},
    {"name": "fractions-let-through", "cell": "refuse-strangers",
     "old": " & (ids == np.floor(ids))", "new": "",
     "caught": "test-refuse-strangers: a fraction: named"},
    {"name": "nan-let-through", "cell": "refuse-strangers",
     "old": "ids[~((ids >= 0) & (ids < vocab_size) & (ids == np.floor(ids)))]",
     "new": "ids[(ids < 0) | (ids >= vocab_size) | (ids - np.floor(ids) > 0)]",
     "caught": "test-refuse-strangers: not a number: named"},
    {"name": "table-the-other-way-round", "cell": "embedding",
     "old": "normal_weight(self.vocab_size, self.embed_dim, rng=rng)",
     "new": "normal_weight(self.embed_dim, self.vocab_size, rng=rng)",
     "caught": "test-embedding: the weight is (vocab_size, embed_dim)", "says": "a row for each token"},
    {"name": "rng-not-used", "cell": "embedding",
     "old": "self.embed_dim, rng=rng)", "new": "self.embed_dim)",
     "caught": "test-embedding: it is drawn from rng"},
    {"name": "by-the-product", "cell": "embedding",
     "old": "return self.weight[token_ids(tokens, self.vocab_size)]",
     "new": "token_ids(tokens, self.vocab_size)\n        return one_hot(tokens, self.vocab_size) @ self.weight",
     "caught": "test-embedding: what it computed", "says": "the product; want the lookup"},
    {"name": "past-the-ops", "cell": "embedding",
     "old": "return self.weight[token_ids(tokens, self.vocab_size)]",
     "new": "return Tensor(self.weight.data[token_ids(tokens, self.vocab_size)])",
     "caught": "test-embedding: what it computed", "says": "it went past the ops"},
    {"name": "shifted-by-one", "cell": "embedding",
     "old": "self.weight[token_ids(tokens, self.vocab_size)]",
     "new": "self.weight[token_ids(tokens, self.vocab_size) - 1]",
     "caught": "test-embedding: rows of tokens 5, 0, 5", "says": "the row before"},
    {"name": "strangers-not-refused", "cell": "embedding",
     "old": "token_ids(tokens, self.vocab_size)", "new": "tokens.data.astype(np.int64)",
     "caught": "test-embedding: token 7"},
    {"name": "last-visit-wins", "cell": "scatter-add",
     "old": "grad[token] += g[place]", "new": "grad[token] = g[place]",
     "caught": "test-scatter-add: tokens 3, 0, 3 of 5", "says": "overwrote the first"},
    {"name": "fancy-index-added", "cell": "scatter-add",
     "old": "    for place, token in enumerate(ids):\n        grad[token] += g[place]\n", "new": "    grad[ids] += g\n",
     "caught": "test-scatter-add: tokens 3, 0, 3 of 5", "says": "overwrote the first"},
    {"name": "rows-to-places", "cell": "scatter-add",
     "old": "grad[token] += g[place]", "new": "grad[place] += g[place]",
     "caught": "test-scatter-add: tokens 3, 0, 3 of 5", "says": "rows belong to tokens"},
    {"name": "float64-sums", "cell": "scatter-add",
     "old": ", g.dtype)", "new": ")",
     "caught": "test-scatter-add: float32 stays float32", "says": "np.zeros makes float64"},
    {"name": "places-from-1", "cell": "positional-encoding",
     "old": "self.weight[:length]", "new": "self.weight[(np.arange(length) + 1) % self.max_seq_len]",
     "caught": "test-positional-encoding: second sentence, third place", "says": "places are counted from 0"},
    {"name": "rows-from-the-end", "cell": "positional-encoding",
     "old": "self.weight[:length]", "new": "self.weight[self.max_seq_len - length :]",
     "caught": "test-positional-encoding: second sentence, third place", "says": "the rows from the end"},
    {"name": "first-row-everywhere", "cell": "positional-encoding",
     "old": "self.weight[:length]", "new": "self.weight[:1]",
     "caught": "test-positional-encoding: second sentence, third place", "says": "the first row was added everywhere"},
    {"name": "positions-forgotten", "cell": "positional-encoding",
     "old": "return x + self.weight[:length]", "new": "return x + 0.0",
     "caught": "test-positional-encoding: second sentence, third place", "says": "nothing was added"},
    {"name": "multiplied", "cell": "positional-encoding",
     "old": "return x + self.weight[:length]", "new": "return x * self.weight[:length]",
     "caught": "test-positional-encoding: second sentence, third place", "says": "multiplied"},
    {"name": "too-long-let-through", "cell": "positional-encoding",
     "old": "length = check_sequence(x, self.max_seq_len, self.embed_dim)", "new": "length = x.shape[-2]",
     "caught": "test-positional-encoding: one column where four are wanted"},
    {"name": "exponent-i-not-2i", "cell": "sinusoids",
     "old": "-np.arange(0, embed_dim, 2) / embed_dim", "new": "-np.arange((embed_dim + 1) // 2) / embed_dim",
     "caught": "test-sinusoids: frequencies(4)", "says": "the exponent is 2i / D"},
    {"name": "hands-get-faster", "cell": "sinusoids",
     "old": "10000.0 ** (-np.arange", "new": "10000.0 ** (np.arange",
     "caught": "test-sinusoids: frequencies(4)", "says": "the sign of the exponent"},
    {"name": "one-for-each-column", "cell": "sinusoids",
     "old": "    return 10000.0 ** (-np.arange(0, embed_dim, 2) / embed_dim)",
     "new": "    return 10000.0 ** (-np.arange(embed_dim) / embed_dim)",
     "caught": "test-sinusoids: frequencies(4)", "says": "one for each pair of columns"},
    {"name": "sines-first", "cell": "sinusoids",
     "old": "    table[:, 0::2] = np.sin(angles)\n    table[:, 1::2] = np.cos(angles[:, : embed_dim // 2])",
     "new": "    half = (embed_dim + 1) // 2\n    table[:, :half] = np.sin(angles)\n"
            "    table[:, half:] = np.cos(angles[:, : embed_dim // 2])",
     "caught": "test-sinusoids: place 1 of four columns", "says": "all sines come first"},
    {"name": "cosines-in-even-columns", "cell": "sinusoids",
     "old": "    table[:, 0::2] = np.sin(angles)\n    table[:, 1::2] = np.cos(angles[:, : embed_dim // 2])",
     "new": "    table[:, 0::2] = np.cos(angles)\n    table[:, 1::2] = np.sin(angles[:, : embed_dim // 2])",
     "caught": "test-sinusoids: place 1 of four columns", "says": "even columns are sines"},
    {"name": "angles-in-float32", "cell": "sinusoids",
     "old": "np.arange(length)[:, None] * frequencies(embed_dim)",
     "new": "np.arange(length, dtype=np.float32)[:, None] * frequencies(embed_dim).astype(np.float32)",
     "caught": "test-sinusoids: in float64 nothing is lost"},
    {"name": "sinusoid-places-from-1", "cell": "sinusoids",
     "old": "np.arange(length)[:, None]", "new": "np.arange(1, length + 1)[:, None]",
     "caught": "test-sinusoids: place 1 of four columns", "says": "places are counted from 0"},
    {"name": "type-not-handed-on", "cell": "sinusoidal-encoding",
     "old": ", dtype=floating(x.dtype))", "new": ")",
     "caught": "test-sinusoidal-encoding: float16 stays", "says": "the table is float32"},
    {"name": "scaled-positions", "cell": "sinusoidal-encoding",
     "old": "return x + sinusoids(", "new": "return x + 0.02 * sinusoids(",
     "caught": "test-sinusoidal-encoding: second sentence of three places"},
]

RIGHT = [
    {"name": "strangers-by-any", "cell": "refuse-strangers", "code": '''
#| export
def refuse_strangers(ids, vocab_size):
    """Raise ``ValueError``, naming the id and the vocabulary, unless all ``ids`` are whole and 0 to vocab_size - 1."""
    for one in np.ravel(ids):
        if not 0 <= one < vocab_size or one % 1 != 0:
            raise ValueError(f"{one} is no token of a vocabulary of {vocab_size}: 0 to {vocab_size - 1}")
'''},
    {"name": "scatter-by-add-at", "cell": "scatter-add", "code": '''
def scatter_add(g, ids, vocab_size):
    """Return (vocab_size, D) with row i of g (N, D) added at row ids[i]."""
    grad = np.zeros((vocab_size, g.shape[1]), g.dtype)
    np.add.at(grad, ids, g)
    return grad
'''},
    {"name": "sinusoids-column-by-column", "cell": "sinusoids", "code": '''
#| export
def frequencies(embed_dim):
    """Return by what angle each pair of columns turns from place to place, in float64."""
    pairs = np.arange((embed_dim + 1) // 2, dtype=np.float64)
    return np.power(10000.0, -2 * pairs / embed_dim)


def sinusoids_shape(length, embed_dim, dtype=np.float32):
    """Return (length, embed_dim), or raise ``ValueError`` for sizes that no table has."""
    if length < 0 or embed_dim < 1:
        raise ValueError(f"length {length}, embed_dim {embed_dim}: want at least 0 and at least 1")
    return (length, embed_dim)


@op(shape=sinusoids_shape, dtype=lambda length, embed_dim, dtype=np.float32: dtype)
def sinusoids(length, embed_dim, dtype=np.float32):
    """Return the table (length, embed_dim): sines in even columns, cosines in odd ones."""
    sinusoids_shape(length, embed_dim)
    places, turns = np.arange(length, dtype=np.float64), frequencies(embed_dim)
    columns = [(np.cos if column % 2 else np.sin)(places * turns[column // 2]) for column in range(embed_dim)]
    return np.stack(columns, axis=1).astype(dtype)


no_gradient(sinusoids)
'''},
]

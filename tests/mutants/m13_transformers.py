"""Wrong and right solutions of module 13, as small edits of the reference."""

WRONG = [
    {"name": "over-the-rows", "cell": "layer-norm",
     "old": "    distance = x - x.mean(axis=-1, keepdims=True)  # (..., D)\n"
            "        variance = (distance * distance).mean(axis=-1, keepdims=True)",
     "new": "    distance = x - x.mean(axis=0, keepdims=True)  # (..., D)\n"
            "        variance = (distance * distance).mean(axis=0, keepdims=True)",
     "caught": "test-layer-norm: eps = 4: roots of 5 + 4 and 12 + 4", "says": "mean and variance over the rows"},
    {"name": "over-everything", "cell": "layer-norm",
     "old": "    distance = x - x.mean(axis=-1, keepdims=True)  # (..., D)\n"
            "        variance = (distance * distance).mean(axis=-1, keepdims=True)",
     "new": "    distance = x - x.mean()  # (..., D)\n        variance = (distance * distance).mean()",
     "caught": "test-layer-norm: eps = 4: roots of 5 + 4 and 12 + 4", "says": "mean and variance over everything"},
    {"name": "eps-outside-the-root", "cell": "layer-norm",
     "old": "sqrt(variance + self.eps)", "new": "(sqrt(variance) + self.eps)",
     "caught": "test-layer-norm: eps = 4: roots of 5 + 4 and 12 + 4", "says": "eps stands outside the root"},
    {"name": "root-missing", "cell": "layer-norm",
     "old": "sqrt(variance + self.eps)", "new": "(variance + self.eps)",
     "caught": "test-layer-norm: eps = 4: roots of 5 + 4 and 12 + 4", "says": "the root is missing"},
    {"name": "divided-by-d-minus-1", "cell": "layer-norm",
     "old": "(distance * distance).mean(axis=-1, keepdims=True)",
     "new": "(distance * distance).sum(axis=-1, keepdims=True) / max(1, self.embed_dim - 1)",
     "caught": "test-layer-norm: eps = 4: roots of 5 + 4 and 12 + 4", "says": "divided by D - 1"},
    {"name": "bias-before-weight", "cell": "layer-norm",
     "old": "return distance / sqrt(variance + self.eps) * self.weight + self.bias",
     "new": "return (distance / sqrt(variance + self.eps) + self.bias) * self.weight",
     "caught": "test-layer-norm: numbers all alike give the bias", "says": "the bias is added before the weight"},
    {"name": "weight-left-out", "cell": "layer-norm",
     "old": "* self.weight + self.bias", "new": "+ self.bias",
     "caught": "test-layer-norm: weight and bias, for each feature", "says": "the weight is left out"},
    {"name": "mean-not-in-the-graph", "cell": "layer-norm",
     "old": "x - x.mean(axis=-1, keepdims=True)", "new": "x - x.mean(axis=-1, keepdims=True).detach()",
     "caught": "test-layer-norm: gradients of one row add up to 0, since moving all three changes nothing",
     "says": "stops at the mean"},
    {"name": "relu-for-gelu", "cell": "mlp",
     "old": "self.activation(self.fc1(x))", "new": "relu(self.fc1(x))",
     "caught": "test-mlp: fc2 of gelu of fc1", "says": "that is ReLU"},
    {"name": "no-bend", "cell": "mlp",
     "old": "self.activation(self.fc1(x))", "new": "self.fc1(x)",
     "caught": "test-mlp: fc2 of gelu of fc1", "says": "the nonlinearity is missing"},
    {"name": "as-narrow-as-the-input", "cell": "mlp",
     "old": "        self.fc1 = Linear(self.embed_dim, self.hidden_dim, rng=rng)\n        self.activation = GELU()\n"
            "        self.fc2 = Linear(self.hidden_dim, self.embed_dim, rng=rng)\n",
     "new": "        self.fc1 = Linear(self.embed_dim, self.embed_dim, rng=rng)\n        self.activation = GELU()\n"
            "        self.fc2 = Linear(self.embed_dim, self.embed_dim, rng=rng)\n",
     "caught": "test-mlp: parameters of MLP(3)", "says": "as narrow as the input"},
    {"name": "dropped-before-fc2", "cell": "mlp",
     "old": "self.dropout(self.fc2(self.activation(self.fc1(x))))",
     "new": "self.fc2(self.dropout(self.activation(self.fc1(x))))",
     "caught": "test-mlp: in training, all dropped", "says": "dropout comes before fc2"},
    {"name": "rng-not-handed-on", "cell": "mlp",
     "old": "self.fc2 = Linear(self.hidden_dim, self.embed_dim, rng=rng)",
     "new": "self.fc2 = Linear(self.hidden_dim, self.embed_dim)",
     "caught": "test-mlp: rng draws the weights", "says": "without rng=rng"},
    {"name": "road-missing", "cell": "block",
     "old": "        x = x + self.dropout(self.attention(self.ln1(x), mask=mask, is_causal=is_causal))\n"
            "        return x + self.mlp(self.ln2(x))",
     "new": "        x = self.dropout(self.attention(self.ln1(x), mask=mask, is_causal=is_causal))\n"
            "        return self.mlp(self.ln2(x))",
     "caught": "test-block: the picture, by hand", "says": "the road is missing"},
    {"name": "mlp-replaces-x", "cell": "block",
     "old": "return x + self.mlp(self.ln2(x))", "new": "return self.mlp(self.ln2(x))",
     "caught": "test-block: the picture, by hand", "says": "what the MLP makes replaces x"},
    {"name": "post-norm", "cell": "block",
     "old": "        x = x + self.dropout(self.attention(self.ln1(x), mask=mask, is_causal=is_causal))\n"
            "        return x + self.mlp(self.ln2(x))",
     "new": "        x = self.ln1(x + self.dropout(self.attention(x, mask=mask, is_causal=is_causal)))\n"
            "        return self.ln2(x + self.mlp(x))",
     "caught": "test-block: the picture, by hand", "says": "post-norm"},
    {"name": "attention-lost", "cell": "block",
     "old": "        x = x + self.dropout(self.attention(self.ln1(x), mask=mask, is_causal=is_causal))\n"
            "        return x + self.mlp(self.ln2(x))",
     "new": "        middle = x + self.dropout(self.attention(self.ln1(x), mask=mask, is_causal=is_causal))\n"
            "        return x + self.mlp(self.ln2(middle))",
     "caught": "test-block: the picture, by hand", "says": "what attention added is lost"},
    {"name": "one-norm-for-both", "cell": "block",
     "old": "self.mlp(self.ln2(x))", "new": "self.mlp(self.ln1(x))",
     "caught": "test-block: the picture, by hand", "says": "both branches go through ln1"},
    {"name": "not-causal-in-the-block", "cell": "block",
     "old": ", mask=mask, is_causal=is_causal)", "new": ", mask=mask)",
     "caught": "test-block: is_causal reaches the attention", "says": "is_causal is not handed on"},
    {"name": "attention-not-dropped", "cell": "block",
     "old": "x = x + self.dropout(self.attention(self.ln1(x), mask=mask, is_causal=is_causal))",
     "new": "x = x + self.attention(self.ln1(x), mask=mask, is_causal=is_causal)",
     "caught": "test-block: dropout_prob=1, in training: x itself", "says": "what attention adds is not dropped"},
    {"name": "positions-not-added", "cell": "gpt",
     "old": "self.dropout(self.position_embedding(self.token_embedding(tokens)))",
     "new": "self.dropout(self.token_embedding(tokens))",
     "caught": "test-gpt: the road, by hand", "says": "positions are not added"},
    {"name": "looks-ahead", "cell": "gpt",
     "old": "x = block(x, is_causal=True)", "new": "x = block(x)",
     "caught": "test-gpt: the road, by hand", "says": "the blocks are not causal"},
    {"name": "last-norm-left-out", "cell": "gpt",
     "old": "        x = self.ln_f(x)\n", "new": "",
     "caught": "test-gpt: the road, by hand", "says": "the last norm is left out"},
    {"name": "one-block-many-times", "cell": "gpt",
     "old": "[TransformerBlock(embed_dim, num_heads, dropout_prob=dropout_prob, rng=rng)\n"
            "                       for _ in range(num_layers)]",
     "new": "[TransformerBlock(embed_dim, num_heads, dropout_prob=dropout_prob, rng=rng)] * num_layers",
     "caught": "test-gpt: parameters, tied", "says": "one block, listed twice"},
    {"name": "layers-and-heads-exchanged", "cell": "gpt",
     "old": "[TransformerBlock(embed_dim, num_heads, dropout_prob=dropout_prob, rng=rng)\n"
            "                       for _ in range(num_layers)]",
     "new": "[TransformerBlock(embed_dim, num_layers, dropout_prob=dropout_prob, rng=rng)\n"
            "                       for _ in range(num_heads)]",
     "caught": "test-gpt: num_layers, num_heads: three blocks of two heads", "says": "exchanged"},
    {"name": "head-of-its-own", "cell": "gpt",
     "old": "self.head = None if tie_weights else Linear(embed_dim, vocab_size, bias=False, rng=rng)",
     "new": "self.head = Linear(embed_dim, vocab_size, bias=False, rng=rng)",
     "caught": "test-gpt: parameters, tied", "says": "the head has a table of its own"},
    {"name": "head-with-a-bias", "cell": "gpt",
     "old": "Linear(embed_dim, vocab_size, bias=False, rng=rng)", "new": "Linear(embed_dim, vocab_size, rng=rng)",
     "caught": "test-gpt: parameters, not tied", "says": "the head has a bias"},
    {"name": "head-counted", "cell": "gpt-parameters",
     "old": "(vocab_size + max_seq_len) * embed_dim", "new": "(2 * vocab_size + max_seq_len) * embed_dim",
     "caught": "test-gpt-parameters: gpt_parameters(11, 8, 2, 6)", "says": "the head is tied"},
    {"name": "positions-not-counted", "cell": "gpt-parameters",
     "old": "(vocab_size + max_seq_len) * embed_dim", "new": "vocab_size * embed_dim",
     "caught": "test-gpt-parameters: gpt_parameters(11, 8, 2, 6)", "says": "the positions are left out"},
    {"name": "only-the-squares", "cell": "gpt-parameters",
     "old": "12 * embed_dim**2 + 13 * embed_dim", "new": "12 * embed_dim**2",
     "caught": "test-gpt-parameters: gpt_parameters(11, 8, 2, 6)", "says": "biases and norms of the blocks"},
    {"name": "times-the-temperature", "cell": "token-shares",
     "old": "logits.astype(np.float64) / temperature", "new": "logits.astype(np.float64) * temperature",
     "caught": "test-token-shares: temperature 2: square roots", "says": "multiplied by the temperature"},
    {"name": "temperature-ignored", "cell": "token-shares",
     "old": "logits.astype(np.float64) / temperature", "new": "logits.astype(np.float64)",
     "caught": "test-token-shares: temperature 2: square roots", "says": "the temperature is ignored"},
    {"name": "rounded-to-float32", "cell": "token-shares",
     "old": "softmax(logits.astype(np.float64) / temperature).numpy()", "new": "softmax(logits / temperature).numpy()",
     "caught": "test-token-shares: a float64 array", "says": "rounded to float32"},
    {"name": "end-belongs-to-the-next", "cell": "sample",
     "old": "(ends <= u * ends", "new": "(ends < u * ends",
     "caught": "test-sample: darts at 0, 0.24, 0.25, 0.49, 0.5, 0.99",
     "says": "the end itself belongs to the next token"},
    {"name": "largest-always", "cell": "sample",
     "old": "return (ends <= u * ends[..., -1:]).sum(axis=-1)", "new": "return shares.argmax(axis=-1)",
     "caught": "test-sample: darts at 0, 0.24, 0.25, 0.49, 0.5, 0.99", "says": "the largest share is always taken"},
    {"name": "past-the-end", "cell": "sample",
     "old": "u * ends[..., -1:]", "new": "u",
     "caught": "test-sample: totals that miss 1", "says": "past the end"},
    {"name": "temperature-does-not-reach", "cell": "sample",
     "old": "token_shares(logits, temperature)", "new": "token_shares(logits, 1.0)",
     "caught": "test-sample: a high temperature evens out", "says": "does not reach the shares"},
    {"name": "first-position", "cell": "extend",
     "old": "[..., -1, :]", "new": "[..., 0, :]",
     "caught": "test-extend: two rows at temperature 0", "says": "the first position's scores"},
    {"name": "no-window", "cell": "extend",
     "old": "ids[..., -model.max_seq_len:]", "new": "ids",
     "caught": "test-extend: what it read last", "says": "more than max_seq_len"},
    {"name": "the-first-tokens", "cell": "extend",
     "old": "ids[..., -model.max_seq_len:]", "new": "ids[..., : model.max_seq_len]",
     "caught": "test-extend: two rows at temperature 0"},
    {"name": "only-the-newest", "cell": "extend",
     "old": "ids[..., -model.max_seq_len:]", "new": "ids[..., -1:]",
     "caught": "test-extend: what it read last", "says": "only the newest token"},
    {"name": "in-training-mode", "cell": "extend",
     "old": "with in_mode(model, False), no_grad():", "new": "with no_grad():",
     "caught": "test-extend: while it writes, is it in training?", "says": "it reads in training mode"},
    {"name": "with-a-graph", "cell": "extend",
     "old": "with in_mode(model, False), no_grad():", "new": "with in_mode(model, False):",
     "caught": "test-extend: no graph is kept", "says": "no_grad() is missing"},
    {"name": "not-shifted", "cell": "next-token-pairs",
     "old": "tokens[..., :-1], tokens[..., 1:]", "new": "tokens[..., :-1], tokens[..., :-1]",
     "caught": "test-next-token-pairs: targets", "says": "that is what was just read"},
    {"name": "shifted-the-wrong-way", "cell": "next-token-pairs",
     "old": "tokens[..., :-1], tokens[..., 1:]", "new": "tokens[..., 1:], tokens[..., :-1]",
     "caught": "test-next-token-pairs: inputs", "says": "the wrong way round"},
]

RIGHT = [
    {"name": "norm-by-a-power", "cell": "layer-norm", "code": '''
#| export
class LayerNorm(Layer):
    """Normalize each position over its features, then scale and shift: x (..., embed_dim) -> the same shape."""

    def __init__(self, embed_dim, eps=1e-5):
        self.embed_dim, self.eps = positive("embed_dim", embed_dim), nonnegative("eps", eps)
        self.weight, self.bias = ones(self.embed_dim), zeros(self.embed_dim)

    def forward(self, x):
        """Return (x - mean) / sqrt(variance + eps) * weight + bias, mean and variance over the last axis."""
        check_features(x, self.embed_dim)
        centred = x - x.sum(axis=-1, keepdims=True) / self.embed_dim
        spread = (centred**2).sum(axis=-1, keepdims=True) / self.embed_dim + self.eps
        return self.bias + self.weight * (centred * spread**-0.5)

    def __repr__(self):
        return f"LayerNorm({self.embed_dim})"
'''},
    {"name": "parameters-part-by-part", "cell": "gpt-parameters", "code": '''
def gpt_parameters(vocab_size, embed_dim, num_layers, max_seq_len):
    """Count the parameters of a GPT with a tied head."""
    def linear(n, m):
        return n * m + m

    norm = 2 * embed_dim
    attention = 4 * linear(embed_dim, embed_dim)
    mlp = linear(embed_dim, 4 * embed_dim) + linear(4 * embed_dim, embed_dim)
    return vocab_size * embed_dim + max_seq_len * embed_dim + num_layers * (attention + mlp + 2 * norm) + norm
'''},
    {"name": "draw-row-by-row", "cell": "sample", "code": '''
#| export
def draw(shares, rng):
    """Draw a token from each row of shares: an array (..., V) -> int64 (...), one ``rng.random`` number a row."""
    rows = np.reshape(shares, (-1, shares.shape[-1]))
    darts = np.ravel(rng.random(shares.shape[:-1]))
    found = []
    for row, dart in zip(rows, darts):
        ends = np.cumsum(row)
        found.append(np.searchsorted(ends, dart * ends[-1], side="right"))
    return np.array(found, dtype=np.int64).reshape(shares.shape[:-1])


def sample(logits, temperature=1.0, rng=None):
    """Choose a token by each row of scores: logits (..., V) -> int64 array (...)."""
    logits, temperature = checked_logits(logits), checked_temperature(temperature)
    if temperature > 0:
        return draw(token_shares(logits, temperature), generator(rng))
    return np.argmax(logits.data, axis=-1)
'''},
]

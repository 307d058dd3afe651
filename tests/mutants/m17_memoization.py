"""Wrong and right solutions of module 17, as small edits of the reference."""

WRONG = [
    {"name": "reads-the-last-one-too", "cell": "tokens-read",
     "old": "range(prompt_length, prompt_length + max_new_tokens)",
     "new": "range(prompt_length + 1, prompt_length + max_new_tokens + 1)",
     "caught": "test-tokens-read: 3 and 4 new, window 100", "says": "counted from the first new token on"},
    {"name": "prompt-is-free", "cell": "tokens-read",
     "old": "cached and prompt_length < length <= max_seq_len", "new": "cached and length <= max_seq_len",
     "caught": "test-tokens-read: the same, cached", "says": "the prompt must be read, too"},
    {"name": "the-window-forgotten", "cell": "tokens-read",
     "old": "min(length, max_seq_len)", "new": "length",
     "caught": "test-tokens-read: window 5", "says": "no more than the window"},
    {"name": "cached-for-ever", "cell": "tokens-read",
     "old": "cached and prompt_length < length <= max_seq_len", "new": "cached and prompt_length < length",
     "caught": "test-tokens-read: window 5, cached", "says": "all positions change"},
    {"name": "keys-only", "cell": "kv-cache-bytes",
     "old": "2 * num_layers", "new": "num_layers",
     "caught": "test-kv-cache-bytes: 1 layer, 1 text, 2 heads, 3 tokens, 4 numbers", "says": "keys and values"},
    {"name": "numbers-not-bytes", "cell": "kv-cache-bytes",
     "old": " * np.dtype(dtype).itemsize", "new": "",
     "caught": "test-kv-cache-bytes: 1 layer, 1 text, 2 heads, 3 tokens, 4 numbers", "says": "not bytes"},
    {"name": "always-float32", "cell": "kv-cache-bytes",
     "old": "np.dtype(dtype).itemsize", "new": "4",
     "caught": "test-kv-cache-bytes: a batch of 5 texts, 6 layers, float16", "says": "the dtype is not asked"},
    {"name": "position-of-the-first-layer", "cell": "kv-cache",
     "old": "min(self._lengths)", "new": "self._lengths[0]",
     "caught": "test-kv-cache: the position, when one of two layers has written", "says": "every layer must"},
    {"name": "all-places", "cell": "kv-cache",
     "old": "[:, :, :stop]", "new": "[:, :, :]",
     "caught": "test-kv-cache: what layer 0 gets back", "says": "the empty places, too"},
    {"name": "nothing-stored", "cell": "kv-cache",
     "old": "            store(new, place=buffer[:, :, start:stop])\n", "new": "",
     "caught": "test-kv-cache: what layer 0 gets back", "says": "nothing was stored"},
    {"name": "length-not-noted", "cell": "kv-cache",
     "old": "        self._lengths[layer] = stop\n", "new": "        pass\n",
     "caught": "test-kv-cache: how many tokens each layer holds", "says": "not noted"},
    {"name": "only-the-new-ones", "cell": "kv-cache",
     "old": "[:, :, :stop]", "new": "[:, :, start:stop]",
     "caught": "test-kv-cache: one more for layer 0", "says": "only the new ones come back"},
    {"name": "written-at-the-start", "cell": "kv-cache",
     "old": "buffer[:, :, start:stop]", "new": "buffer[:, :, :stop - start]",
     "caught": "test-kv-cache: one more for layer 0", "says": "written at place 0"},
    {"name": "nothing-forgotten", "cell": "kv-cache",
     "old": "self._lengths = [int(length)] * len(self._lengths)", "new": "pass",
     "caught": "test-kv-cache: truncated to 1, while layer 0 was one ahead", "says": "nothing was forgotten"},
    {"name": "only-one-layer-forgets", "cell": "kv-cache",
     "old": "self._lengths = [int(length)] * len(self._lengths)", "new": "self._lengths[-1] = int(length)",
     "caught": "test-kv-cache: how many tokens each layer holds now", "says": "every layer"},
    {"name": "always-read-in-float32", "cell": "kv-cache",
     "old": "Tensor(buffer, dtype=buffer.dtype)", "new": "Tensor(buffer)",
     "caught": "tests: test_kv_cache.py::test_types"},
    {"name": "only-the-new-are-seen", "cell": "cached-attention",
     "old": "keys, values = self.cache.write(self.layer, key, value)",
     "new": "keys, values = (self.cache.write(self.layer, key, value), (key, value))[1]",
     "caught": "test-cached-attention: two more: second text", "says": "only the new keys are looked at"},
    {"name": "not-causal", "cell": "cached-attention",
     "old": "attention_weights(query, keys, is_causal=True)", "new": "attention_weights(query, keys)",
     "caught": "test-cached-attention: the prompt's second token: second text", "says": "is_causal=True"},
    {"name": "out-proj-missing", "cell": "cached-attention",
     "old": "own.out_proj(join_heads(weights @ values))", "new": "join_heads(weights @ values)",
     "caught": "test-cached-attention: the prompt's second token: second text", "says": "out_proj is missing"},
    {"name": "values-through-k-proj", "cell": "cached-attention",
     "old": "(own.q_proj, own.k_proj, own.v_proj)", "new": "(own.q_proj, own.k_proj, own.k_proj)",
     "caught": "test-cached-attention: the prompt's second token: second text", "says": "went through k_proj"},
    {"name": "rows-from-the-start", "cell": "cached-positions",
     "old": "weight[start:stop]", "new": "weight[:stop - start]",
     "caught": "test-cached-positions: after three tokens", "says": "from the start of the table"},
    {"name": "counts-what-agrees", "cell": "common-prefix",
     "old": "return length if same.all() else int(same.argmin())", "new": "return int(same.sum())",
     "caught": "test-common-prefix: agreeing again later", "says": "from another past"},
    {"name": "argmin-of-all-true", "cell": "common-prefix",
     "old": "length if same.all() else int(same.argmin())", "new": "int(same.argmin())",
     "caught": "test-common-prefix: a text that goes on", "says": "ask .all() first"},
    {"name": "half-read-tokens-stay", "cell": "cached-gpt",
     "old": "            self.cache.truncate(before)\n            raise\n",
     "new": "            raise\n",
     "caught": "test-cached-gpt: the position after that", "says": "truncate(before)"},
    {"name": "interrupts-pass", "cell": "cached-gpt",
     "old": "except BaseException:", "new": "except Exception:",
     "caught": "tests: test_cached_gpt.py::test_after_an_error_all_is_as_before"},
    {"name": "all-logits", "cell": "cached-gpt",
     "old": "self.read(rows[:, known:])[:, -1:]", "new": "self.read(rows[:, known:])",
     "caught": "test-cached-gpt: a text of three: tokens read, shape, as the model's own",
     "says": "want the last position's"},
    {"name": "all-read-again", "cell": "cached-gpt",
     "old": "known = min(known, rows.shape[1] - 1)", "new": "known = 0",
     "caught": "test-cached-gpt: one more", "says": "all is read again"},
    {"name": "one-token-is-read", "cell": "cached-gpt",
     "old": "known = min(known, rows.shape[1] - 1)", "new": "known = min(self.cache.position, rows.shape[1] - 1)",
     "caught": "test-cached-gpt: another third token", "says": "was not forgotten"},
    {"name": "nothing-is-forgotten-first", "cell": "cached-gpt",
     "old": "        self.cache.truncate(known)\n        logits", "new": "        logits",
     "caught": "test-cached-gpt: the same again: the last one is read"},
    {"name": "all-is-forgotten-after-an-error", "cell": "cached-gpt",
     "old": "            self.cache.truncate(before)\n            raise\n",
     "new": "            self.cache.truncate(0)\n            raise\n",
     "caught": "test-cached-gpt: the position after that", "says": "what was there before is still right"},
    {"name": "the-decoder-remembers-nothing", "cell": "token-flops",
     "old": "        if length > 1:\n", "new": "        if length < 1:\n",
     "caught": "test-token-flops: behind 2 tokens", "says": "nothing was remembered"},
    {"name": "two-numbers-exchanged", "cell": "token-flops",
     "old": "return again, count_flops(decoder, (1, length))",
     "new": "return count_flops(decoder, (1, length)), again",
     "caught": "test-token-flops: behind 2 tokens", "says": "the plain model first"},
    {"name": "weights-need-no-room", "cell": "texts-that-fit",
     "old": "(memory_bytes - weight_bytes)", "new": "memory_bytes",
     "caught": "test-texts-that-fit: GPT-3, 640 GB, float16", "says": "the weights must fit, too"},
    {"name": "less-than-none", "cell": "texts-that-fit",
     "old": "max(0, (memory_bytes", "new": "max(-9, (memory_bytes",
     "caught": "test-texts-that-fit: no room for the weights", "says": "less than none"},
]

RIGHT = [
    {"name": "by-closed-form", "cell": "tokens-read", "code": '''
#| export
def tokens_read(prompt_length, max_new_tokens, max_seq_len, cached=False):
    """Count the tokens a model reads."""
    lengths = [prompt_length + i for i in range(max_new_tokens)]
    if not cached:
        return sum(min(n, max_seq_len) for n in lengths)
    return sum(min(n, max_seq_len) if i == 0 or n > max_seq_len else 1 for i, n in enumerate(lengths))
'''},
    {"name": "position-of-the-last-layer", "cell": "kv-cache", "code": '''
#| export
class KVCache(CacheBuffers):
    """The layers write in turn, so what every layer holds is what the last one holds."""

    @property
    def position(self):
        """How many tokens every layer holds."""
        return self._lengths[-1]

    def write(self, layer, key, value):
        """Keep a layer's new keys and values; return all so far."""
        start, stop = self.checked_place(layer, key, value)
        kept = []
        for buffer, new in ((self.keys[layer], key), (self.values[layer], value)):
            place = np.moveaxis(buffer, 2, 0)[start:stop]
            store(new, place=np.moveaxis(place, 0, 2))
            so_far = Tensor(buffer[..., :stop, :], dtype=buffer.dtype)
            kept.append(so_far if so_far.dtype == new.dtype else so_far.astype(new.dtype))
        self._lengths[layer] += key.shape[2]
        return tuple(kept)

    def truncate(self, length):
        """Forget all but the first tokens."""
        if whole("length", length, 0) > self.position:
            raise ValueError(f"truncate to {length} tokens: the cache holds {self.position}; it can only forget")
        for layer in range(len(self._lengths)):
            self._lengths[layer] = int(length)
'''},
    {"name": "attention-in-single-steps", "cell": "cached-attention", "code": '''
#| export
class CachedAttention(Layer):
    """Self-attention that reads only the new tokens."""

    def __init__(self, attention, cache, layer):
        """Share the projections of ``attention``."""
        self.attention, self.cache, self.layer = attention, cache, layer

    def forward(self, x, mask=None, is_causal=True):
        """Attend from the new tokens to all so far."""
        if mask is not None or not is_causal:
            raise ValueError("a cached token was computed without the later ones; want is_causal=True and no mask")
        own = self.attention
        new_keys = split_heads(own.k_proj(x), own.num_heads)
        new_values = split_heads(own.v_proj(x), own.num_heads)
        found = self.cache.write(self.layer, new_keys, new_values)
        query = split_heads(own.q_proj(x), own.num_heads)
        return own.out_proj(join_heads(attention_weights(query, found[0], None, True) @ found[1]))
'''},
    {"name": "prefix-by-a-loop", "cell": "common-prefix", "code": '''
#| export
def common_prefix(known, tokens):
    """Return how many leading columns are equal in all rows."""
    count = 0
    while count < min(known.shape[1], tokens.shape[1]) and np.array_equal(known[:, count], tokens[:, count]):
        count += 1
    return count
'''},
]

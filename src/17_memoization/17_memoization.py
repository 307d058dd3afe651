# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 17 · Memoization

Tier: Optimization · Difficulty 3 of 4 · About 3 hours · Needs 10 to 13 (`tito test tokenization`, `tito test embeddings`, `tito test attention`, `tito test transformers`) and 14, whose Profiler measures everything here (`tito test profiling`)

Your GPT writes a text token by token, and for each token it reads the whole text again. A function that is asked the same thing twice can *remember* its answer; that is memoization, and for a GPT the answers worth remembering are the keys and values of its attention. They live in the **KV cache**, and no language model
is served without one.

**Build** a cache that cannot be advanced wrongly, an attention that reads only new tokens, a GPT that remembers what it has read → **use** them to write the same texts with a fraction of the work → **reflect** on what the fraction costs in memory, and when it is no fraction at all.

When you are done you can
1. say which intermediate results of a causal model can be kept, and prove that they do not change;
2. write a cache with fixed memory whose position follows from its contents;
3. generate the same tokens as Module 13, and say why "the same" does not mean "to the bit";
4. show in a profile how the cost of a token grows with the length of the text, with the cache and without;
5. compute what a cache costs GPT-3, and how many texts fit beside its weights.

Yours: the counting of what is read, the cache, cached attention and positions, the decoder, its FLOPs, the memory of large models. Given and explained: the cache's buffers and refusals, a copy of the model that shares its weights, the doorman `generate`.

A cell you have not filled says which one it is: `tokens_read: section 1, cell 5` is the function `tokens_read` in the fifth code cell of section 1.
"""

# %%
#| default_exp perf.memoization

# %%
from tito.needs import needs_profiler

needs_profiler()

# %%
#| export
from copy import copy, deepcopy

import numpy as np

from tinytorch.core import transformers
from tinytorch.core.attention import MultiHeadAttention, attention_weights, join_heads, split_heads
from tinytorch.core.autograd import no_grad, no_gradient
from tinytorch.core.embeddings import PositionalEncoding, token_ids
from tinytorch.core.layers import Layer, named_tensors, positive
from tinytorch.core.tensor import Tensor, hollow, is_shape_only, op, shape_only
from tinytorch.core.training import in_mode
from tinytorch.core.transformers import GPT, prompt_ids
from tinytorch.perf.profiling import count_flops, free, whole

# %% [markdown]
"""
## 1. Profile first

**Question.** Where does the time go while a GPT writes?

A small one first has to learn to write. Two blocks of 48 features, a window of 64 characters, one short text; a second or two of training, as in Module 13:
"""

# %%
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tokenization import CharTokenizer
from tinytorch.core.training import Trainer
from tinytorch.core.transformers import next_token_pairs
from tinytorch.perf.profiling import Profiler

story = "the clerk keeps a book. each word that is read goes into the book, and no word is read twice. when the king asks for the next word, the clerk reads the last word only. "
tokenizer = CharTokenizer(story)
ids, rng = np.array(tokenizer.encode(story)), np.random.default_rng(0)
writer = GPT(tokenizer.vocab_size, 48, 2, 4, max_seq_len=64, dropout_prob=0.0, rng=rng)
pieces = np.lib.stride_tricks.sliding_window_view(ids, 65)
batches, losses = [next_token_pairs(pieces[rng.integers(0, len(pieces), 4)]) for _ in range(100)], []
with Profiler() as training:
    Trainer(writer, AdamW(writer.parameters(), 0.01), CrossEntropyLoss(), grad_clip_norm=1.0).fit(batches, 1, on_batch=lambda progress: losses.append(progress.loss))
prompt = tokenizer.encode("the clerk ")
print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f} in {training.elapsed / 1000:.1f} s; it writes:", tokenizer.decode(writer.generate(prompt, 50, temperature=0)))

# %% [markdown]
"""
Now your Profiler looks on while the text grows. What does the *next* token cost when 8, 16, 32, 64 are there already?
"""

# %%
profiler, text = Profiler(), ids[:64]
writer.eval()
print("tokens there   FLOPs for the next one   milliseconds")
for length in (8, 16, 32, 64):
    ms = profiler.measure_latency(writer, Tensor(text[None, :length]), warmup=2, iterations=10)
    print(f"{length:12} {profiler.count_flops(writer, (1, length)):24,} {ms:14.2f}")

# %% [markdown]
"""
The text is twice as long, and the next token costs more than twice the FLOPs, although it is *one* token each time. (The clock sees less of that: with so little arithmetic most of the time is the ops' own overhead. Section 7 comes back to it.) By layer, behind 64 tokens:
"""

# %%
print(profiler.flop_report(writer, (1, 64)))

# %% [markdown]
"""
Every layer has 64 rows to work on, and 63 of them were there when the 63rd token was chosen, and 62 when the 62nd was. The profile does not name a slow layer. It names *work that has been done before*.

How much is that for a whole text? A model with a window of `max_seq_len` tokens (64 here) reads, for each new token, what is there: the prompt, then one more each time. Once the text is longer than the window, it reads the last `max_seq_len`. If everything could be remembered, it would read the prompt once, for the first new
token, and then only the one token that has come since.

There is one catch, which you know from Module 13. The GPT's positions are *absolute*: the first token it reads gets row 0 of a table added, the next row 1. When the window slides by one, every token in it moves to another place, gets another row, and everything computed about it is void. So beyond the window a remembering model reads
the whole window for each token, like the other.

**Task.** Write `tokens_read(prompt_length, max_new_tokens, max_seq_len, cached=False)`: how many tokens are read in all. When the next token is chosen, `length` tokens are there: `prompt_length` at first, `prompt_length + 1` then, and so on, `max_new_tokens` times. Read are

- without a cache: `length`, or `max_seq_len` if that is less;
- cached, at first: the same;
- cached, afterwards: 1 as long as `length` is not above `max_seq_len`; from then on `max_seq_len`.

Example: a prompt of 3, 4 new tokens, a window of 100. Without: 3 + 4 + 5 + 6 = 18. Cached: 3 + 1 + 1 + 1 = 6. With a window of 5: 3 + 4 + 5 + 5 = 17 and 3 + 1 + 1 + 5 = 10.

<details><summary>Hint 1: idea</summary>
One loop over the lengths, one sum. Decide for each length whether it is a 1.
</details>
<details><summary>Hint 2: approach</summary>
<code>for length in range(prompt_length, prompt_length + max_new_tokens):</code> A 1 needs three things: cached, not the first, still inside the window.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
A prompt of 9, three new tokens, a window of 4: the prompt alone is too long. Both read 4 + 4 + 4 = 12; a cache helps nothing here.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "tokens-read", "solution": true}
#| export
def tokens_read(prompt_length, max_new_tokens, max_seq_len, cached=False):
    """Count the tokens a model reads for ``max_new_tokens`` new ones: the whole window each time, or, cached, the new.

    Once the text is longer than ``max_seq_len`` the window slides, every token changes its position, and the whole
    window is read again for each token, cached or not (a text that repeats itself may keep some).
    """
    ### BEGIN SOLUTION
    total = 0
    for length in range(prompt_length, prompt_length + max_new_tokens):
        new = cached and prompt_length < length <= max_seq_len
        total += 1 if new else min(length, max_seq_len)
    return total
    ### END SOLUTION

# %%
for new in (16, 54, 118):
    plain, kept = (tokens_read(10, new, 64, cached=cached) for cached in (False, True))
    print(f"a prompt of 10 and {new:3} new tokens: {plain:5,} tokens read, or {kept:5,}: {plain / kept:.1f} times fewer")

# %% nbgrader={"grade": true, "grade_id": "test-tokens-read", "points": 8, "skill": "counting"}
from tito.checks import check, check_raises


def test_tokens_read():
    """The examples, the window, nothing to write."""
    check("3 and 4 new, window 100", tokens_read(3, 4, 100), 18, {
        22: "counted from the first new token on: at first only the prompt is there", 25: "one too many: the last token is chosen and never read", 7: "each token once: that is the cached way, and even it does not read the last one"})
    check("the same, cached", tokens_read(3, 4, 100, cached=True), 6, {
        7: "the last token is chosen and never read", 4: "the prompt must be read, too: all of it, at first", 18: "cached makes no difference: want 1 for every token after the first", 3: "the chosen tokens are read, too, one each time"})
    check("window 5", tokens_read(3, 4, 5), 17, {18: "no more than the window is read at a time"})
    check("window 5, cached", tokens_read(3, 4, 5, cached=True), 10, {
        6: "when the window slides, all positions change: the whole window is read again", 14: "a text of just 5 still fits: the window has not slid yet"})
    check("a prompt longer than the window, cached", tokens_read(9, 3, 4, cached=True), 12, {6: "nothing can be kept when the window slides from the start", 17: "the prompt is cut to the window, too", 11: "the prompt is cut to the window, too"})
    check("nothing to write", (tokens_read(3, 0, 5), tokens_read(3, 0, 5, cached=True)), (0, 0), {(0, 3): "without a token to choose nothing is read"})
    check("1,000 and 100 new", (tokens_read(1000, 100, 2048), tokens_read(1000, 100, 2048, cached=True)), (104_950, 1_099))


test_tokens_read()

# %% [markdown]
"""
Without a cache the sum grows like the *square* of the text (10 + 11 + 12 + …); cached, it grows like the text, until the window slides. Then the advantage does not shrink slowly: it ends.

## 2. What can be kept

**Question.** Which results of an old token are the same when a new one has come?

Try it. Change the last token of a text, and look at every block's keys and values at the places *before* it. `places_that_move` runs the blocks one by one, once causal, as a GPT does, once without the mask:
"""

# %%
def places_that_move(model, tokens, changed, is_causal):
    """For each block: how far the keys and values at all places but the last differ between two texts."""
    found, streams = [], [model.position_embedding(model.token_embedding(Tensor(t[None]))) for t in (tokens, changed)]
    for block in model.blocks:
        seen = [block.ln1(x) for x in streams]
        found.append([float(np.abs(project(seen[0]).data - project(seen[1]).data)[:, :-1].max()) for project in (block.attention.k_proj, block.attention.v_proj)])
        streams = [block(x, is_causal=is_causal) for x in streams]
    return found


changed = text.copy()
changed[-1] = (changed[-1] + 1) % tokenizer.vocab_size
with no_grad():
    for is_causal in (True, False):
        for number, (key, value) in enumerate(places_that_move(writer, text, changed, is_causal)):
            print(f"{'causal' if is_causal else 'no mask':>8}, block {number}: keys of the 63 earlier places move by {key:.2g}, values by {value:.2g}")

# %% [markdown]
"""
With the causal mask nothing moves, in no block, not by a bit: the earlier places have not seen the change. Without the mask the first block's keys still stand (they are made of each token alone), but everything after its attention moves. **A KV cache is right because the model is causal.** A BERT, which looks both ways, has none.

What must be kept of an old token? Follow the *new* one through a block. Its norm, projections and MLP need its own row only. Its attention needs

```
scores = query of the new token · key of EVERY token        so: all keys
mixed  = weights · value of EVERY token                     so: all values
```

and nothing else. Old queries asked long ago, and were answered. So for each block, each head and each token two vectors of `dk` numbers are kept.

## 3. The cache

**Question.** How much memory is that, and how is it laid out?

For each of `num_layers` blocks two arrays, one of keys and one of values, `(batch, num_heads, max_len, head_dim)`, with room for the longest text from the start.

**Task.** Write `kv_cache_bytes(num_layers, batch, num_heads, max_len, head_dim, dtype=np.float32)`: the bytes of all of them. `np.dtype(dtype).itemsize` is the width of a number.

Example: 1 layer, 1 text, 2 heads, 3 tokens, 4 numbers a head, float32: 2 · 1 · 1 · 2 · 3 · 4 · 4 = 192.

<details><summary>Hint 1: idea</summary>
Keys <em>and</em> values: a product of seven numbers.
</details>
<details><summary>Hint 2: approach</summary>
The shape of one array, times 2, times the layers, times the width.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
12 layers, 1 text, 12 heads, <em>one</em> token, 64 numbers, float16: 2 · 12 · 12 · 64 · 2 = 36,864 bytes for each token.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "kv-cache-bytes", "solution": true}
#| export
def kv_cache_bytes(num_layers, batch, num_heads, max_len, head_dim, dtype=np.float32):
    """Return the bytes of a cache: a key and a value of ``head_dim`` numbers for each layer, text, head and token."""
    ### BEGIN SOLUTION
    return 2 * num_layers * batch * num_heads * max_len * head_dim * np.dtype(dtype).itemsize
    ### END SOLUTION

# %%
heads = writer.blocks[0].attention.num_heads
print(f"this writer: {kv_cache_bytes(2, 1, heads, 64, 48 // heads):,} bytes; its weights: {sum(p.nbytes for p in writer.parameters()):,}")

# %% nbgrader={"grade": true, "grade_id": "test-kv-cache-bytes", "points": 6, "skill": "counting"}
def test_kv_cache_bytes():
    """Each factor counts."""
    check("1 layer, 1 text, 2 heads, 3 tokens, 4 numbers", kv_cache_bytes(1, 1, 2, 3, 4), 192, {
        96: "keys and values: two arrays", 48: "numbers, not bytes", 24: "numbers of one array, not bytes of two", 384: "a float32 has 4 bytes, not 8"})
    check("GPT-2 small, one text of 1,024", kv_cache_bytes(12, 1, 12, 1024, 64), 75_497_472, {6_291_456: "a cache for every layer"})
    check("a batch of 5 texts, 6 layers, float16", kv_cache_bytes(6, 5, 2, 10, 4, np.float16), 9_600, {19_200: "the dtype is not asked: float16 has 2 bytes", 1_920: "every text has keys of its own"})
    check("float64", kv_cache_bytes(1, 1, 1, 1, 1, np.float64), 16)


test_kv_cache_bytes()

# %% [markdown]
"""
**Why room from the start?** The obvious way is to glue each new key to those before it, `concatenate([old, new])`. But that makes a new array each time, and copies everything old into it. Listen to what moves for one layer's keys (4 heads of 12 numbers) while 64 tokens come, one by one:
"""

# %%
from tinytorch.core.tensor import concatenate
from tinytorch.perf.profiling import event_bytes, observe

token = Tensor(np.ones((1, 4, 1, 12), np.float32))
grown, moved = token, 0
for _ in range(63):
    events, grown = observe(lambda grown=grown: concatenate(grown, token, axis=2))
    moved += sum(map(event_bytes, events))
print(f"gluing moves {moved:,} bytes to keep {grown.nbytes:,}; written once into their place, they would move {2 * grown.nbytes:,}")

# %% [markdown]
"""
So new keys are *written into* an array that is there already. Every computation of this framework passes an op, so that profiles see it; writing is no exception. Given: the op `store(new, place=...)`, which copies `new` into `place`, a piece of an array of the same shape, and gives the piece back. It reads `new` and writes the place:
that is all that moves. It costs no FLOPs (`free`) and no gradient passes it (`no_gradient`): a cache is for writing texts, not for training.
"""

# %%
#| export
def place_shape(new, place):
    """Return the shape of ``new``; ``ValueError`` unless the place has the same: nothing stretches here."""
    if tuple(new) != place.shape:
        raise ValueError(f"{tuple(new)} into a place of {place.shape}: want the same shape")
    return place.shape


@op(shape=place_shape, dtype=lambda new, place: place.dtype)
def store(new, place):
    """Copy ``new`` into ``place``, an array of the same shape, in the place's own type, and return the place.

    Moves what it says: ``new`` is read, the place is written. On shapes nothing is written.
    """
    place_shape(new.shape, place)  # raises; NumPy would stretch
    place[...] = new
    return place


no_gradient(store)
free(store)

# %%
room = np.zeros((1, 4, 64, 12), np.float32)
events, _ = observe(lambda: store(token, place=room[:, :, 5:6]))
print(f"{events[0].op.name}: {events[0].num_bytes} bytes moved; place 5 of head 0 is now", room[0, 0, 5, :4], "and place 6", room[0, 0, 6, :4])

# %% [markdown]
"""
**What goes wrong with caches** is nearly always the *position*. A cache that is told "advance by one" by its caller can be told so twice, or between two layers, or not at all after an error; then a token stands in the wrong place, and the model still writes, only worse. So here nobody tells it. Each layer says what *it* has written, and the position is
what **all** layers hold.

Given: `CacheBuffers`, the memory and all refusals. For you it has

- `self.keys[layer]` and `self.values[layer]`: NumPy arrays `(batch, num_heads, max_len, head_dim)`;
- `self._lengths`: a list, how many tokens each layer holds;
- `self.checked_place(layer, key, value)`, which returns `(start, stop)`, the places of what is about to be written, or raises before anything is changed: the layers write in turn, 0, 1, 2, …, each as many tokens as the first, in the right shape, and not beyond the end.

A cache made under `shape_only()` is hollow like everything there, so that GPT-3's can be made on a laptop.
"""

# %%
#| export
def fits_into(tensor, dtype):
    """Say whether all finite numbers of a Tensor stay finite as ``dtype``; on shapes there is nothing to look at."""
    largest = np.finfo(dtype).max
    if is_shape_only() or (tensor.dtype.kind == "f" and np.finfo(tensor.dtype).max <= largest):
        return True
    return not (np.isfinite(tensor.data) & (np.abs(tensor.data) > largest)).any()


class CacheBuffers:
    """The memory of a cache, and what it refuses: per layer keys and values (batch, num_heads, max_len, head_dim).

    ``dtype``: a floating type, else a ``TypeError``. Made under ``shape_only()`` the arrays are hollow: right in size,
    nothing in memory.
    """

    def __init__(self, num_layers, batch, num_heads, max_len, head_dim, dtype=np.float32):
        self.shape = (whole("batch", batch, 0), positive("num_heads", num_heads), positive("max_len", max_len),
                      positive("head_dim", head_dim))
        self.dtype = np.dtype(dtype)
        if self.dtype.kind != "f":
            raise TypeError(f"the cache's dtype is {self.dtype}; want a floating type, such as float32 or float16")
        make, layers = hollow if is_shape_only() else np.zeros, range(positive("num_layers", num_layers))
        self.keys, self.values = ([make(self.shape, self.dtype) for _ in layers] for _ in range(2))
        self._lengths = [0] * len(layers)  # how many tokens each layer holds
        self._noted = 0  # of how many it is noted which tokens they are; who writes elsewhere, voids that

    @property
    def nbytes(self):
        """Return the bytes of all buffers, full or not."""
        return sum(array.nbytes for array in (*self.keys, *self.values))

    def room_for(self, count):
        """Return (start, stop), the places of the next ``count`` tokens; ``ValueError`` when they do not fit."""
        start, stop = self.position, self.position + whole("count", count, 1)
        if stop > self.shape[2]:
            raise ValueError(f"{count} more after {start} tokens: the cache has room for {self.shape[2]}; "
                             "make it longer, or truncate it")
        return start, stop

    def checked_place(self, layer, key, value):
        """Return (start, stop) of what ``layer`` is about to write.

        ``TypeError``: no Tensor, or one that wants a gradient. ``ValueError``: out of turn, a wrong shape, no room.
        """
        turn = sum(length > self.position for length in self._lengths)
        if isinstance(layer, bool) or not isinstance(layer, (int, np.integer)) or layer != turn:
            raise ValueError(f"layer {layer!r} wants to write, but it is the turn of layer {turn}, "
                             f"after {self.position} tokens")
        for name, new in (("key", key), ("value", value)):
            if not isinstance(new, Tensor) or new.requires_grad:
                kind = "a Tensor that wants a gradient" if isinstance(new, Tensor) else f"a {type(new).__name__}"
                raise TypeError(f"the {name} is {kind}; want a Tensor of numbers: run the model inside no_grad()")
            want = (*self.shape[:2], "n", self.shape[3])
            if new.ndim != 4 or new.shape != key.shape or (*new.shape[:2], new.shape[3]) != (*want[:2], want[3]):
                raise ValueError(f"key {key.shape} and value {value.shape}: want both ({', '.join(map(str, want))})")
            if not fits_into(new, self.dtype):
                raise ValueError(f"the {name} has numbers too large for {self.dtype}; give the cache a wider dtype")
        start, stop = self.room_for(key.shape[2])
        if turn and stop != self._lengths[0]:
            raise ValueError(f"layer {layer} brings {key.shape[2]} tokens and layer 0 brought "
                             f"{self._lengths[0] - start}; want the same number from every layer")
        self._noted = min(self._noted, start)
        return start, stop

    def __repr__(self):
        return f"{type(self).__name__}({len(self.keys)} layers of {self.shape} {self.dtype}, {self.position} tokens)"

# %% [markdown]
"""
**Task.** Three pieces of `KVCache`.

- `position`: how many tokens *every* layer holds. While layer 0 has already written a new token and layer 1 has not, that token does not count.
- In `write`, inside the loop (once for the keys, once for the values; `buffer` is the whole array, `new` what is to be kept): `store` the new ones at the places `start` to `stop` of axis 2, then make `so_far`, a Tensor that shows all that this layer holds: `(B, h, stop, dk)`. `Tensor(buffer, dtype=buffer.dtype)` shares the array's memory, and slicing it
  moves nothing. After the loop: note in `self._lengths` how many tokens this layer holds now.
- `truncate(length)`: after it *every* layer holds `length` tokens. Nothing needs to be erased: what lies behind the length is overwritten by whoever comes next.

Example: a cache of two layers, empty. `write(0, key, value)` with 3 tokens: start 0, stop 3, and the position is still 0. After `write(1, …)` with its 3 it is 3. One more token in each: start 3, stop 4, and each layer gets back four keys and four values.

<details><summary>Hint 1: idea</summary>
The position is the smallest of the lengths. A slice of an array is a place: <code>store</code> fills it.
</details>
<details><summary>Hint 2: approach</summary>
Places are axis 2, so both slices begin with two full ones: <code>[:, :, start:stop]</code> of the buffer for writing, <code>[:, :, :stop]</code> of the Tensor for reading.
</details>
<details><summary>Hint 3: worked example, a simpler thing</summary>
A diary with numbered pages, of which 5 are full: two new pages go to <code>pages[5:7]</code>, the diary so far is <code>pages[:7]</code>, and "full" becomes 7. To forget the last three, "full" becomes 4; the ink may stay.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "kv-cache", "solution": true}
#| export
class KVCache(CacheBuffers):
    """The keys and values of the tokens read so far: ``KVCache(num_layers, batch, num_heads, max_len, head_dim)``.

    Nobody advances it: ``position`` follows from what the layers have written, each in its turn. A write that does
    not fit raises and leaves everything as it was.
    """

    @property
    def position(self):
        """Return how many tokens *every* layer holds: the place of the next one."""
        ### BEGIN SOLUTION
        return min(self._lengths)
        ### END SOLUTION

    def write(self, layer, key, value):
        """Keep a layer's new keys and values, (B, h, n, dk); return all of its keys and values so far, (B, h, T, dk).

        They come back in the type of what came. ``ValueError`` out of turn, in a wrong shape, or beyond the end.
        """
        start, stop = self.checked_place(layer, key, value)
        kept = []
        for buffer, new in ((self.keys[layer], key), (self.values[layer], value)):
            ### BEGIN SOLUTION
            store(new, place=buffer[:, :, start:stop])
            so_far = Tensor(buffer, dtype=buffer.dtype)[:, :, :stop]  # (B, h, stop, dk): a view
            ### END SOLUTION
            kept.append(so_far if so_far.dtype == new.dtype else so_far.astype(new.dtype))
        ### BEGIN SOLUTION
        self._lengths[layer] = stop
        ### END SOLUTION
        return tuple(kept)

    def truncate(self, length):
        """Forget all but ``length`` tokens and what only some layers have written; ``ValueError``: more than held."""
        if whole("length", length, 0) > self.position:
            raise ValueError(f"truncate to {length} tokens: the cache holds {self.position}; it can only forget")
        ### BEGIN SOLUTION
        self._lengths = [int(length)] * len(self._lengths)
        ### END SOLUTION

# %%
cache = KVCache(num_layers=2, batch=1, num_heads=1, max_len=4, head_dim=2)
three = Tensor(np.arange(6).reshape(1, 1, 3, 2))
for layer in (0, 1):
    keys, values = cache.write(layer, three, three * 10)
    print(f"layer {layer} wrote three, position {cache.position}; its values so far:", values.data[0, 0].tolist())
for attempt in (lambda: cache.write(1, three, three), lambda: cache.write(0, three, three[:, :, :2]), lambda: cache.write(0, three, three), lambda: cache.truncate(9)):
    try:
        attempt()
    except ValueError as error:
        print("refused:", error)
print(cache)

# %% nbgrader={"grade": true, "grade_id": "test-kv-cache", "points": 22, "skill": "cache"}
def test_kv_cache():
    """What layers get back, where things are written, the position, forgetting."""
    def rows(*numbers):
        return Tensor(np.array(numbers, np.float32)[None, None])  # (1, 1, n, 2)

    def shown(pair):
        return [tensor.data[0, 0].tolist() for tensor in pair]

    cache = KVCache(2, 1, 1, 5, 2)
    check("the position of a new cache", cache.position, 0)
    found = cache.write(0, rows([1, 2], [3, 4]), rows([10, 20], [30, 40]))
    check("what layer 0 gets back", shown(found), [[[1, 2], [3, 4]], [[10, 20], [30, 40]]], {
        (((1, 2), (3, 4), (0, 0), (0, 0), (0, 0)), ((10, 20), (30, 40), (0, 0), (0, 0), (0, 0))): "the empty places, too: want the first `stop`",
        (((0, 0), (0, 0)), ((0, 0), (0, 0))): "nothing was stored", ((), ()): "want all up to `stop`, the new ones with them"})
    check("it shows the cache, it is no copy", bool(np.shares_memory(found[0].data, cache.keys[0])), True, {False: "a copy of all so far for each token: slice a Tensor that shares the buffer's memory"})
    check("the position, when one of two layers has written", cache.position, 0, {2: "layer 1 does not hold them yet: every layer must"})
    check("how many tokens each layer holds", cache._lengths, [2, 0], {(0, 0): "the length of the layer is not noted after its write", (2, 2): "layer 1 has not written yet"})
    cache.write(1, rows([5, 6], [7, 8]), rows([50, 60], [70, 80]))
    check("and when both have", cache.position, 2, {4: "the lengths are added up; want what every layer holds"})
    check("one more for layer 0", shown(cache.write(0, rows([9, 9]), rows([90, 90]))), [[[1, 2], [3, 4], [9, 9]], [[10, 20], [30, 40], [90, 90]]], {
        (((9, 9),), ((90, 90),)): "only the new ones come back: want all so far", (((9, 9), (3, 4), (0, 0)), ((90, 90), (30, 40), (0, 0))): "written at place 0, over the old ones; want `start`",
        (((1, 2), (3, 4)), ((10, 20), (30, 40))): "without the new ones: want all up to `stop`"})
    check("one more for layer 1", shown(cache.write(1, rows([0, 1]), rows([0, 2]))), [[[5, 6], [7, 8], [0, 1]], [[50, 60], [70, 80], [0, 2]]], {
        (((1, 2), (3, 4), (0, 1)), ((10, 20), (30, 40), (0, 2))): "layer 0's numbers: each layer has arrays of its own"})
    check("position", cache.position, 3, {2: "the length after a write is `stop`", 1: "the length after a write is all of them, `stop`"})
    check_raises("out of turn", ValueError, lambda: cache.write(1, rows([1, 1]), rows([1, 1])), must_say="turn of layer 0")
    check_raises("beyond the end", ValueError, lambda: cache.write(0, rows([1, 1], [1, 1], [1, 1]), rows([1, 1], [1, 1], [1, 1])), must_say="5")
    check("and nothing has changed", (cache.position, cache.keys[0][0, 0, 3:].tolist()), (3, [[0, 0], [0, 0]]))
    cache.write(0, rows([6, 6]), rows([6, 6]))
    cache.truncate(1)
    check("truncated to 1, while layer 0 was one ahead", cache.position, 1, {3: "nothing was forgotten", 4: "that is layer 0's length"})
    check("how many tokens each layer holds now", cache._lengths, [1, 1], {(4, 1): "only one layer has forgotten; want every layer"})
    check("the next goes to place 1 of layer 0", shown(cache.write(0, rows([8, 8]), rows([88, 88]))), [[[1, 2], [8, 8]], [[10, 20], [88, 88]]])
    check("and of layer 1", shown(cache.write(1, rows([4, 4]), rows([44, 44]))), [[[5, 6], [4, 4]], [[50, 60], [44, 44]]])
    check("position", cache.position, 2)
    check_raises("a truncation that would advance", ValueError, lambda: cache.truncate(3))
    small = KVCache(1, 1, 1, 4, 2, np.float16)
    check("kept in float16, read in float32", (small.keys[0].dtype.name, small.write(0, rows([1, 2]), rows([3, 4]))[0].dtype.name, small.nbytes), ("float16", "float32", 32), {
        ("float16", "float16", 32): "leave `so_far` to the line after it: it is cast to the type of what came"})


test_kv_cache()

# %% [markdown]
"""
**What if** somebody insists on advancing it? There is no method for it, and that is the point: to get the position to 5, five tokens must be written by every layer.

## 4. Attention that reads only what is new

**Question.** A block receives one new row, `x (B, 1, D)`. How does it attend to a text it does not see?

The keys and values of that text are in the cache. With `n` new tokens and `T` in all, the new ones included:

```
x (B, n, D) ──q_proj, split──▶ query (B, h, n, dk) ─────────────────────────────┐
            ──k_proj, split──▶ key   (B, h, n, dk) ┐ cache.write    keys   (B, h, T, dk) ┼▶ weights (B, h, n, T) @ values ─join─▶ (B, n, D) ──out_proj──▶ (B, n, D)
            ──v_proj, split──▶ value (B, h, n, dk) ┘ ────────────▶  values (B, h, T, dk) ┘
```

Several new tokens at once (a prompt) must not look at each other's future. The causal mask of Module 12 was made for this: when there are fewer queries than keys, *the queries are the last ones*, so query `i` of `n` may look at the keys up to `T - n + i`. With one new token it hides nothing.

`CachedAttention` takes the place of a block's attention and is called as that was. It uses the projections of the original, `own.q_proj`, `own.k_proj`, `own.v_proj`, `own.out_proj`, and its `own.num_heads`.

**Task.** Write the core of `CachedAttention.forward`: the picture, from left to right. `split_heads(x, num_heads)`, `join_heads(x)` and `attention_weights(query, keys, is_causal=True)` are those of Module 12; `self.cache.write(self.layer, key, value)` is yours and returns `(keys, values)`.

Example: 4 heads of 12, 3 tokens in the cache, 2 new: query `(1, 4, 2, 12)`, keys `(1, 4, 5, 12)`, weights `(1, 4, 2, 5)`, and out comes `(1, 2, 48)`.

<details><summary>Hint 1: idea</summary>
It is <code>MultiHeadAttention.forward</code> with one line between: the new keys and values go into the cache, and all come out.
</details>
<details><summary>Hint 2: approach</summary>
Project and split three times; write; weights of the <em>new</em> queries with <em>all</em> keys; times all values; join; <code>out_proj</code>.
</details>
<details><summary>Hint 3: worked example, other shapes</summary>
One text, 2 heads of 8, 9 tokens in the cache, 1 new: the weights are (1, 2, 1, 10): for each head one row, ten shares.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "cached-attention", "solution": true}
#| export
class CachedAttention(Layer):
    """Self-attention that reads only the new tokens: x (B, n, D) -> (B, n, D); earlier ones come from the cache.

    The same projections as ``attention``, a ``MultiHeadAttention``, in evaluation mode; always causal.
    """

    def __init__(self, attention, cache, layer):
        """Share the projections of ``attention``, and write to the cache as number ``layer``."""
        self.attention, self.cache, self.layer = attention, cache, layer

    def forward(self, x, mask=None, is_causal=True):
        """Return x (B, n, D) attended from the new tokens to all so far; another mask, or none, is a ``ValueError``."""
        if mask is not None or not is_causal:
            raise ValueError("a cached token was computed without the later ones; want is_causal=True and no mask")
        own = self.attention
        ### BEGIN SOLUTION
        query, key, value = (split_heads(project(x), own.num_heads) for project in (own.q_proj, own.k_proj, own.v_proj))
        keys, values = self.cache.write(self.layer, key, value)  # (B, h, T, dk): all so far
        weights = attention_weights(query, keys, is_causal=True)  # (B, h, n, T): the n queries are the last ones
        return own.out_proj(join_heads(weights @ values))  # (B, n, D)
        ### END SOLUTION

# %%
attention, x = writer.blocks[0].attention, Tensor(np.random.default_rng(1).standard_normal((1, 6, 48)))
layer = CachedAttention(attention, KVCache(1, 1, 4, 64, 12), 0)
with no_grad():
    all_at_once, one_by_one = attention(x, is_causal=True).data, [layer(x[:, i:i + 1]).data for i in range(6)]
print("one by one against all at once:", f"{np.abs(np.concatenate(one_by_one, axis=1) - all_at_once).max():.2g}")

# %% nbgrader={"grade": true, "grade_id": "test-cached-attention", "points": 16, "skill": "attention"}
def test_cached_attention():
    """A prompt, then more: as all at once; each text, each layer its own."""
    rng = np.random.default_rng(0)
    attention, x = MultiHeadAttention(12, 3, rng=rng).eval(), rng.standard_normal((2, 5, 12))
    for p in attention.parameters():
        p.data[...] = rng.normal(0, 0.4, p.shape)
    cache = KVCache(1, 2, 3, 8, 4)
    layer = CachedAttention(attention, cache, 0)

    def by_hand(new=2, causal=True, start=0, stop=5, key="k_proj", value="v_proj", last=True, root=2.0):
        """The last `new` of the tokens before `stop` ask; those from `start` on are seen."""
        q, k, v = (x[:, :stop] @ getattr(attention, name).weight.data + getattr(attention, name).bias.data for name in ("q_proj", key, value))
        q, k, v = q[:, stop - new:], k[:, start:], v[:, start:]
        found, allowed = np.zeros(q.shape), np.tri(new, stop - start, stop - start - new) if causal else np.ones((new, stop - start))
        for head in range(3):
            part = slice(4 * head, 4 * head + 4)
            powers = np.exp(q[..., part] @ k[..., part].swapaxes(1, 2) / root) * allowed
            found[..., part] = powers / powers.sum(-1, keepdims=True) @ v[..., part]
        return found @ attention.out_proj.weight.data + attention.out_proj.bias.data if last else found

    def compare(what, got, want, place, **likely):
        """Show the start of one vector and name the mistake; then compare all."""
        check(f"{what}: second text", got.data[1, place, :4], want[1, place, :4], {tuple(wrong[1, place, :4]): says for says, wrong in likely.items()}, rtol=1e-3, atol=1e-4)
        check(f"{what}: all of it", bool(np.allclose(got.data, want, atol=1e-4)), True)

    with no_grad():
        first = layer(Tensor(x[:, :3]))
        check("a prompt of three: shape, and the position after it", (first.shape, cache.position), ((2, 3, 12), 3))
        compare("the prompt's second token", first, by_hand(3, stop=3), 1, **{
            "it sees the tokens after it: is_causal=True": by_hand(3, causal=False, stop=3), "out_proj is missing": by_hand(3, last=False, stop=3), "the values went through k_proj": by_hand(3, value="k_proj", stop=3),
            "keys and values have changed places": by_hand(3, key="v_proj", value="k_proj", stop=3), "the scale is that of all features: split the query into heads": by_hand(3, root=12**0.5, stop=3)})
        then = layer(Tensor(x[:, 3:]))
        check("two more: shape", then.shape, (2, 2, 12), {(2, 5, 12): "the old tokens ask, too: want the new queries only"})
        compare("two more", then, by_hand(), 1, **{
            "only the new keys are looked at: want all that the cache gives back": by_hand(start=3)})
        compare("the first of the two", then, by_hand(), 0, **{"it sees the token after it: is_causal=True": by_hand(causal=False)})
        whole = attention(Tensor(x), is_causal=True).data
        check("as all five at once", bool(np.allclose(np.concatenate([first.data, then.data], 1), whole, atol=1e-5)), True)
        two = KVCache(2, 2, 3, 8, 4)
        layers = [CachedAttention(attention, two, number) for number in (0, 1)]
        layers[1](layers[0](Tensor(x)))
        check("two layers, one after the other: the position", two.position, 5)
        check("each has keys of its own", bool((two.keys[0] != two.keys[1]).any()), True)
    check_raises("another mask", ValueError, lambda: layer(Tensor(x), mask=np.ones((5, 5), bool)))
    check_raises("with a graph", TypeError, lambda: layer(Tensor(x[:, :1])), must_say="no_grad")


test_cached_attention()

# %% [markdown]
"""
The second thing that depends on the place is the table of positions: a new token that comes alone is not the first.

**Task.** Write `CachedPositions.forward`: x `(B, n, D)` plus the rows of the next `n` places. `self.cache.room_for(n)` returns `(start, stop)` of those places, or raises; the table is `self.positions.weight`, `(max_seq_len, D)`.

Example: 3 tokens are in the cache and 2 come: rows 3 and 4 are added.

<details><summary>Hint 1: idea</summary>
As <code>PositionalEncoding.forward</code>, which adds the rows from 0 on.
</details>
<details><summary>Hint 2: approach</summary>
<code>n</code> is <code>x.shape[-2]</code>; rows are cut with <code>weight[start:stop]</code>.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
10 tokens in the cache, one comes: <code>weight[10:11]</code>, of shape (1, D), is added to every text.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "cached-positions", "solution": true}
#| export
class CachedPositions(Layer):
    """Learned positions that go on where the cache ends: x (B, n, D) -> the same shape."""

    def __init__(self, positions, cache):
        """Share the table of ``positions``, a ``PositionalEncoding``."""
        self.positions, self.cache = positions, cache

    def forward(self, x):
        """Return x with the rows of the next n places added; ``ValueError`` when the cache has no room for them."""
        ### BEGIN SOLUTION
        start, stop = self.cache.room_for(x.shape[-2])
        return x + self.positions.weight[start:stop]
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-cached-positions", "points": 6, "skill": "attention"}
def test_cached_positions():
    """The rows that are next."""
    table, cache = PositionalEncoding(6, 2), KVCache(1, 2, 1, 6, 2)
    table.weight.data[...] = [[0, 0], [1, 10], [2, 20], [3, 30], [4, 40], [5, 50]]
    layer, some = CachedPositions(table, cache), Tensor(np.ones((2, 1, 3, 2)))
    with no_grad():
        check("an empty cache", layer(Tensor(np.full((2, 2, 2), 7.0))).data[1], [[7, 7], [8, 17]], {((0, 0), (1, 10)): "the rows are added to x", ((7, 7), (7, 7)): "each token has a place of its own"})
        cache.write(0, some, some)
        check("after three tokens", layer(Tensor(np.zeros((2, 2, 2)))).data[1], [[3, 30], [4, 40]], {
            ((0, 0), (1, 10)): "from the start of the table: three tokens are there already", ((2, 20), (3, 30)): "one too early: the first row is row 0", ((3, 30), (3, 30)): "each token has a place of its own"})
        check("the cache is as it was", cache.position, 3)
        check_raises("four more, where there is room for three", ValueError, lambda: layer(Tensor(np.zeros((2, 4, 2)))), must_say="room")


test_cached_positions()

# %% [markdown]
"""
## 5. A GPT that remembers

**Question.** How does the whole model get its two new parts?

By a copy whose attention and positions are exchanged, and whose weights are *shared*: `deepcopy` is told that every Tensor is to stand for itself. Everything else (norms, MLPs, the head, tied or not, the order of it all) is Module 13's own code, which does not know that it reads one token instead of sixty. Given:
"""

# %%
#| export
def refuse_uncacheable(model):
    """Raise ``TypeError`` unless ``model`` is a GPT whose attention and positions compute what the cached ones do.

    ``ValueError``: one without blocks.
    """
    if not isinstance(model, GPT):
        raise TypeError(f"a {type(model).__name__} came; want a GPT of module 13")
    if not model.blocks:
        raise ValueError(f"a {type(model).__name__} without blocks came; it has no keys and values to keep")
    pairs = [(model.position_embedding, PositionalEncoding)]
    pairs += [(block.attention, MultiHeadAttention) for block in model.blocks]
    for layer, kind in pairs:
        if getattr(layer.forward, "__func__", None) is not kind.forward:
            raise TypeError(f"a {type(layer).__name__} stands where the cache knows only {kind.__name__}; "
                            "what it computes could not be kept")


def with_cache(model, cache):
    """Return a copy of a GPT that reads through ``cache``: it shares all Tensors, ``model`` itself is not changed."""
    reader = deepcopy(model, {id(tensor): tensor for _, tensor in named_tensors(model)})
    reader.position_embedding = CachedPositions(reader.position_embedding, cache)
    reader.blocks = [copy(block) for block in reader.blocks]  # one that is listed twice has two caches
    for number, block in enumerate(reader.blocks):
        block.attention = CachedAttention(block.attention, cache, number)
    return reader

# %%
reader = with_cache(writer, KVCache(2, 1, 4, 64, 12))
print("the copy has a", type(reader.blocks[0].attention).__name__, "and the writer still a", type(writer.blocks[0].attention).__name__)
print("one and the same weight:", reader.blocks[0].attention.attention.q_proj.weight is writer.blocks[0].attention.q_proj.weight)

# %% [markdown]
"""
**Memoization, in one sentence:** a function keeps its answers beside the questions, and when a question comes again it looks the answer up. Here the question is a whole text, and two texts are rarely equal; but they often *begin* alike, and what was computed for the common beginning is still right. So the decoder keeps which tokens it has read, compares, forgets what differs, and
reads the rest. Its caller hands over a text, as to any model, and cannot get the bookkeeping wrong, since there is none to do.

**Task.** Write `common_prefix(known, tokens)` for two integer arrays, `(B, m)` and `(B, n)`: how many columns from the left are equal in *all* rows. It is at most the shorter length; for two equal arrays it is their length.

Example: `[[1, 2, 3], [4, 5, 6]]` and `[[1, 2, 9, 9], [4, 7, 6, 9]]`: column 0 agrees in both rows, column 1 only in the first: 1.

<details><summary>Hint 1: idea</summary>
Cut both to the shorter length, compare, and find the first column in which a row differs.
</details>
<details><summary>Hint 2: approach</summary>
<code>(a == b).all(axis=0)</code> says for each column whether all rows agree. <code>.argmin()</code> of it finds the first False; when there is none, it says 0, so ask <code>.all()</code> first.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Columns agree as [True, True, False, True]: the answer is 2. What agrees again after a difference was computed from another past.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "common-prefix", "solution": true}
#| export
def common_prefix(known, tokens):
    """Return how many leading columns of two integer arrays, (B, m) and (B, n), are equal in all rows."""
    ### BEGIN SOLUTION
    length = min(known.shape[1], tokens.shape[1])
    same = (known[:, :length] == tokens[:, :length]).all(axis=0)  # (length,)
    return length if same.all() else int(same.argmin())
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "test-common-prefix", "points": 8, "skill": "decoding"}
def test_common_prefix():
    """Columns, rows, lengths, nothing."""
    def found(known, tokens):
        return common_prefix(np.array(known), np.array(tokens))

    check("two texts, one column", found([[1, 2, 3], [4, 5, 6]], [[1, 2, 9, 9], [4, 7, 6, 9]]), 1, {2: "a column counts when all rows agree in it", 3: "what agrees again after a difference does not count", 0: "the first column agrees in both rows"})
    check("a text that goes on", found([[1, 2]], [[1, 2, 3]]), 2, {0: "no column differs: argmin says 0 then, ask .all() first", 3: "the third was never read"})
    check("a shorter one", found([[1, 2, 3]], [[1, 2]]), 2)
    check("the same", found([[5, 6, 7]], [[5, 6, 7]]), 3, {0: "no column differs: argmin says 0 then, ask .all() first", 2: "all three agree"})
    check("agreeing again later", found([[1, 2, 3, 4]], [[1, 9, 3, 4]]), 1, {3: "what agrees again after a difference was computed from another past"})
    check("another text", found([[1, 2]], [[2, 2]]), 0, {1: "what agrees again after a difference was computed from another past"})
    check("nothing read yet", common_prefix(np.zeros((1, 0), int), np.array([[1, 2]])), 0)
    check("a Python number, not an array", isinstance(found([[1, 2]], [[1, 3]]), (int, np.integer)), True)


test_common_prefix()

# %% [markdown]
"""
Given: `TokenNotes`, the book in which a decoder notes *which* tokens its cache holds. What was written to the cache but never noted, by an interrupted call or by somebody else, has no name, and is forgotten before the next token is read.
"""

# %%
#| export
class TokenNotes(Layer):
    """Which tokens a cache holds: ``tokens`` (B, m), of which as many count as were noted and not overwritten."""

    def _rows(self, ids):
        """Return ids as (B, T); ``ValueError`` when they are not as many texts as the cache is for."""
        rows = ids.reshape(1, *ids.shape) if ids.ndim == 1 else ids
        if rows.ndim != 2 or rows.shape[0] != self.cache.shape[0] or not rows.shape[1]:
            raise ValueError(f"tokens {ids.shape}: want (T,) or (B, T) with T of at least 1 and "
                             f"B {self.cache.shape[0]}, the batch this cache was made for")
        return rows

    def _known(self, rows):
        """Count the leading tokens that the cache holds; on shapes, where none has a value, all it holds."""
        known = self._settled()
        return known if is_shape_only() else common_prefix(self.tokens[:, :known], rows.data)

    def _settled(self):
        """Return the position, having forgotten what was written but never noted; evaluation mode, always."""
        if self.training:
            self.eval()
        self.cache.truncate(min(self.cache.position, self.cache._noted))
        return self.cache.position

    def _note(self, tokens, before):
        """Note which tokens were read; a cache of numbers keeps nothing of a run on shapes."""
        if self.cache.position != before + tokens.shape[1]:
            self.cache.truncate(before)
            raise ValueError("not every block wrote to the cache; want blocks that call their attention once")
        if is_shape_only() and self.cache.keys[0].flags.writeable:
            self.cache.truncate(before)
        else:
            self.tokens = np.concatenate([self.tokens[:, :before], tokens.data], axis=1)
            self.cache._noted = self.cache.position

# %% [markdown]
"""
**Task.** Two pieces of `CachedGPT`. `self.model` is the copy with a cache, `self.cache` its cache.

- `read(tokens)`, tokens `(B, n)`, the *next* ones → logits `(B, n, V)`. Call `self.model(tokens)` inside `no_grad()`. If anything goes wrong on the way, some layers have written and others have not: then forget what is half done, `self.cache.truncate(before)`, and let the error pass (`raise`). An interrupt from the keyboard counts, too, so catch `BaseException`.
- `forward(tokens)`, a *whole* text → the logits behind its last token, `(B, 1, V)`. Given: `rows`, the tokens as a Tensor `(B, T)`, and `known`, how many leading ones are in the cache. The logits behind the last token are wanted, so the last token must be read, even when it is known. Then: forget what is not in common (`self.cache.truncate(...)`),
  `self.read` the rest of `rows`, and return only the last position's logits: `[:, -1:]` keeps the axis.

Example: it has read `[3, 1, 4]`. `forward([3, 1, 4, 1])` reads one token. `forward([3, 1, 5])` then forgets two, and reads the 5. `forward([3, 1, 5])` once more reads the 5 again.

<details><summary>Hint 1: idea</summary>
<code>read</code> is one call with a safety net. <code>forward</code> decides how much of the text is old, at most all but one.
</details>
<details><summary>Hint 2: approach</summary>
<code>try: … except BaseException: … raise</code>. In forward: the smaller of <code>known</code> and <code>rows.shape[1] - 1</code>; truncate to it; <code>rows[:, known:]</code> is the rest.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
Ten tokens in the cache, a text of twelve comes, whose first seven are the same: truncate to 7, read 5, return the fifth of the five rows of logits. The text comes again: known is 12, but 11 are kept and one is read.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "cached-gpt", "solution": true}
#| export
class CachedGPT(TokenNotes):
    """A GPT that remembers what it has read: ``CachedGPT(model, batch=1)``, weights shared, evaluation mode.

    ``forward`` takes a whole text and reads only what it has not read before; ``read`` takes the next tokens.
    What is kept is right as long as the weights are: when they change, ``cache.truncate(0)``. One decoder serves one
    thread. Before it is profiled, let it read the text: its first call costs more than the same call again.
    ``TypeError``: no GPT that can be cached. ``ValueError``: a ``max_len`` beyond the model's positions.
    """

    def __init__(self, model, batch=1, max_len=None, dtype=None):
        """Make a cache for ``batch`` texts of ``max_len`` tokens (None: the model's) in ``dtype`` (None: its own)."""
        refuse_uncacheable(model)
        self.vocab_size, attention = model.vocab_size, model.blocks[0].attention
        self.max_seq_len = model.max_seq_len if max_len is None else positive("max_len", max_len)
        if self.max_seq_len > model.max_seq_len:
            raise ValueError(f"max_len is {max_len}; the model has positions for {model.max_seq_len}")
        self.cache = KVCache(len(model.blocks), batch, attention.num_heads, self.max_seq_len,
                             attention.embed_dim // attention.num_heads,
                             model.position_embedding.weight.dtype if dtype is None else dtype)
        self.model, self.tokens = with_cache(model, self.cache), np.zeros((batch, 0), np.int64)
        self.eval()

    def read(self, tokens):
        """Read the next tokens, (B, n), and return their logits (B, n, V); after an error all is as before."""
        tokens, before = self._rows(token_ids(tokens, self.vocab_size)), self._settled()
        ### BEGIN SOLUTION
        try:
            with no_grad():
                logits = self.model(tokens)
        except BaseException:
            self.cache.truncate(before)
            raise
        ### END SOLUTION
        self._note(tokens, before)
        return logits

    def forward(self, tokens):
        """Return the logits behind the last token: (T,) -> (1, V), or (B, T) -> (B, 1, V).

        The same text gives the same logits up to rounding, whatever was read before it.
        """
        ids = token_ids(tokens, self.vocab_size)
        rows = self._rows(ids)  # (B, T)
        known = self._known(rows)
        ### BEGIN SOLUTION
        known = min(known, rows.shape[1] - 1)  # the last token is always read: its logits are wanted
        self.cache.truncate(known)
        logits = self.read(rows[:, known:])[:, -1:]  # (B, 1, V)
        ### END SOLUTION
        return logits if ids.ndim == 2 else logits[0]

# %%
decoder = CachedGPT(writer)
for line in ("the clerk", "the clerk ", "the king", "the king"):
    question = Tensor(np.array(tokenizer.encode(line)))
    events, logits = observe(lambda question=question: decoder(question))
    rows_read = sum(e.out_shape[1] for e in events if e.op.name == "index" and e.in_shapes[0] == writer.token_embedding.weight.shape)
    print(f"{line!r:>12}: {rows_read} tokens read, logits {logits.shape}, {decoder.cache}")

# %% nbgrader={"grade": true, "grade_id": "test-cached-gpt", "points": 14, "skill": "decoding"}
def test_cached_gpt():
    """Logits as the model's own; what is read; errors leave no trace; the model is untouched."""
    rng = np.random.default_rng(0)
    model = GPT(11, 8, 2, 2, max_seq_len=8, rng=rng).eval()
    for p in model.parameters():
        p.data[...] = rng.normal(0, 0.5, p.shape)
    before = {name: array.copy() for name, array in model.state_dict().items()}
    text = np.array([[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8]])
    want = model(Tensor(text)).data
    decoder = CachedGPT(model, batch=2)
    first, then = decoder.read(Tensor(text[:, :4])), decoder.read(Tensor(text[:, 4:]))
    check("four tokens, then two: shapes, position", (first.shape, then.shape, decoder.cache.position), ((2, 4, 11), (2, 2, 11), 6))
    check("their logits are those of all six at once", bool(np.allclose(np.concatenate([first.data, then.data], 1), want, atol=1e-4)), True)

    class Broken(Layer):
        def forward(self, x):
            raise RuntimeError("half way")

    norm, decoder.model.ln_f = decoder.model.ln_f, Broken()
    decoder.cache.truncate(4)
    check_raises("a model that breaks at its last layer", RuntimeError, lambda: decoder.read(Tensor(text[:, 4:])), must_say="half way")
    check("the position after that", decoder.cache.position, 4, {6: "the half-read tokens are still there: truncate(before)", 0: "too much is forgotten: what was there before is still right"})
    decoder.model.ln_f = norm
    mlp, decoder.model.blocks[0].mlp = decoder.model.blocks[0].mlp, Broken()
    check_raises("one that breaks between two layers", RuntimeError, lambda: decoder.read(Tensor(text[:, 4:])), must_say="half way")
    decoder.model.blocks[0].mlp = mlp
    check("repaired, it goes on where it was", bool(np.allclose(decoder.read(Tensor(text[:, 4:])).data, want[:, 4:], atol=1e-4)), True)

    alone, table = CachedGPT(model), model.token_embedding.weight.shape

    def tokens_read_by(*tokens):
        events, logits = observe(lambda: alone(Tensor(np.array(tokens))))
        same = bool(np.allclose(logits.data, model(Tensor(np.array(tokens))).data[-1:], atol=1e-4))
        return sum(e.out_shape[1] for e in events if e.op.name == "index" and e.in_shapes[0] == table), logits.shape, same

    check("a text of three: tokens read, shape, as the model's own", tokens_read_by(3, 1, 4), (3, (1, 11), True), {
        (3, (3, 11), True): "logits of all that was read: want the last position's, [:, -1:]", (3, (3, 11), False): "logits of all that was read: want the last position's, [:, -1:]", (3, (1, 11), False): "not the last position's logits"})
    check("one more", tokens_read_by(3, 1, 4, 1), (1, (1, 11), True), {(4, (1, 11), True): "all is read again: only what comes after the known tokens is new", (2, (1, 11), True): "one too many: the known ones need not be read"})
    check("the same again: the last one is read", tokens_read_by(3, 1, 4, 1), (1, (1, 11), True))
    check("another third token", tokens_read_by(3, 1, 5, 1), (2, (1, 11), True), {(1, (1, 11), False): "what is not in common was not forgotten", (4, (1, 11), True): "the first two are the same: they need not be read again"})
    check("a shorter text", tokens_read_by(3, 1), (1, (1, 11), True))
    check("another text", tokens_read_by(9, 1, 5), (3, (1, 11), True))
    check("the model is as it was", all(np.array_equal(before[name], array) for name, array in model.state_dict().items()) and type(model.blocks[0].attention) is MultiHeadAttention, True)


test_cached_gpt()

# %% [markdown]
"""
## 6. The same text

**Question.** Does a model that remembers write what it would have written?

Because the decoder is called like any model, with a whole text, Module 13's `generate` needs no change: the same checks, the same sampling, the same random numbers, one after the other. It gets a model that happens to remember. Given:
"""

# %%
#| export
def generate(model, prompt_tokens, max_new_tokens, temperature=1.0, rng=None):
    """Continue a prompt, (T,) or (B, T), as module 13's ``generate``, reading each token once; it returns the same.

    The same arguments, checks, random numbers and results. Logits agree up to rounding, so tokens are the same unless
    a draw falls within a rounding error of the border between two, or, at temperature 0, the two best tie within it.
    Once the text is longer than ``model.max_seq_len`` the window slides, positions are absolute, and each token costs a
    whole window, as without a cache. ``TypeError``: no GPT that can be cached.
    """
    refuse_uncacheable(model)
    batch, length = np.atleast_2d(prompt_ids(prompt_tokens, model.vocab_size)).shape
    room = min(model.max_seq_len, length + whole("max_new_tokens", max_new_tokens, 0))
    decoder = CachedGPT(model, batch, room)
    return transformers.generate(decoder, prompt_tokens, max_new_tokens, temperature, rng)

# %%
for temperature in (0, 0.7, 1.5):
    plain, kept = (write(writer, prompt, 50, temperature, np.random.default_rng(7)) for write in (transformers.generate, generate))
    print(f"temperature {temperature}: {'the same' if plain == kept else 'NOT the same'}: {tokenizer.decode(kept)!r}")

# %% nbgrader={"grade": true, "grade_id": "test-generate", "points": 6, "skill": "decoding"}
def test_generate():
    """Your parts together: the same tokens, from fewer that are read; batches; beyond the window."""
    rng = np.random.default_rng(0)
    model = GPT(11, 8, 2, 2, max_seq_len=12, rng=rng)
    for p in model.parameters():
        p.data[...] = rng.normal(0, 0.5, p.shape)
    same = []
    for question in ([3, 1, 4], [[3, 1, 4], [2, 7, 1]]):
        for temperature in (0, 1.0, 3.0):
            plain, kept = (write(model, question, 20, temperature, np.random.default_rng(1)) for write in (transformers.generate, generate))
            same.append(plain == kept)
    check("23 tokens with a window of 12, two prompts, three temperatures: the same?", same, [True] * 6)
    events, written = observe(lambda: generate(model, [3, 1, 4], 9, 0))
    rows_read = sum(e.out_shape[1] for e in events if e.op.name == "index" and e.in_shapes[0] == (11, 8))
    check("12 tokens in all; read were 3, and 8 more", (len(written), rows_read), (12, 11), {(12, 63): "all is read each time: in forward, only what is new"})
    check("as you have counted in section 1", tokens_read(3, 9, 12, cached=True), 11)


test_generate()

# %% [markdown]
"""
**Bet.** The tokens are the same. Are the *logits* the same, to the last bit?
"""

# %%
my_bet = None  # True or False
long_text = Tensor(ids[None, :64])
with no_grad():
    at_once = writer(long_text).data[:, -1:]
step_by_step = CachedGPT(writer)
for length in range(1, 65):
    last = step_by_step(long_text[:, :length]).data
print(f"equal to the bit: {np.array_equal(at_once, last)}, largest difference {np.abs(at_once - last).max():.2g} of logits up to {np.abs(at_once).max():.3g}; your bet: {my_bet}")

# %% [markdown]
"""
As a rule they are not. The numbers that are added up are the same, but a product of one row with a matrix and a product of 64 rows with it are added up in a different *order*, and rounding depends on the order. The differences are those of float32: a few units in the seventh digit. A token changes only when a draw falls within that distance of the border
between two tokens, or, at temperature 0, when the two largest logits are that near each other. How often is that? Write a few thousand tokens both ways and count:
"""

# %%
questions = np.lib.stride_tricks.sliding_window_view(ids, 4)[:96]
for temperature in (0, 1.0):
    plain, kept = (write(writer, questions, 24, temperature, np.random.default_rng(3)) for write in (transformers.generate, generate))
    print(f"temperature {temperature}: {(plain == kept).sum() - 4 * 96:,} of {24 * 96:,} new tokens are the same")

# %% [markdown]
"""
**What if** the weights change? A memo is right as long as the *function* is. Keep a decoder, train a step, ask the same question:
"""

# %%
student = CachedGPT(writer)
question = Tensor(np.array(prompt))
student(question)
weight = writer.blocks[0].attention.v_proj.weight
weight.data *= 1.5  # as if it had been trained
with no_grad():
    truth = writer(question).data[-1:]
stale = student(question).data
student.cache.truncate(0)
print(f"off by {np.abs(stale - truth).max():.2g} with what it remembered, by {np.abs(student(question).data - truth).max():.2g} after truncate(0)")
weight.data /= 1.5

# %% [markdown]
"""
No error is raised: the shapes fit, and nobody noticed. (`generate` makes a decoder of its own each time and is safe.) The two hard things of every cache are here: to know what an answer depends on, and to forget it when that changes.

## 7. Measure again

**Question.** What did it buy? First in FLOPs, for *one* token.

**Task.** Write `token_flops(model, length)`: the pair (FLOPs of the logits behind a text of `length` tokens when all are read, the same with a cache when all but the last have been read). Both are counted on shapes, so this works for models that do not fit into memory.

- Without: `count_flops(model, (1, length))`.
- With: inside `shape_only()` make `CachedGPT(model)` (hollow cache included), let it `read` the first `length - 1` tokens if there are any, `Tensor(hollow((1, length - 1), np.int64))`, and then `count_flops(decoder, (1, length))`: on shapes tokens have no values, and the decoder takes those that its cache holds for known. Measuring does not advance it.

Example: for a text of one token there is nothing to remember, and both are equal.

<details><summary>Hint 1: idea</summary>
Two counts of two models; the second must first be brought to where it remembers all but one.
</details>
<details><summary>Hint 2: approach</summary>
Count the plain one; open <code>with shape_only():</code>, make the decoder, read if <code>length > 1</code>, count, return both.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
For length 5 the decoder reads hollow tokens (1, 4); then a text of shape (1, 5) has one new token.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "token-flops", "solution": true}
#| export
def token_flops(model, length):
    """Count, on shapes, the FLOPs of the logits behind ``length`` tokens: (all read again, one read with a cache)."""
    refuse_uncacheable(model)
    with in_mode(model, False):  # as when it writes: nothing is dropped
        ### BEGIN SOLUTION
        again = count_flops(model, (1, length))
        with shape_only():
            decoder = CachedGPT(model)
            if length > 1:
                decoder.read(Tensor(hollow((1, length - 1), np.int64)))
            return again, count_flops(decoder, (1, length))
        ### END SOLUTION

# %%
for length in (1, 8, 16, 32, 64):
    again, kept = token_flops(writer, length)
    print(f"behind {length:2} tokens: {again:12,} FLOPs when all are read, {kept:9,} with the cache: {again / kept:5.1f} times fewer")

# %% nbgrader={"grade": true, "grade_id": "test-token-flops", "points": 8, "skill": "measuring"}
def test_token_flops():
    """Equal at one; quadratic and linear; GPT-2."""
    model = GPT(11, 8, 2, 2, max_seq_len=16)
    check("one token: both ways the same", token_flops(model, 1), (4_274, 4_274))
    check("behind 2 tokens", token_flops(model, 2), (8_720, 4_360), {
        (8_720, 8_720): "nothing was remembered: let the decoder read length - 1 tokens first", (4_360, 8_720): "want the plain model first, the cached one second", (8_720, 4_274): "that is a text of one token: give count_flops the whole text's shape, (1, length)"})
    found = np.array([token_flops(model, length) for length in range(1, 10)], dtype=np.int64)  # (9, 2)
    per_key = 2 * (4 * 8 + 2 * 5 + 1)  # two layers: 4 D for scores and mix; each of 2 heads: maximum, difference, exp, sum, share; a mask
    check("each token more costs the cached step", np.diff(found[:, 1]), np.array([per_key] * 8))
    check("the growth of the growth, without and with", np.unique(np.diff(found, 2, axis=0), axis=0), np.array([[2 * per_key, 0]]))
    check("without, divided by with: lengths 1 to 9", (found[:, 0] / found[:, 1]).tolist(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])


test_token_flops()

# %% [markdown]
"""
Is it suspicious that the ratio is the length, *exactly*? Reading `T` tokens is `T` times the work of reading the last of them: every row goes through the same products, and (look at Module 12) every row is compared with all `T` keys, also those that the mask then hides. So without the cache the FLOPs of *one* token are a quadratic function of the
length: the growth of the growth is constant. With it they are linear. In symbols, contractions only, for `L` blocks of width `D` and a text of `T`:

```
all read again:  L (24 T D² + 4 T² D) + 2 T D V
with the cache:  L (24 D²   + 4 T D)  + 2 D V
```

**A misconception, head on:** "With a cache every token costs the same." It does not. The new token still looks at *every* key, so each costs a little more than the one before, and a text of `T` tokens still costs a sum that grows with T². The cache takes away one factor of `T`, nowhere the last one. But look at the two terms: at what length does the part that grows reach the part that does not? Also, not all of the gain is due to
remembering: the plain model computes the head's `2 D V` for every position and throws all but the last away.
"""

# %%
def closed_form(model, length, cached):
    """Contractions of one token's logits by the formulas above."""
    layers, width, rows = model.num_layers, model.embed_dim, 1 if cached else length
    return layers * (24 * rows * width**2 + 4 * rows * length * width) + 2 * rows * width * model.vocab_size


from tinytorch.zoo import gpt2_small

with shape_only():
    gpt2 = gpt2_small()
print("GPT-2 small      all read    with the cache   fewer   of which the head alone    attention's share of a cached token")
for length in (1, 64, 256, 1024):
    again, kept = token_flops(gpt2, length)
    head = 2 * (length - 1) * gpt2.embed_dim * gpt2.vocab_size  # rows of logits that nobody looks at
    grows = 4 * gpt2.num_layers * length * gpt2.embed_dim
    print(f"{length:7} {again:18,} {kept:17,} {again / kept:7.1f} {head / again:20.0%} {grows / closed_form(gpt2, length, True):36.1%}")
report = profiler.flop_report(gpt2, (1, 1024))
print(f"within a block the two parts meet at 6 D, {6 * gpt2.embed_dim:,} tokens; the window has {gpt2.max_seq_len:,}")
print("closed form and count, all read:", f"{closed_form(gpt2, 1024, False):,} {report.contractions:,}")

# %% [markdown]
"""
At GPT-2's longest text a cached token is a thousand times cheaper, its growing part is still small beside the weights' part (`4 T D` would meet `24 D²` at `T = 6 D`, far beyond the window, and the head moves that further still), and more than a quarter of what is saved was rows of the head that nobody looks at: those one could also save without any cache. Now the clock. A model that is large enough for it, 3 blocks of 96 features with a window of 192, not trained: what it says does not matter for what it costs. `measure_latency` calls the decoder again and again with the same text; since it remembers all but the last token, each call reads one.

**Bet.** At 192 tokens, by how much fewer FLOPs, and by how much less time?
"""

# %%
import matplotlib.pyplot as plt

my_bet = (None, None)
big = GPT(64, 96, 3, 4, max_seq_len=192, dropout_prob=0.0, rng=np.random.default_rng(0)).eval()
long_text, lengths = Tensor(np.random.default_rng(1).integers(0, 64, (1, 192))), (8, 32, 64, 128, 192)
decoder, flops_of, times = CachedGPT(big), {}, {}
for length in lengths:
    decoder(long_text[:, :length])  # now it knows them
    flops_of[length] = token_flops(big, length)
    times[length] = [profiler.measure_latency(model, long_text[:, :length], warmup=2, iterations=10) for model in (big, decoder)]
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for axis, found, what in zip(axes, (flops_of, times), ("FLOPs", "milliseconds")):
    for place, (name, colour) in enumerate((("all read again", "tab:red"), ("with the cache", "tab:blue"))):
        line = axis.plot(lengths, [found[length][place] for length in lengths], "o-", color=colour, label=name)
    settings = axis.set(title=f"{what} for the next token", xlabel="tokens that are there", yscale="log"), axis.grid(alpha=0.3), axis.legend()
for length in lengths:
    (again, kept), (slow, fast) = flops_of[length], times[length]
    print(f"{length:4} tokens: {again / kept:6.1f} times fewer FLOPs, {slow / fast:5.1f} times less time ({slow:.2f} against {fast:.2f} ms)")

# %% [markdown]
"""
On a quiet machine the gain in time stays far behind the gain in FLOPs, and at 8 tokens there is hardly any. That gap is Module 14's third answer, *overhead*: a step on one row is hardly any arithmetic, but it passes the same number of ops as a step on 192, and each op has its price in Python. Ask the profile:
"""

# %%
for name, model in (("all read again", big), ("with the cache", decoder)):
    found = profiler.profile_forward_pass(model, long_text)
    print(f"{name}: {found['flops']:,} FLOPs, {found['latency_ms']:.2f} ms, {found['gflops_per_second']:.2f} GFLOP/s, limited by {found['limited_by']}")
print("measuring has not moved the cache:", decoder.cache)

# %% [markdown]
"""
So the cached step runs at a small part of the machine's speed, and is still far ahead, because it has so little to do.

**What if** the decoder had not read the text before it was profiled?
"""

# %%
found = profiler.profile_forward_pass(CachedGPT(big), long_text)
print(f"{found['flops']:,} FLOPs in {found['latency_ms']:.2f} ms would be {found['gflops_per_second']:.1f} GFLOP/s")

# %% [markdown]
"""
The FLOPs are those of all 192 tokens, and the milliseconds those of one: the Profiler counts a single call, which had to read everything, and times calls that come *after* a first one, which had not. A profile takes it that every call does the same work. For a thing with a memory, bring it first to the state that the question is about.

On a short text, though, there is little to save, and the bookkeeping is not free. `compare` says which it is, in pairs and with an interval; it takes two *functions* of the prompt here, since a decoder that is made inside leaves nothing behind:
"""

# %%
from tinytorch.perf.profiling import compare_table

for length, new in ((4, 2), (120, 12)):
    ways = [lambda question, write=write, new=new: Tensor(write(big, question.data, new, 0)) for write in (transformers.generate, generate)]
    print(f"{new} new tokens after a prompt of {length}:", compare_table(profiler.compare(*ways, long_text[:, :length], rounds=8)), sep="\n")

# %% [markdown]
"""
The tokens had to be equal, exactly, before anything was timed.

**Memory** is what all this is paid with. Closed form beside what the operating system was asked for (`trace_memory` of Module 14):
"""

# %%
from tinytorch.perf.profiling import trace_memory

traced = trace_memory(lambda: KVCache(3, 1, 4, 192, 24))
said = kv_cache_bytes(3, 1, 4, 192, 24)
print(f"closed form {said:,} bytes; nbytes {traced.result.nbytes:,}; measured {traced.growth:,}: {traced.growth - said:,} more for the objects themselves")
for name, model in (("all read again", big), ("with the cache", decoder)):
    with no_grad():
        memory = profiler.measure_memory(model, (1, 192), long_text)
    print(f"{name}: {memory['temporaries_mb']:.3f} MB of temporaries for the next token")

# %% [markdown]
"""
A cached step needs hardly any temporaries: no tables of 192 by 192, no rows of 64 logits for 192 positions. For a short text the cache is *less* than the temporaries it saves; but temporaries are freed after each step, and the cache stays for as long as the text does, one for each text.

**What if** the cache is kept in float16? Half the memory, and keys rounded to eleven bits: each may move by half a step, 2⁻¹¹ of its size, and no more. That is lossy, so it must be shown that the bound holds, and what it does to the outputs:
"""

# %%
halves = CachedGPT(big, dtype=np.float16)
half, exact = halves(long_text), decoder(long_text)
full, rounded = (reader.cache.keys[0][:, :, :8] for reader in (decoder, halves))  # block 0: before any rounding could add up
share = (np.abs(full - rounded) / np.maximum(np.abs(full), 2.0**-14)).max() * 2**11  # below 2^-14 the steps are equal
print(f"the largest move of a key is {share:.3f} of half a step")
for length in range(1, 193):
    half = halves(long_text[:, :length])
written = [transformers.generate(CachedGPT(writer, batch=96, dtype=dtype), questions, 24, 0) for dtype in (np.float32, np.float16)]
print(f"{halves.cache.nbytes:,} bytes in place of {decoder.cache.nbytes:,}; logits up to {np.abs(exact.data).max():.2g} move by {np.abs(half.data - exact.data).max():.2g}; "
      f"greedy tokens that stay the same: {(written[0] == written[1]).mean():.2%} of {written[0].size:,}")

# %% [markdown]
"""
**What if** the window slides? Here is what is read for each token by a GPT with a window of 12, as the door saw it, and what you counted:
"""

# %%
short = GPT(11, 8, 2, 2, max_seq_len=12, rng=np.random.default_rng(0))
for cached, write in ((False, transformers.generate), (True, generate)):
    events, _ = observe(lambda write=write: write(short, [3, 1, 4], 15, 3.0, np.random.default_rng(2)))
    seen = [e.out_shape[-2] for e in events if e.op.name == "index" and e.in_shapes[0] == (11, 8)]
    print(f"{'cached' if cached else 'plain':>7}: {seen} sum {sum(seen)}, counted {tokens_read(3, 15, 12, cached)}")

# %% [markdown]
"""
From the moment the text leaves the window the cache is of no use (only where a text repeats itself, as in `12, 12, 12`, would some places hold the same token again, and be kept). No trick of bookkeeping can help, because the *answers* have changed: each token stands in another place now. Positions that are relative, or rotations of queries and keys (RoPE; Su and others, 2021), were adopted partly for that reason.

## 8. What it means for a real model

**Question.** What does a cache cost a model that many people write with at once?

GPT-3 has 96 layers of 96 heads of 128 numbers, and reads 2,048 tokens. On shapes, its cache is yours to build:
"""

# %%
from tinytorch.perf.profiling import count_parameters
from tinytorch.zoo import gpt3

with shape_only():
    large = gpt3()
    its_cache = CachedGPT(large, dtype=np.float16).cache
weights = 2 * count_parameters(large)
print(f"one text of 2,048 tokens: {its_cache.nbytes / 1e9:.2f} GB in float16, as the closed form says: {kv_cache_bytes(96, 1, 96, 2048, 128, np.float16) / 1e9:.2f}")
print(f"each token: {its_cache.nbytes / 2048 / 1e6:.2f} MB. The weights in float16: {weights / 1e9:.0f} GB, as much as the cache of {weights / its_cache.nbytes:.0f} texts")

# %% [markdown]
"""
Nearly five megabytes for every token that anybody writes. And why are there many texts at once? Because a single one wastes the machine: to make one token, *all* weights are read, for two FLOPs each. GPT-2 small, half a window of text, by batch:
"""

# %%
print("texts   FLOPs for each token   bytes for each token   of which its cache   FLOPs for each byte")
for batch in (1, 8, 64):
    with shape_only():
        decoder = CachedGPT(gpt2, batch)
        decoder.read(Tensor(hollow((batch, 511), np.int64)))
        report = profiler.flop_report(decoder, (batch, 512))
    print(f"{batch:5} {report.total // batch:22,} {report.bytes_moved // batch:22,} {kv_cache_bytes(12, 1, 12, 512, 64):20,} {report.total / report.bytes_moved:21.2f}")

# %% [markdown]
"""
Sixty-four texts share one reading of the weights; their *caches* they do not share. So the bytes for each token fall at first, and then stop near what a text's own cache costs. A serving machine is filled with as many texts as fit beside the weights, and how many fit is decided by the cache.

**Task (transfer).** Write `texts_that_fit(memory_bytes, weight_bytes, num_layers, num_heads, max_len, head_dim, dtype=np.float16)`: how many texts of `max_len` tokens can be cached in what the weights leave free. Whole texts only, and 0 where not even the weights fit. Use your `kv_cache_bytes`.

Example: 10,000 bytes, weights of 4,000, a cache of 2,500 a text: 2 texts, since 6,000 / 2,500 is 2.4.

<details><summary>Hint 1: idea</summary>
What is left, divided by what one text needs.
</details>
<details><summary>Hint 2: approach</summary>
Whole numbers: <code>//</code>. And <code>max(0, ...)</code>, for a text less than none is none.
</details>
<details><summary>Hint 3: worked example, other numbers</summary>
80 GB, weights of 14 GB, 0.5 GB a text: 66 / 0.5 = 132 texts.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "texts-that-fit", "solution": true}
def texts_that_fit(memory_bytes, weight_bytes, num_layers, num_heads, max_len, head_dim, dtype=np.float16):
    """Count the texts whose caches fit beside the weights."""
    ### BEGIN SOLUTION
    return max(0, (memory_bytes - weight_bytes) // kv_cache_bytes(num_layers, 1, num_heads, max_len, head_dim, dtype))
    ### END SOLUTION

# %%
machine = 8 * 80 * 10**9  # eight accelerators of 80 GB
for heads in (96, 8, 1):
    print(f"GPT-3 with {heads:2} heads of keys and values: {texts_that_fit(machine, weights, 96, heads, 2048, 128):,} texts of 2,048 tokens at a time")

# %% nbgrader={"grade": true, "grade_id": "test-texts-that-fit", "points": 6, "skill": "transfer"}
def test_texts_that_fit():
    """GPT-3 on eight accelerators, whole texts, no room."""
    machine, weights = 640 * 10**9, 2 * 174_604_259_328
    check("GPT-3, 640 GB, float16", texts_that_fit(machine, weights, 96, 96, 2048, 128), 30, {
        66: "the weights must fit, too", 15: "the dtype is not handed on: float32", 36: "what is left is what the weights do not take", 60: "keys and values: twice"})
    check("8 heads of keys and values", texts_that_fit(machine, weights, 96, 8, 2048, 128), 361)
    check("whole texts: 1,000 bytes, 128 a text, weights of 500", texts_that_fit(1000, 500, 1, 4, 4, 2), 3, {4: "rounded up: the last one does not fit", 3.90625: "whole texts only"})
    check("no room for the weights", texts_that_fit(100, 500, 1, 4, 4, 2), 0, {-4: "less than none is none", -3: "less than none is none"})
    check("float32", texts_that_fit(1000, 0, 1, 4, 4, 2, np.float32), 3, {7: "the dtype is not handed on"})


test_texts_that_fit()

# %% [markdown]
"""
In the second line several heads of queries share one head of keys and values (*grouped-query attention*; Ainslie and others, 2023), in the third all do (*multi-query attention*; Shazeer, 2019). Not a FLOP of the scores is saved; the reason is this table. Other answers to the same pressure: int8 caches (Module 15), pages of a few tokens in place of room for the longest text (Kwon and others, 2023: *paged attention*), windows in attention itself.

**What if** a thousand questions begin with the same instruction? Your decoder has that already, since it compares beginnings:
"""

# %%
instruction, answers = "the clerk keeps a book. each word that is read goes ", CachedGPT(writer)
for line in ("into the", "twice. t", "for the "):
    events, _ = observe(lambda line=line: answers(Tensor(np.array(tokenizer.encode(instruction + line)))))
    print(f"{len(instruction + line)} characters asked, {sum(e.out_shape[1] for e in events if e.op.name == 'index' and e.in_shapes[0] == writer.token_embedding.weight.shape)} read")

# %% [markdown]
"""
**Reflect.** Answer first, then open.

<details><summary>Why are old queries not cached?</summary>
A query is used once: by its own token, to mix values. Later tokens ask with their own queries, and meet old tokens only as keys and values.
</details>
<details><summary>Does the cache help while <em>training</em>?</summary>
No. The whole text is there, and with the causal mask all positions are computed in one pass: nothing is read twice. Also gradients must reach the keys, and a cache keeps numbers only.
</details>
<details><summary>A prompt of 1,000 tokens, then 10 new ones. Where is the time, with a cache?</summary>
In the prompt: 1,000 rows at once are many FLOPs for each byte of weights (compute-bound, "prefill"). Each of the ten steps is a pass over all weights for one row (memory-bound, "decode"). The first token takes long, the others come quickly; the two are measured apart, as time to first token and time per token.
</details>
<details><summary>Why is the position the <em>smallest</em> of the layers' lengths, and not kept in a number of its own?</summary>
A number of its own can disagree with what was written, after an error or a call too many. Computed from the contents it cannot. Between two layers of one step the smallest is still the old position, which is right: the token is not read yet.
</details>
<details><summary>Beam search keeps four texts that share a beginning. What would your cache have to learn?</summary>
To copy rows: when two of the four continue the same text, one row's keys and values must be copied over another's, or pages be shared and copied only when they differ. The order of the batch is part of what the memo depends on.
</details>
<details><summary>Can a wrong cache be noticed from the text it writes?</summary>
Hardly: it is fluent, only a little off. That is why outputs are compared with those of the plain model before a speed is claimed.
</details>

`tito test memoization` checks the module; once all of it passes, `tito module complete memoization` puts what you wrote into the package, and later modules run on your code. Next: Module 18, the same arithmetic in fewer passes over memory.
"""

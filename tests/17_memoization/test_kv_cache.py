"""The cache: every refusal leaves it as it was, the position follows from what was written, bytes are what is said."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.tensor import Tensor, shape_only
from tinytorch.perf.memoization import KVCache, common_prefix, fits_into, kv_cache_bytes, store, tokens_read
from tinytorch.perf.profiling import event_bytes, event_flops, observe, trace_memory, untouched


def some(count=1, batch=2, heads=3, dim=4, seed=0, dtype=np.float32):
    """Keys or values of so many tokens, (batch, heads, count, dim)."""
    return Tensor(np.random.default_rng(seed).standard_normal((batch, heads, count, dim)).astype(dtype), dtype=dtype)


def filled(count=2, layers=2, max_len=5):
    cache = KVCache(layers, 2, 3, max_len, 4)
    for layer in range(layers):
        cache.write(layer, some(count, seed=layer), some(count, seed=layer + 9))
    return cache


def state(cache):
    return cache.position, list(cache._lengths), [array.copy() for array in (*cache.keys, *cache.values)]


def assert_same(one, other):
    assert one[:2] == other[:2] and all(np.array_equal(a, b) for a, b in zip(one[2], other[2]))


WRONG_WRITES = {
    "out of turn": (lambda c: c.write(1, some(), some()), ValueError, "turn of layer 0"),
    "no such layer": (lambda c: c.write(2, some(), some()), ValueError, "turn of layer 0"),
    "a negative layer": (lambda c: c.write(-1, some(), some()), ValueError, "turn of layer 0"),
    "a bool": (lambda c: c.write(False, some(), some()), ValueError, "turn of layer 0"),
    "a float": (lambda c: c.write(0.0, some(), some()), ValueError, "turn of layer 0"),
    "layers in an array": (lambda c: c.write(np.array([0, 1]), some(), some()), ValueError, "turn of layer 0"),
    "a name": (lambda c: c.write("0", some(), some()), ValueError, "turn of layer 0"),
    "another batch": (lambda c: c.write(0, some(batch=1), some(batch=1)), ValueError, r"want both \(2, 3, n, 4\)"),
    "other heads": (lambda c: c.write(0, some(heads=1), some(heads=1)), ValueError, "want both"),
    "other features": (lambda c: c.write(0, some(dim=8), some(dim=8)), ValueError, "want both"),
    "values of another shape": (lambda c: c.write(0, some(2), some(1)), ValueError, "want both"),
    "an axis short": (lambda c: c.write(0, some()[0], some()[0]), ValueError, "want both"),
    "no token": (lambda c: c.write(0, some(0), some(0)), ValueError, "count is 0"),
    "beyond the end": (lambda c: c.write(0, some(4), some(4)), ValueError, "room for 5"),
    "an array": (lambda c: c.write(0, some().data, some()), TypeError, "a ndarray"),
    "a list": (lambda c: c.write(0, some(), [[1.0]]), TypeError, "value is a list"),
    "a graph": (lambda c: c.write(0, some(), Tensor(some().data, requires_grad=True)), TypeError, "no_grad"),
    "forgetting forward": (lambda c: c.truncate(3), ValueError, "can only forget"),
    "forgetting less than nothing": (lambda c: c.truncate(-1), ValueError, "-1"),
    "forgetting a half": (lambda c: c.truncate(0.5), TypeError, "0.5"),
}


@pytest.mark.parametrize("what", WRONG_WRITES)
def test_what_is_refused_changes_nothing(what):
    attempt, error, words = WRONG_WRITES[what]
    cache = filled()
    before = state(cache)
    with pytest.raises(error, match=words):
        attempt(cache)
    assert_same(state(cache), before)


def test_between_two_layers_the_second_must_bring_as_many_tokens():
    cache = filled()
    cache.write(0, some(2), some(2))
    before = state(cache)
    with pytest.raises(ValueError, match="brings 1 tokens and layer 0 brought 2"):
        cache.write(1, some(1), some(1))
    with pytest.raises(ValueError, match="turn of layer 1"):  # twice
        cache.write(0, some(2), some(2))
    assert_same(state(cache), before)
    assert cache.position == 2
    cache.write(1, some(2), some(2))
    assert cache.position == 4


@pytest.mark.parametrize("sizes", [(0, 1, 1, 1, 1), (1, -1, 1, 1, 1), (1, 1, 0, 1, 1), (1, 1, 1, 0, 1),
                                   (1, 1, 1, 1, 0)])
def test_sizes_that_no_cache_has(sizes):
    with pytest.raises(ValueError, match="want"):
        KVCache(*sizes)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, bool, complex])
def test_a_cache_of_whole_numbers_is_refused(dtype):
    with pytest.raises(TypeError, match="floating"):
        KVCache(1, 1, 1, 1, 1, dtype)


def test_sizes_that_are_no_numbers():
    for sizes in ((True, 1, 1, 1, 1), (1, 1.0, 1, 1, 1), (1, 1, 1, "4", 1)):
        with pytest.raises(TypeError):
            KVCache(*sizes)


@given(counts=st.lists(st.integers(1, 4), min_size=1, max_size=6), layers=st.integers(1, 3), batch=st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_what_comes_back_is_what_was_written_in_order(counts, layers, batch):
    """Against a list of everything written, glued together: any layers, any batch (none, too), any portions."""
    cache, written = KVCache(layers, batch, 2, sum(counts), 3), [[] for _ in range(layers)]
    for step, count in enumerate(counts):
        for layer in range(layers):
            key, value = (some(count, batch, 2, 3, seed=100 * step + 10 * layer + part) for part in (0, 1))
            written[layer].append((key.data, value.data))
            assert cache.position == sum(counts[:step])
            for part, found in enumerate(cache.write(layer, key, value)):
                want = np.concatenate([pair[part] for pair in written[layer]], axis=2)
                assert found.shape == want.shape and np.array_equal(found.data, want)
        assert cache.position == sum(counts[:step + 1])
    with pytest.raises(ValueError, match="room"):
        cache.write(0, some(1, batch, 2, 3), some(1, batch, 2, 3))


@pytest.mark.parametrize("length", [0, 1, 3])
def test_truncate_goes_back_to_what_it_was(length):
    cache = filled(3)
    first = [array[:, :, :length].copy() for array in (*cache.keys, *cache.values)]
    cache.write(0, some(1, seed=5), some(1, seed=6))  # half a step
    cache.truncate(length)
    assert cache.position == length and cache._lengths == [length, length]
    for layer in (0, 1):
        keys, values = cache.write(layer, some(2, seed=7), some(2, seed=8))
        assert np.array_equal(keys.data[:, :, :length], first[layer]) and keys.shape[2] == values.shape[2] == length + 2
        assert np.array_equal(values.data[:, :, length:], some(2, seed=8).data)


def test_there_is_no_way_to_advance_it():
    public = {name for name in dir(KVCache) if not name.startswith("_")}
    assert public == {"checked_place", "nbytes", "position", "room_for", "truncate", "write"}
    cache = filled()
    with pytest.raises(AttributeError):
        cache.position = 4
    cache.room_for(3), cache.checked_place(0, some(), some())  # asking is free
    assert cache.position == 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("came", [np.float32, np.float64])
def test_types(dtype, came):
    """Kept in the cache's type, back in the type of what came; the rounding is that of one cast, there and back."""
    cache, key = KVCache(1, 2, 3, 5, 4, dtype), some(2, dtype=came)
    keys, values = cache.write(0, key, key)
    assert cache.keys[0].dtype == cache.values[0].dtype == dtype and keys.dtype == values.dtype == came
    assert np.array_equal(keys.data, key.data.astype(dtype).astype(came))


def test_numbers_too_large_for_the_cache_are_refused():
    cache, key = KVCache(1, 1, 1, 2, 2, np.float16), Tensor([[[[1.0, 70_000.0]]]])
    whole_numbers = Tensor(np.array([[[[1, 70_000]]]]))
    for pair in ((key, key * 0), (key * 0, key), (whole_numbers, whole_numbers)):
        with pytest.raises(ValueError, match="too large for float16"):
            cache.write(0, *pair)
    assert cache.position == 0 and not cache.keys[0].any() and not cache.values[0].any()
    cache.write(0, Tensor([[[[np.inf, np.nan]]]]), key * 0)  # what was no number before is none afterwards
    assert fits_into(Tensor([65504.0]), np.float16) and fits_into(Tensor([1e30]), np.float32)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (3, 2, 4, 100, 16), (2, 0, 1, 5, 4)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_closed_form_is_what_it_holds_and_what_was_allocated(sizes, dtype):
    said = kv_cache_bytes(*sizes, dtype)
    traced = trace_memory(lambda: KVCache(*sizes, dtype))
    assert traced.result.nbytes == said
    assert said <= traced.growth <= said + 4096  # objects around the buffers


def test_on_shapes_nothing_is_held():
    """GPT-3: 2 · 96 layers · 96 heads · 2048 tokens · 128 numbers · 2 bytes = 9,663,676,416, on a laptop."""
    with shape_only():
        traced = trace_memory(lambda: KVCache(96, 1, 96, 2048, 128, np.float16))
        cache = traced.result
        assert cache.nbytes == 9_663_676_416 == kv_cache_bytes(96, 1, 96, 2048, 128, np.float16)
        assert traced.growth < 200_000
        for layer in range(96):
            key = Tensor(np.broadcast_to(np.float32(0), (1, 96, 7, 128)))
            keys, values = cache.write(layer, key, key)
            assert keys.shape == values.shape == (1, 96, 7, 128) and keys.dtype == np.float32
        assert cache.position == 7


def test_a_measurement_does_not_advance_it():
    cache = filled()
    before = state(cache)
    with untouched({"cache": cache}):
        for layer in (0, 1):
            cache.write(layer, some(3), some(3))
        cache.truncate(1)
        cache.write(0, some(1, seed=4), some(1, seed=4))
    assert_same(state(cache), before)


def test_a_copy_goes_its_own_way():
    cache = filled()
    other = copy.deepcopy(cache)
    for layer in (0, 1):
        other.write(layer, some(1), some(1))
    assert (cache.position, other.position) == (2, 3) and not cache.keys[0][:, :, 2:].any()


def test_store_writes_where_it_is_told_and_says_what_it_moves():
    room, new = np.zeros((2, 6)), Tensor(np.arange(4, dtype=np.float32).reshape(2, 2))
    events, out = observe(lambda: store(new, place=room[:, 1:3]))
    assert room.tolist() == [[0, 0, 1, 0, 0, 0], [0, 2, 3, 0, 0, 0]]
    assert np.shares_memory(out.data, room) and out.dtype == np.float64
    assert [e.op.name for e in events] == ["store"] and event_flops(events[0]) == 0
    assert event_bytes(events[0]) == 4 * 4 + 4 * 8  # four float32 read, four float64 written


@pytest.mark.parametrize("shape", [(1, 2), (2,), (2, 1), (4,)])
def test_store_does_not_stretch(shape):
    room = np.zeros((2, 2))
    for room_of in (lambda: room, lambda: room):
        with pytest.raises(ValueError, match="same shape"):
            store(Tensor(np.ones(shape)), place=room_of())
    with shape_only(), pytest.raises(ValueError, match="same shape"):
        store(Tensor(np.ones(shape)), place=room)
    assert not room.any()


def test_store_writes_nothing_on_shapes():
    room = np.zeros((2, 2), np.float16)
    with shape_only():
        out = store(Tensor(np.ones((2, 2))), place=room)
    assert not room.any() and out.shape == (2, 2) and out.dtype == np.float16


def test_no_gradient_passes_a_store():
    x = Tensor([1.0, 2.0], requires_grad=True)
    (store(x, place=np.zeros(2, np.float32)) + x).sum().backward()
    assert x.grad.data.tolist() == [1.0, 1.0]  # of the other way only; a cache refuses what wants a gradient


@given(prompt=st.integers(1, 12), new=st.integers(0, 12), window=st.integers(1, 12))
@settings(deadline=None)
def test_tokens_read_against_what_is_read_one_by_one(prompt, new, window):
    """A list of windows; cached, of each what does not stand in the one before at its place (all tokens differ)."""
    text, windows = list(range(prompt + new)), []
    for length in range(prompt, prompt + new):
        windows.append(text[:length][-window:])
    plain = sum(map(len, windows))
    kept = sum(len(now) - (len(before) if now[:len(before)] == before else 0)
               for before, now in zip([[], *windows], windows))
    assert tokens_read(prompt, new, window) == plain
    assert tokens_read(prompt, new, window, cached=True) == kept


@given(rows=st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=1, max_size=3),
       cut=st.integers(0, 4), other=st.lists(st.integers(0, 1), min_size=5, max_size=5))
def test_common_prefix_against_a_loop(rows, cut, other):
    known, tokens = np.array(rows)[:, :cut].reshape(len(rows), cut), np.array([other] * len(rows))
    want = 0
    while want < cut and (known[:, want] == tokens[:, want]).all():
        want += 1
    assert common_prefix(known, tokens) == want


def test_no_texts_agree_in_everything():
    assert common_prefix(np.zeros((0, 3), int), np.ones((0, 4), int)) == 3

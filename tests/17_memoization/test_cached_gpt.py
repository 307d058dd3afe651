"""The decoder and generate: the model's own logits and tokens, what is read, what is measured, what is refused."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core import transformers
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.autograd import no_grad
from tinytorch.core.embeddings import SinusoidalEncoding
from tinytorch.core.layers import Layer, manual_seed
from tinytorch.core.tensor import Tensor, hollow, listen, shape_only, thread_state
from tinytorch.core.transformers import GPT, TransformerBlock
from tinytorch.perf.memoization import (
    CachedAttention,
    CachedGPT,
    KVCache,
    generate,
    kv_cache_bytes,
    token_flops,
    tokens_read,
    with_cache,
)
from tinytorch.perf.profiling import (
    MachineLimits,
    compare,
    count_flops,
    count_parameters,
    event_flops,
    flop_report,
    latency_statistics,
    measure_memory,
    observe,
    profile_forward_pass,
)

VOCAB, WIDTH = 11, 8


def rng(seed=0):
    return np.random.default_rng(seed)


def lively(max_seq_len=12, dtype=np.float32, **how):
    """A model that has opinions: weights as large as after training."""
    model, draw = GPT(VOCAB, WIDTH, 2, 2, max_seq_len=max_seq_len, **how), rng(1)
    for p in model.parameters():
        p.data = draw.normal(0, 0.5, p.shape).astype(dtype)
    return model


def tokens(*shape, seed=0):
    return Tensor(rng(seed).integers(0, VOCAB, shape))


def lookups(events):
    """How many tokens each call looked up in the token table."""
    return [e.out_shape[-2] for e in events if e.op.name == "index" and e.in_shapes[0] == (VOCAB, WIDTH)]


MODELS = {"tied": {}, "untied": {"tie_weights": False}, "dropout": {"dropout_prob": 0.5},
          "float64": {"dtype": np.float64}}


@pytest.mark.parametrize("how", MODELS)
@given(portions=st.lists(st.integers(1, 5), min_size=1, max_size=4), batch=st.integers(1, 3))
@settings(max_examples=12, deadline=None)
def test_read_in_any_portions_the_logits_are_the_models(how, portions, batch):
    """float64 agrees to 1e-10, float32 to what seven digits allow; a training model is read as in evaluation."""
    model = lively(20, **MODELS[how])
    text, decoder, found = tokens(batch, sum(portions)), CachedGPT(model, batch), []
    for start, count in zip(np.cumsum([0, *portions]), portions):
        found.append(decoder.read(text[:, start:start + count]).data)
    want = model.eval()(text).data
    close = 1e-10 if want.dtype == np.float64 else 2e-5
    assert decoder.cache.keys[0].dtype == want.dtype == found[0].dtype
    np.testing.assert_allclose(np.concatenate(found, axis=1), want, rtol=close, atol=close)


@given(texts=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_whatever_was_asked_before_the_answer_is_the_models(texts):
    """Texts of three words, so that beginnings are often shared; each reads what is not shared, at least one token."""
    model, before = lively(), []
    decoder = CachedGPT(model)
    model.eval()
    for text in texts:
        shared = next((i for i, (a, b) in enumerate(zip(before, text)) if a != b), min(len(before), len(text)))
        events, logits = observe(lambda text=text: decoder(Tensor(np.array(text))))
        assert lookups(events) == [len(text) - min(shared, len(text) - 1)]
        np.testing.assert_allclose(logits.data, model(Tensor(np.array(text))).data[-1:], rtol=2e-5, atol=2e-5)
        before = text


@pytest.mark.parametrize("prompt", [[3], [3, 1, 4], [[3, 1], [4, 1]], np.array([[1], [2], [3]]),
                                    Tensor(np.array([5, 6])), list(range(11)) * 2, np.zeros((0, 3), int)], ids=str)
@pytest.mark.parametrize("temperature", [0, 0.3, 1.0, 2.5])
def test_the_tokens_are_module_13s(prompt, temperature):
    """Lists, arrays, Tensors, batches, none, prompts longer than the window; 20 tokens, so the window slides."""
    model = lively(dropout_prob=0.3)
    plain, kept = (write(model, prompt, 20, temperature, rng(5)) for write in (transformers.generate, generate))
    assert type(plain) is type(kept)
    assert np.array_equal(np.asarray(plain), np.asarray(kept))


def test_without_rng_the_default_generator_draws():
    model, found = lively(), []
    for write in (transformers.generate, generate):
        manual_seed(3)
        found.append(write(model, [1, 2], 30))
    assert found[0] == found[1]


@pytest.mark.parametrize(("prompt", "new"), [(3, 9), (3, 1), (12, 1), (5, 8), (1, 11)])
def test_what_is_read_is_what_was_counted(prompt, new):
    model = lively()
    for write, cached in ((transformers.generate, False), (generate, True)):
        events, _ = observe(lambda write=write: write(model, tokens(1, prompt), new, 0))
        assert sum(lookups(events)) == tokens_read(prompt, new, 12, cached)


def test_when_the_window_slides_all_is_read_again():
    """3 + 1 * 9 while it fits, then 12 each; from 12 different tokens on no two windows begin alike."""
    model = lively()
    events, text = observe(lambda: generate(model, list(range(11)) + [0], 4, 3.0, rng(2)))
    heads = [text[max(0, length - 12):length] for length in range(12, 16)]
    assert all(a[0] != b[0] for a, b in zip(heads, heads[1:]))  # else this seed would test nothing
    assert lookups(events) == [12] * 4


@pytest.mark.parametrize(("window", "new", "room"), [(100, 4, 7), (5, 400, 5), (7, 4, 7)])
def test_the_cache_has_room_for_what_is_written_and_no_more(window, new, room, monkeypatch):
    """Prompt and new tokens, or the window if that is less."""
    monkeypatch.setattr(transformers, "generate", lambda decoder, *rest: decoder.cache.shape)
    assert generate(lively(window), [1, 2, 3], new) == (1, 2, room, 4)
    assert generate(lively(window), [[1, 2, 3]] * 5, new) == (5, 2, room, 4)


@pytest.mark.parametrize(("arguments", "error", "words"), [
    (([], 3), ValueError, "prompt"), (([[]], 3), ValueError, "prompt"), (([11], 3), ValueError, "11"),
    ((3, 3), ValueError, "want"), ((np.array([True]), 1), TypeError, "booleans"), (("text", 1), TypeError, "str of"),
    (([1], -1), ValueError, "max_new_tokens"), (([1], True), TypeError, "max_new_tokens"),
    (([1], 2.0), TypeError, "max_new_tokens"), (([1], 1, -1), ValueError, "temperature"),
    (([1], 1, float("nan")), ValueError, "temperature"), (([1], 1, 1.0, 7), TypeError, "rng")])
def test_generate_refuses_what_module_13_refuses(arguments, error, words):
    for write in (transformers.generate, generate):
        with pytest.raises(error, match=words):
            write(lively(), *arguments)


def test_the_model_is_not_changed():
    model = lively(dropout_prob=0.4)
    model.blocks[1].eval()
    before = {name: array.copy() for name, array in model.state_dict().items()}
    kinds = [type(block.attention) for block in model.blocks]
    objects = [id(p) for p in model.parameters()]
    decoder = CachedGPT(model)
    generate(model, [1, 2], 30, rng=rng())
    decoder(tokens(5))
    assert [type(block.attention) for block in model.blocks] == kinds == [MultiHeadAttention] * 2
    assert model.training and not model.blocks[1].training and not decoder.training
    assert objects == [id(p) for p in model.parameters()] and all(p.grad is None for p in model.parameters())
    assert all(np.array_equal(before[name], array) for name, array in model.state_dict().items())
    assert thread_state().grad_enabled


def test_weights_are_shared_and_counted_once():
    model = lively()
    decoder = CachedGPT(model)
    assert count_parameters(decoder) == count_parameters(model)
    assert {id(p) for p in decoder.parameters()} == {id(p) for p in model.parameters()}
    assert decoder.cache.nbytes == kv_cache_bytes(2, 1, 2, 12, 4)


def test_a_changed_weight_needs_an_empty_cache():
    model, text = lively(), tokens(6)
    decoder = CachedGPT(model)
    decoder(text)
    model.blocks[0].attention.k_proj.weight.data *= -2
    want = model.eval()(text).data[-1:]
    assert np.abs(decoder(text).data - want).max() > 1e-3  # stale, as its docstring says
    decoder.cache.truncate(0)
    np.testing.assert_allclose(decoder(text).data, want, rtol=2e-5, atol=2e-5)


def test_a_block_that_is_listed_twice_has_two_places_in_the_cache():
    model = lively()
    model.blocks[1] = model.blocks[0]
    decoder, text = CachedGPT(model), tokens(7)
    for count in (3, 4, 7):
        logits = decoder(text[:count])
    np.testing.assert_allclose(logits.data, model.eval()(text).data[-1:], rtol=2e-5, atol=2e-5)
    assert count_parameters(decoder) == count_parameters(model)


def test_a_gpt_of_another_architecture_is_read_by_its_own_forward():
    """Only attention and positions are exchanged: post-norm blocks and a forward of its own need nothing more."""
    class PostNorm(TransformerBlock):
        def forward(self, x, is_causal=False):
            x = self.ln1(x + self.attention(x, is_causal=is_causal))
            return self.ln2(x + self.mlp(x))

    class Doubled(GPT):
        def forward(self, tokens):
            return super().forward(tokens) * 2.0

    model = Doubled(VOCAB, WIDTH, 2, 2, 12, rng=rng())
    model.blocks = [PostNorm(WIDTH, 2, rng=rng(i)) for i in range(2)]
    decoder, text = CachedGPT(model), tokens(5)
    for count in (2, 3, 5):
        logits = decoder(text[:count])
    np.testing.assert_allclose(logits.data, model.eval()(text).data[-1:], rtol=2e-5, atol=2e-5)


class Strange(MultiHeadAttention):
    def forward(self, query, mask=None, is_causal=False):
        return query


class Silent(TransformerBlock):
    def forward(self, x, is_causal=False):
        return x


def strange_models():
    sinus, attention, instance = lively(), lively(), lively()
    sinus.position_embedding = SinusoidalEncoding(12, WIDTH)
    attention.blocks[1].attention = Strange(WIDTH, 2)
    instance.blocks[0].attention.forward = lambda x, is_causal: x
    return {"SinusoidalEncoding": sinus, "Strange": attention, "MultiHeadAttention": instance}


@pytest.mark.parametrize("name", strange_models())
def test_what_cannot_be_cached_is_refused_by_name(name):
    with pytest.raises(TypeError, match=f"a {name} stands where"):
        CachedGPT(strange_models()[name])
    with pytest.raises(TypeError, match="want a GPT"):
        CachedGPT(Layer())


def test_a_block_that_does_not_attend_is_noticed():
    model = lively()
    model.blocks[1] = Silent(WIDTH, 2)
    decoder = CachedGPT(model)
    with pytest.raises(ValueError, match="not every block"):
        decoder.read(tokens(1, 3))
    assert decoder.cache.position == 0 and decoder.cache._lengths == [0, 0]


def test_a_mask_is_refused():
    attention = MultiHeadAttention(8, 2)
    for how in ({"mask": np.ones((1, 1), bool)}, {"is_causal": False}):
        with pytest.raises(ValueError, match="is_causal=True and no mask"):
            CachedAttention(attention, KVCache(1, 1, 2, 4, 4), 0)(Tensor(np.ones((1, 1, 8))), **how)


class Breaks(Layer):
    def __init__(self, inner, error):
        self.inner, self.error, self.armed = inner, error, True

    def forward(self, x):
        if self.armed:
            raise self.error
        return self.inner(x)


@pytest.mark.parametrize("error", [ValueError("half way"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("where", ["between layers", "at the end"])
def test_after_an_error_all_is_as_before(error, where):
    model, text = lively(), tokens(6)
    decoder = CachedGPT(model)
    decoder(text[:4])
    inner = decoder.model
    if where == "between layers":
        trap = inner.blocks[0].mlp = Breaks(inner.blocks[0].mlp, error)
    else:
        trap = inner.ln_f = Breaks(inner.ln_f, error)
    with pytest.raises(type(error)):
        decoder(text)
    assert decoder.cache.position == 4 and decoder.cache._lengths == [4, 4] and thread_state().grad_enabled
    trap.armed = False
    events, logits = observe(lambda: decoder(text))
    assert lookups(events) == [2]
    np.testing.assert_allclose(logits.data, model.eval()(text).data[-1:], rtol=2e-5, atol=2e-5)


def test_an_interrupt_before_the_note_leaves_no_token_without_a_name(monkeypatch):
    """The 1 was read and not noted: what comes next follows the 3, and is not taken for what follows the 1."""
    def interrupted(*_):
        raise KeyboardInterrupt

    model = lively()
    decoder = CachedGPT(model)
    decoder.read([3])
    with monkeypatch.context() as patch:
        patch.setattr(CachedGPT, "_note", interrupted)
        with pytest.raises(KeyboardInterrupt):
            decoder.read([1])
    want = model.eval()([3, 4, 7]).data
    np.testing.assert_allclose(decoder.read([4]).data[0], want[1:2], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(decoder([3, 4, 7]).data, want[2:], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kept", [0, 1, 3])
@pytest.mark.parametrize("ask", [lambda decoder: decoder([3, 1, 4, 1]), lambda decoder: decoder.read([1])[0]])
def test_what_somebody_else_wrote_to_the_cache_is_not_taken_for_the_noted_tokens(kept, ask):
    """[3, 1, 4] is noted; behind the first ``kept`` of them others are written: those are read again, or forgotten."""
    model = lively()
    decoder = CachedGPT(model)
    decoder.read([3, 1, 4])
    decoder.cache.truncate(kept)
    with no_grad():
        decoder.model(Tensor(np.array([[9, 9]])))
    found = ask(decoder).data
    held = decoder.tokens[0, :decoder.cache.position]
    assert held.tolist() in ([3, 1, 4, 1], [3, 1, 4][:kept] + [1])
    np.testing.assert_allclose(found, model.eval()(Tensor(held)).data[-1:], rtol=2e-5, atol=2e-5)


def test_nothing_is_dropped_whoever_turned_training_on():
    model = lively(dropout_prob=0.5)
    decoder = CachedGPT(model)
    decoder.train()
    want = model.eval()([3, 1, 4]).data
    np.testing.assert_allclose(decoder([3, 1, 4]).data, want[-1:], rtol=2e-5, atol=2e-5)
    decoder.cache.truncate(0)
    decoder.train()
    np.testing.assert_allclose(decoder.read([3, 1, 4]).data[0], want, rtol=2e-5, atol=2e-5)


def test_what_is_no_gpt_with_blocks_is_refused_by_all():
    empty = lively()
    empty.blocks = []
    for use in (CachedGPT, lambda model: generate(model, [1], 1), lambda model: token_flops(model, 1)):
        with pytest.raises(ValueError, match="without blocks"):
            use(empty)
        with pytest.raises(TypeError, match="a NoneType came; want a GPT"):
            use(None)


@pytest.mark.parametrize(("shape", "error"), [((13,), ValueError), ((2, 3), ValueError), ((0,), ValueError),
                                              ((1, 0), ValueError), ((), ValueError), ((1, 1, 2), ValueError)])
def test_texts_that_do_not_fit_leave_no_trace(shape, error):
    decoder = CachedGPT(lively())
    decoder(tokens(4))
    for ask in (decoder, decoder.read):
        with pytest.raises(error, match="want|room"):
            ask(tokens(*shape, seed=3))
        assert decoder.cache.position in (4, 0)  # a text with another beginning may have been forgotten, never added to
    with pytest.raises(ValueError, match="token 99"):
        decoder(Tensor(np.array([99])))
    assert decoder(tokens(4)).shape == (1, VOCAB)


def test_room():
    with pytest.raises(ValueError, match="positions for 12"):
        CachedGPT(lively(), max_len=13)
    with pytest.raises(ValueError, match="max_len"):
        CachedGPT(lively(), max_len=0)
    decoder = CachedGPT(lively(), batch=2, max_len=3)
    assert decoder.read(tokens(2, 3)).shape == (2, 3, VOCAB) and decoder.max_seq_len == 3
    with pytest.raises(ValueError, match="room for 3"):
        decoder.read(tokens(2, 1))


def test_lists_are_tokens_too():
    decoder = CachedGPT(lively())
    assert decoder([1, 2, 3]).shape == (1, VOCAB) and decoder([[1, 2, 3, 4]]).shape == (1, 1, VOCAB)
    assert decoder.read([5]).shape == (1, 1, VOCAB) and decoder.cache.position == 5


def test_truncating_the_cache_by_hand_is_safe():
    model, text = lively(), tokens(6)
    decoder = CachedGPT(model)
    decoder(text)
    decoder.cache.truncate(2)
    events, logits = observe(lambda: decoder(text))
    assert lookups(events) == [4]
    np.testing.assert_allclose(logits.data, model.eval()(text).data[-1:], rtol=2e-5, atol=2e-5)


# Measuring: nothing moves, and the numbers are the closed forms

def test_measuring_does_not_advance_it():
    decoder, text = CachedGPT(lively(dropout_prob=0.0)), tokens(1, 8)
    decoder(text[:, :7])
    ticks = iter(range(0, 10**9, 1000))
    for measure in (
            lambda: count_flops(decoder, (1, 8)), lambda: flop_report(decoder, (1, 8)),
            lambda: measure_memory(decoder, (1, 8), text),
            lambda: latency_statistics(decoder, text, 2, 5, clock=lambda: next(ticks)),
            lambda: profile_forward_pass(decoder, text, clock=lambda: next(ticks), limits=MachineLimits(100, 10, 1),
                                         iterations=3)):
        before = [array.copy() for array in decoder.cache.keys]
        measure()
        assert decoder.cache.position == 7 and decoder.tokens.shape == (1, 7)
        assert all(np.array_equal(a, b) for a, b in zip(before, decoder.cache.keys))


def test_a_run_on_shapes_leaves_nothing_in_a_cache_of_numbers():
    model, text = lively(), tokens(1, 5)
    decoder = CachedGPT(model)
    decoder(text)
    with shape_only():
        assert decoder.read(Tensor(hollow((1, 3), np.int64))).shape == (1, 3, VOCAB)
        assert decoder(Tensor(hollow((1, 9), np.int64))).shape == (1, 1, VOCAB)
    assert decoder.cache.position == 5 and decoder.tokens.tolist() == text.data.tolist()
    np.testing.assert_allclose(decoder(text).data, model.eval()(text).data[:, -1:], rtol=2e-5, atol=2e-5)


def test_on_shapes_the_same_is_counted_as_in_a_run():
    model, text = lively(dropout_prob=0.0), tokens(1, 8)
    decoder = CachedGPT(model)
    decoder(text[:, :5])
    counted = flop_report(decoder, (1, 8))
    events, _ = observe(lambda: decoder(text))
    assert counted.total == sum(map(event_flops, events)) and not counted.uncounted
    assert counted.op_calls["store"] == 4  # keys and values of two layers


@given(width=st.sampled_from([4, 8, 12]), layers=st.integers(1, 3), vocab=st.integers(2, 9), length=st.integers(1, 9))
@settings(max_examples=20, deadline=None)
def test_contractions_are_the_closed_forms(width, layers, vocab, length):
    """All read: L (24 T D² + 4 T² D) + 2 T D V; cached: L (24 D² + 4 T D) + 2 D V; in all, one is T times the other."""
    model = GPT(vocab, width, layers, 2, max_seq_len=10, dropout_prob=0.0)
    plain = flop_report(model, (1, length)).contractions
    assert plain == layers * (24 * length * width**2 + 4 * length**2 * width) + 2 * length * width * vocab
    decoder = CachedGPT(model)
    if length > 1:
        decoder.read(Tensor(np.zeros((1, length - 1), np.int64)))
    cached = flop_report(decoder, (1, length)).contractions
    assert cached == layers * (24 * width**2 + 4 * length * width) + 2 * width * vocab
    again, kept = token_flops(model, length)
    assert again == length * kept


def test_token_flops_leaves_a_training_model_as_it_was():
    model = lively(dropout_prob=0.5)
    assert token_flops(model, 4) == token_flops(model.eval(), 4)
    assert lively(dropout_prob=0.5).training


def test_gpt2_small_on_shapes():
    """12 (24 · 1024 · 768² + 4 · 1024² · 768) + 2 · 1024 · 768 · 50257 = 291,648,307,200, and one 1024th of it."""
    with shape_only():
        model = GPT(50257, 768, 12, 12, dropout_prob=0.0)
        assert CachedGPT(model).cache.nbytes == 75_497_472  # 2 · 12 · 12 · 1024 · 64 · 4
        decoder = CachedGPT(model)
        decoder.read(Tensor(hollow((1, 1023), np.int64)))
        report = flop_report(decoder, (1, 1024))
    assert flop_report(model, (1, 1024)).contractions == 291_648_307_200 == 1024 * report.contractions


def test_a_token_writes_as_many_bytes_however_long_the_text():
    """Two layers, keys and values, 8 float32 of one token each, read and written: 2 · 2 · 8 · 4 · 2 = 256 bytes."""
    decoder, text, moved = CachedGPT(lively()), tokens(1, 12), []
    decoder(text[:, :1])
    for length in range(2, 13):
        events, _ = observe(lambda length=length: decoder(text[:, :length]))
        moved.append(sum(e.num_bytes for e in events if e.op.name == "store"))
    assert moved == [256] * 11


def test_compare_accepts_the_two_ways_of_writing():
    model, ticks = lively(), iter(range(0, 10**9, 1000))

    def way(write):
        return lambda prompt: Tensor(write(model, prompt.data, 5, 0))

    found = compare(way(transformers.generate), way(generate), tokens(1, 3), rounds=6, clock=lambda: next(ticks))
    assert found["outputs_equal"] == "exactly"


def test_all_computing_passes_the_door():
    """What comes out depends on nothing that no op has made: with the door's ops replayed on shapes, shapes agree."""
    decoder, heard = CachedGPT(lively()), []
    with listen(heard.append):
        logits = decoder(tokens(1, 4))
    assert logits.shape == heard[-1].out_shape
    assert {"store", "linear", "matmul", "index", "exp"} <= {event.op.name for event in heard}


def test_a_copied_decoder_remembers_by_itself():
    decoder, text = CachedGPT(lively()), tokens(5)
    decoder(text)
    other = copy.deepcopy(decoder)
    other(text[:2])
    assert (decoder.cache.position, other.cache.position) == (5, 2)
    events, _ = observe(lambda: other(text))
    assert lookups(events) == [3]


def test_with_cache_shares_every_tensor():
    model = lively(tie_weights=False)
    reader = with_cache(model, KVCache(2, 1, 2, 12, 4))
    shared = {id(p) for p in model.parameters()}
    assert len(shared) > 20 and {id(p) for p in reader.parameters()} == shared

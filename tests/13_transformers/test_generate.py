"""Sampling and generate: shares, seeds, windows, modes, what comes back, what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.core.layers import default_generator, manual_seed
from tinytorch.core.tensor import Tensor, hollow, shape_only, thread_state
from tinytorch.core.transformers import GPT, Layer, draw, extend, generate, next_token_pairs, sample, token_shares


def rng(seed=0):
    return np.random.default_rng(seed)


def lively(**how):
    """A model that has opinions: weights as large as after training."""
    model = GPT(11, 8, 2, 2, max_seq_len=6, **how)
    for p in model.parameters():
        p.data[...] = rng(1).normal(0, 0.6, p.shape)
    return model


class Spy(Layer):
    """Every next token is equally likely, or the row's own scores; keeps what it was asked, and how."""

    vocab_size, max_seq_len = 4, 3

    def __init__(self, scores=(0.0, 0.0, 0.0, 0.0)):
        self.scores, self.seen = scores, []
        self.inner = [GPT(4, 4, 1, 1, 3)]

    def forward(self, tokens):
        self.seen.append((tokens.data.tolist(), self.training, self.inner[0].training, thread_state().grad_enabled))
        return Tensor(np.broadcast_to(np.array(self.scores), (*tokens.shape, 4)).copy())


@given(rows=st.integers(0, 3), tokens=st.integers(1, 6), temperature=st.floats(0.05, 20), seed=st.integers(0, 99))
def test_shares_are_the_softmax_of_scores_over_temperature(rows, tokens, temperature, seed):
    logits = rng(seed).standard_normal((rows, tokens)) * 5
    shares = token_shares(Tensor(logits, dtype=np.float64), temperature)
    powers = np.exp((logits - logits.max(-1, keepdims=True)) / temperature)
    np.testing.assert_allclose(shares, powers / powers.sum(-1, keepdims=True), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_shares(temperature):
    """20,000 draws at a fixed seed; the bound is five standard deviations, sqrt(n p (1 - p)), for each of six tokens.

    A right sampler fails at one seed in about 300,000, one that forgets the temperature always.
    """
    logits, n = np.array([0.0, 1.0, 2.0, -1.0, 0.5, 3.0]), 20_000
    powers = np.exp(logits / temperature)
    p = powers / powers.sum()
    counts = np.bincount(sample(Tensor(np.tile(logits, (n, 1))), temperature, rng(8)), minlength=6)
    assert (np.abs(counts - n * p) < 5 * np.sqrt(n * p * (1 - p))).all()
    other = np.exp(logits) / np.exp(logits).sum() if temperature != 1.0 else np.full(6, 1 / 6)
    assert (np.abs(counts - n * other) > 5 * np.sqrt(n * other * (1 - other))).any()


def test_what_a_model_writes_follows_its_shares():
    """The same through generate: shares 1/2, 1/4, 1/8, 1/8; 8,000 first tokens; five standard deviations."""
    p = np.array([0.5, 0.25, 0.125, 0.125])
    written = generate(Spy(np.log(p)), np.zeros((8000, 1), int), 1, rng=rng(3))[:, -1]
    assert (np.abs(np.bincount(written, minlength=4) - 8000 * p) < 5 * np.sqrt(8000 * p * (1 - p))).all()


def test_forbidden_tokens_are_never_drawn():
    logits = np.full((5000, 4), -np.inf)
    logits[:, 1:3] = 0.0
    assert set(sample(Tensor(logits), 3.0, rng()).tolist()) == {1, 2}


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0), (2, 3)])
def test_any_leading_axes(shape):
    out = sample(Tensor(rng().standard_normal((*shape, 5))), 1.0, rng())
    assert out.shape == shape and out.dtype == np.int64
    assert sample(Tensor(rng().standard_normal((*shape, 5))), 0).shape == shape


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_extreme_temperatures_have_their_limits(dtype):
    """Towards 0 the largest takes all, far above 1 all are alike; no overflow on the way."""
    logits = Tensor(np.array([[1.0, 300.0, -300.0]] * 300, dtype=dtype))
    for cold in (0, 1e-300, 1e-20, 1e-3):
        assert (sample(logits, cold, rng()) == 1).all()
    assert np.bincount(sample(logits, 1e9, rng())).min() > 60  # of 100 on average


def test_draw_stays_below_the_vocabulary():
    class Top:
        def random(self, size):
            return np.full(size, np.nextafter(1.0, 0.0))

    for seed in range(50):
        shares = rng(seed).random((20, 7)) + 1e-3
        shares /= shares.sum(-1, keepdims=True) * (1 + (seed - 25) * 1e-15)
        assert (draw(shares, Top()) == 6).all()


@pytest.mark.parametrize("bad", [[np.nan, 0.0], [np.inf, 0.0], [-np.inf, -np.inf]])
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_scores_without_shares_are_refused(bad, temperature):
    with pytest.raises(ValueError, match="finite"):
        sample(Tensor([[1.0, 2.0], bad]), temperature, rng())


def test_no_scores_are_refused():
    for shape in ((), (2, 0)):
        with pytest.raises(ValueError, match="logits"):
            sample(Tensor(np.zeros(shape)))


@pytest.mark.parametrize("temperature", [-1, -1e-9, float("nan"), float("inf")])
def test_no_temperature(temperature):
    model = Spy()
    with pytest.raises(ValueError, match="temperature"):
        generate(model, [1], 0, temperature=temperature)
    assert model.seen == []


@pytest.mark.parametrize("temperature", [True, "hot", None])
def test_what_is_no_number_is_no_temperature(temperature):
    with pytest.raises(TypeError, match="temperature"):
        generate(Spy(), [1], 1, temperature=temperature)


def test_a_list_for_a_list():
    out = lively().generate([1, 2], 3, rng=rng())
    assert type(out) is list and len(out) == 5 and all(type(token) is int for token in out) and out[:2] == [1, 2]
    out = lively().generate([[1, 2], [3, 4]], 3, rng=rng())
    assert [len(row) for row in out] == [5, 5] and out[1][:2] == [3, 4]
    assert lively().generate((1, 2), 1, rng=rng())[:2] == [1, 2]


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(3,), (1, 3), (4, 3), (0, 3)])
def test_an_array_for_an_array_and_a_tensor_for_a_tensor(shape, dtype):
    prompt = rng().integers(0, 11, shape).astype(dtype)
    for kind in (np.asarray, Tensor):
        out = lively().generate(kind(prompt), 2, rng=rng())
        assert type(out) is type(kind(prompt)) and out.shape == (*shape[:-1], 5) and out.dtype == np.int64
        array = out.data if kind is Tensor else out
        assert (array[..., :3] == prompt).all() and ((array >= 0) & (array < 11)).all()


def test_no_new_tokens_return_the_prompt():
    model = Spy()
    prompt = np.array([[1, 2, 3, 0, 1]])
    out = generate(model, prompt, 0)
    assert (out == prompt).all() and model.seen == [] and not np.may_share_memory(out, prompt)
    assert generate(model, [2], 0) == [2]


def test_the_prompt_is_left_as_it_was():
    prompt = np.array([[1, 2]])
    lively().generate(prompt, 4, rng=rng())
    assert prompt.tolist() == [[1, 2]]


@pytest.mark.parametrize("prompt", [[], [[]], np.zeros((2, 0), int)])
def test_an_empty_prompt(prompt):
    with pytest.raises(ValueError, match="prompt"):
        lively().generate(prompt, 3)


@pytest.mark.parametrize("prompt", [[11], [-1], [[0, 12]], [0.5]])
def test_strangers_are_named(prompt):
    with pytest.raises(ValueError, match=str(np.ravel(prompt)[-1])):
        lively().generate(prompt, 3)


@pytest.mark.parametrize("prompt", [3, np.zeros((1, 1, 2), int)])
def test_wrong_ranks(prompt):
    with pytest.raises(ValueError, match="want"):
        lively().generate(prompt, 3)


@pytest.mark.parametrize("prompt", ["text", [[1, 2], [3]], None, np.array([True, False])])
def test_no_tokens_at_all(prompt):
    with pytest.raises(TypeError):
        lively().generate(prompt, 3)


@pytest.mark.parametrize(("count", "error"), [(-1, ValueError), (True, TypeError), (2.0, TypeError), ("3", TypeError)])
def test_max_new_tokens(count, error):
    with pytest.raises(error, match="max_new_tokens"):
        lively().generate([1], count)


def test_temperature_0_is_the_argmax_and_needs_no_luck():
    model = lively()
    before = default_generator().bit_generator.state
    texts = [model.generate([3, 1], 8, temperature=0, rng=luck) for luck in (None, rng(0), rng(1))]
    assert texts[0] == texts[1] == texts[2] and default_generator().bit_generator.state == before
    ids = [3, 1]
    for _ in range(8):
        ids.append(int(model.eval()(Tensor(np.array(ids[-6:]))).data[-1].argmax()))
    assert texts[0] == ids


def test_the_same_seed_the_same_text():
    model = lively()
    texts = [model.generate([1], 30, rng=rng(seed)) for seed in (4, 4, 5)]
    assert texts[0] == texts[1] != texts[2]
    manual_seed(9)
    first = model.generate([1], 30)
    manual_seed(9)
    assert model.generate([1], 30) == first


def test_dropout_does_not_write_along():
    """A model with dropout, left in training mode, writes what it writes in evaluation mode."""
    model = lively(dropout_prob=0.5)
    assert model.generate([1, 2], 20, temperature=0) == model.eval().generate([1, 2], 20, temperature=0)


def test_it_never_looks_further_back_than_max_seq_len():
    model = Spy((0.0, 9.0, 0.0, 0.0))
    generate(model, [[0, 2, 3, 2, 0]], 3, temperature=0)
    assert [tokens for tokens, *_ in model.seen] == [[[3, 2, 0]], [[2, 0, 1]], [[0, 1, 1]]]
    real = lively()
    long = [5, 5, 5, 1, 2, 3, 4, 5, 6]  # only the last six are read
    assert real.generate(long, 5, temperature=0)[9:] == real.generate([9, 9, 9, *long[3:]], 5, temperature=0)[9:]


def test_modes_and_gradients_inside_and_afterwards():
    model = Spy()
    model.inner[0].eval()
    generate(model, [1], 2)
    assert [seen[1:] for seen in model.seen] == [(False, False, False)] * 2
    assert model.training and not model.inner[0].training and thread_state().grad_enabled
    assert "training" not in vars(model)


def test_modes_after_an_error():
    class Broken(Spy):
        def forward(self, tokens):
            raise KeyboardInterrupt

    model = Broken()
    with pytest.raises(KeyboardInterrupt):
        generate(model, [1], 2)
    assert model.training and model.inner[0].training and thread_state().grad_enabled


def test_gradients_are_left_alone():
    model = lively()
    model(Tensor([[1, 2]])).sum().backward()
    before = [p.grad for p in model.parameters()]
    model.generate([1], 3)
    assert all(p.grad is grad for p, grad in zip(model.parameters(), before))


def test_rows_of_a_batch_go_their_own_way():
    model = lively()
    out = model.generate(np.array([[1, 2], [7, 8]]), 6, temperature=0)
    for row in out:
        assert model.generate(row[:2], 6, temperature=0).tolist() == row.tolist()


def test_there_is_nothing_to_choose_on_shapes_only():
    with shape_only(), pytest.raises(ValueError, match="shape-only"):
        GPT(11, 8, 1, 2, 6).generate(Tensor(hollow((1, 3), np.int64)), 2)


def test_extend_takes_more_axes_than_generate():
    assert extend(Spy(), np.ones((2, 3, 1), int), 2, 0).shape == (2, 3, 3)


@given(lead=st.lists(st.integers(0, 3), max_size=2), length=st.integers(2, 6))
def test_targets_are_the_text_one_place_on(lead, length):
    tokens = rng().integers(0, 9, (*lead, length))
    inputs, targets = next_token_pairs(tokens)
    assert inputs.shape == targets.shape == (*lead, length - 1)
    assert (inputs[..., 1:] == targets[..., :-1]).all() and (targets[..., -1] == tokens[..., -1]).all()


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (3, 0)])
def test_too_few_tokens_for_a_pair(shape):
    with pytest.raises(ValueError, match="at least two"):
        next_token_pairs(np.zeros(shape, int))

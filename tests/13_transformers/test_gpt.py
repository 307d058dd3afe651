"""GPT: numbers that are known, the tied head, causality, refusals, and models that were never allocated."""

import copy
import tracemalloc
from math import prod

import numpy as np
import pytest

from tinytorch.core.autograd import check_gradient
from tinytorch.core.layers import Linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tensor import Tensor, hollow, listen, shape_only
from tinytorch.core.transformers import GPT

TOKENS = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def small(**how):
    how = {"dropout_prob": 0.0, "rng": np.random.default_rng(0), **how}
    return GPT(11, 8, 2, 2, max_seq_len=6, **how)


def lively(**how):
    """A model whose weights are as large as after training, so that a difference shows."""
    model, rng = small(**how).eval(), np.random.default_rng(1)
    for p in model.parameters():
        p.data[...] = rng.normal(0, 0.5, p.shape)
    return model


def hollow_gpt(*sizes, **how):
    with shape_only():
        return GPT(*sizes, **how)


def numbers(model):
    return sum(p.size for p in model.parameters())


@pytest.mark.parametrize(("sizes", "known"), [
    ((50257, 768, 12, 12, 1024), 124_439_808), ((50257, 1024, 24, 16, 1024), 354_823_168),
    ((50257, 1280, 36, 20, 1024), 774_030_080), ((50257, 1600, 48, 25, 1024), 1_557_611_200),
    ((50257, 12288, 96, 96, 2048), 174_604_259_328)])
def test_published_sizes(sizes, known):
    """Two tables (V + T) D, blocks of 12 D² + 13 D, a last norm of 2 D."""
    vocab, dim, layers, _, length = sizes
    assert numbers(hollow_gpt(*sizes)) == (vocab + length) * dim + layers * (12 * dim**2 + 13 * dim) + 2 * dim == known


def test_a_head_of_its_own_is_a_quarter_of_gpt2_small():
    assert numbers(hollow_gpt(50257, 768, 12, 12, tie_weights=False)) - 124_439_808 == 50257 * 768


@pytest.mark.parametrize(("length", "known"), [(1024, 291_648_307_200), (1, 247_100_928)])
def test_contractions_of_gpt2_small(length, known):
    """A block: 24 T D² + 4 T² D; the head: 2 T D V. Counted from the products that ran, 2 * prod(out) * inner."""
    model, events = hollow_gpt(50257, 768, 12, 12), []
    with shape_only(), listen(events.append):
        model(Tensor(hollow((1, length), np.int64)))
    counted = sum(2 * prod(e.out_shape) * e.in_shapes[0][-1] for e in events if e.op.name in ("linear", "matmul"))
    assert counted == 12 * (24 * length * 768**2 + 4 * length**2 * 768) + 2 * length * 768 * 50257 == known


def test_gpt3_is_never_allocated():
    """698 GB of weights; building it and running it on shapes stays under 100 MB."""
    tracemalloc.start()
    try:
        model = hollow_gpt(50257, 12288, 96, 96, 2048)
        with shape_only():
            logits = model(Tensor(hollow((1, 2048), np.int64)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert logits.shape == (1, 2048, 50257) and peak < 100e6


def test_the_hollow_run_has_the_shapes_and_ops_of_the_real_one():
    model, runs = lively(), []
    for hollow_run in (False, True):
        events = []
        with listen(events.append):
            model(Tensor(TOKENS))
        if hollow_run:
            events = []
            with shape_only(), listen(events.append):
                model(Tensor(hollow(TOKENS.shape, np.int64)))
        runs.append([(e.op.name, e.in_shapes, e.out_shape) for e in events])
    assert runs[0] == runs[1]


def test_later_tokens_never_change_earlier_logits():
    model = lively()
    before = model(Tensor(TOKENS)).data
    for place in range(5):
        other = TOKENS.copy()
        other[:, place] = (other[:, place] + 1) % 11
        after = model(Tensor(other)).data
        np.testing.assert_array_equal(after[:, :place], before[:, :place])
        assert (after[:, place:] != before[:, place:]).any(axis=(0, 2)).all()


def test_no_gradient_comes_from_the_future():
    """The logits at position 2 reach the embeddings of tokens 0 to 2 and no other row, the head aside."""
    model = small(tie_weights=False)
    model(Tensor([[1, 2, 3, 4, 5]]))[:, 2].sum().backward()
    touched = (model.token_embedding.weight.grad.data != 0).any(axis=1)
    assert np.flatnonzero(touched).tolist() == [1, 2, 3]
    assert np.flatnonzero((model.position_embedding.weight.grad.data != 0).any(axis=1)).tolist() == [0, 1, 2]


def test_rows_of_a_batch_are_independent():
    model = lively()
    whole = model(Tensor(TOKENS)).data
    np.testing.assert_allclose(model(Tensor(TOKENS[1:])).data[0], whole[1], atol=1e-5)
    other = TOKENS.copy()
    other[0] = 7
    np.testing.assert_array_equal(model(Tensor(other)).data[1], whole[1])


@pytest.mark.parametrize("lead", [(), (0,), (2,), (2, 3)])
def test_any_leading_axes(lead):
    """A single text (T,) gives (T, V); an empty batch gives an empty batch."""
    tokens = np.random.default_rng(0).integers(0, 11, (*lead, 4))
    assert lively()(Tensor(tokens)).shape == (*lead, 4, 11)


def test_a_shorter_text_is_the_beginning_of_a_longer_one():
    model = lively()
    np.testing.assert_allclose(model(Tensor(TOKENS[:, :3])).data, model(Tensor(TOKENS)).data[:, :3], atol=1e-5)


def test_whole_floats_are_tokens():
    model = lively()
    assert (model(Tensor(TOKENS.astype(np.float32))).data == model(Tensor(TOKENS)).data).all()


@pytest.mark.parametrize("what", [np.array([[0, 11]]), np.array([[-1, 0]]), np.array([[0.5, 1.0]])])
def test_strangers_are_refused(what):
    with pytest.raises(ValueError, match="token"):
        small()(Tensor(what))


def test_too_long_a_text_is_refused_by_both_lengths():
    with pytest.raises(ValueError) as caught:
        small()(Tensor(np.zeros((2, 9), int)))
    assert "9" in str(caught.value) and "6" in str(caught.value)
    with pytest.raises(ValueError), shape_only():
        small()(Tensor(hollow((2, 9), np.int64)))


def test_a_lone_token_is_refused():
    with pytest.raises(ValueError):
        small()(Tensor(np.array(3)))


@pytest.mark.parametrize("sizes", [(0, 8, 2, 2), (11, 0, 2, 2), (11, 8, 0, 2), (11, 8, 2, 0), (11, 8, 2, 3),
                                   (11, 8, 2, 2, 0)])
def test_impossible_sizes(sizes):
    with pytest.raises(ValueError):
        GPT(*sizes)


@pytest.mark.parametrize("sizes", [(11.0, 8, 2, 2), (11, 8, True, 2), (11, 8, 2, 2, 6.5)])
def test_sizes_that_are_no_integers(sizes):
    with pytest.raises(TypeError, match="positive integer"):
        GPT(*sizes)


def test_start():
    """Tables normal with 0.02, biases 0, norms 1, so the first loss is near log V."""
    model = GPT(500, 64, 2, 4, max_seq_len=64, dropout_prob=0.0, rng=np.random.default_rng(0))
    assert abs(model.token_embedding.weight.data.std() - 0.02) < 1e-3
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            assert (p.data == 0).all()
        elif "ln" in name:
            assert (p.data == 1).all()
    tokens = np.random.default_rng(1).integers(0, 500, (4, 65))
    loss = CrossEntropyLoss()(model(Tensor(tokens[:, :-1])), Tensor(tokens[:, 1:])).item()
    assert abs(loss - np.log(500)) < 0.1


def test_the_same_seed_the_same_model():
    one, other = small(), small()
    assert all((a.data == b.data).all() for a, b in zip(one.parameters(), other.parameters()))


def test_dropout_acts_in_training_only():
    model = small(dropout_prob=0.5)
    assert (model(Tensor(TOKENS)).data != model(Tensor(TOKENS)).data).any()
    model.eval()
    assert (model(Tensor(TOKENS)).data == model(Tensor(TOKENS)).data).all()
    assert (model.train()(Tensor(TOKENS)).data != model(Tensor(TOKENS)).data).any()


def float64_gpt(tie_weights):
    model = GPT(5, 4, 1, 2, max_seq_len=3, dropout_prob=0.0, tie_weights=tie_weights, rng=np.random.default_rng(0))
    draw = np.random.default_rng(1)
    for p in model.parameters():  # the Tensors stay the objects they are, so what is tied stays tied
        p.data = draw.normal(0, 0.5, p.shape)
    return model


@pytest.mark.parametrize("tie_weights", [True, False])
def test_every_parameter_has_the_gradient_of_differences(tie_weights):
    """In float64, through the loss; the tied table gets the sum of its two uses."""
    model = float64_gpt(tie_weights)
    named, tokens = model.named_parameters(), Tensor(np.array([[1, 4, 1], [0, 2, 3]]))

    def run(*weights):
        for (name, _), weight in zip(named, weights):
            *path, last = name.split(".")
            owner = model
            for step in path:
                owner = owner[int(step)] if isinstance(owner, list) else getattr(owner, step)
            setattr(owner, last, weight)
        return CrossEntropyLoss()(model(tokens), Tensor(np.array([[4, 1, 2], [2, 3, 0]])))

    out = run(*[p for _, p in named])
    assert out.dtype == np.float64
    assert check_gradient(run, *[p for _, p in named]) < 1e-6


def test_both_uses_of_the_tied_table_add_up():
    """The same weights, tied and not: the tied gradient is the embedding's plus the head's, transposed."""
    tied, untied = lively(), lively(tie_weights=False)
    for name, p in untied.named_parameters():
        if name != "head.weight":
            p.data[...] = dict(tied.named_parameters())[name].data
    untied.head.weight.data[...] = tied.token_embedding.weight.data.T
    for model in (tied, untied):
        CrossEntropyLoss()(model(Tensor(TOKENS)), Tensor(TOKENS[::-1].copy())).backward()
    as_embedding, as_head = untied.token_embedding.weight.grad.data, untied.head.weight.grad.data.T
    np.testing.assert_allclose(tied.token_embedding.weight.grad.data, as_embedding + as_head, atol=1e-6)
    assert (np.abs(as_embedding).max(axis=1) > 0).sum() == len(np.unique(TOKENS))  # only rows that were read
    assert (np.abs(as_head).max(axis=1) > 0).all()  # every row is compared with every position


def test_a_copy_keeps_the_tie():
    model = lively()
    other = copy.deepcopy(model)
    assert numbers(other) == numbers(model) == 1_896
    assert not any("head" in name for name, _ in other.named_parameters())
    before = other(Tensor(TOKENS)).data
    other.token_embedding.weight.data[10] += 1  # token 10 is not read: only the head can see the change
    assert (other(Tensor(TOKENS)).data[..., 10] != before[..., 10]).any()
    assert (model(Tensor(TOKENS)).data == before).all()


def test_an_optimizer_moves_the_tied_table_once():
    model = lively().train()
    assert len(AdamW(model.parameters(), 0.1).params) == 2 + 2 * 16 + 2
    untied = lively(tie_weights=False)
    assert len(untied.parameters()) == 2 + 2 * 16 + 2 + 1 and untied.head.bias is None


def test_tying_by_assignment():
    """An untied model whose head is given the table, seen transposed, is the tied one."""
    tied, model = lively(), lively(tie_weights=False)
    for (_, p), (_, q) in zip(model.named_parameters(), tied.named_parameters()):
        p.data[...] = q.data
    model.head = Linear(8, 11, bias=False)
    model.head.weight = model.token_embedding.weight.T
    np.testing.assert_allclose(model(Tensor(TOKENS)).data, tied(Tensor(TOKENS)).data, atol=1e-5)


def test_name():
    assert repr(small()) == "GPT(11, 8, 2, 2)"

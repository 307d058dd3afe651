"""Tokenizers: lossless on every string, the same merges everywhere, refusals, storage, speed of training."""

import json
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tinytorch.core.tensor import Tensor
from tinytorch.core.tokenization import (
    BPETokenizer,
    CharTokenizer,
    apply_merges,
    bytes_text,
    count_pairs,
    known_ids,
    learn_merges,
    merge_pair,
    most_frequent,
    pieces,
    text_bytes,
    token_bytes,
    word_counts,
)

everything = st.text(st.characters(exclude_categories=()))  # all code points, lone surrogates included
TEXT = ("The river rises in the hills and runs through the town. In the town the river is wide, and the people "
        "who live there rise early. They run through the hills, and the hills are wide; the early runners rise "
        "and run and rest, and rest and run again. ")
tokenizer = BPETokenizer().train(TEXT, 300)


# --- characters


@given(everything, everything)
def test_characters_come_back(text, more):
    chars = CharTokenizer(text + more)
    assert chars.decode(chars.encode(text)) == text
    assert CharTokenizer(more + text + more).alphabet == chars.alphabet  # order and repeats do not matter
    assert chars.vocab_size == len(set(text + more))
    assert sorted(chars.ids.values()) == list(range(chars.vocab_size))


def test_a_strange_character_is_named_with_its_place():
    with pytest.raises(ValueError, match="é") as refused:
        CharTokenizer("caf").encode("café")
    assert "3" in str(refused.value)
    with pytest.raises(ValueError, match="0") as refused:
        CharTokenizer("a").encode("\ud800")
    assert "ud800" in ascii(str(refused.value))


def test_an_empty_alphabet_knows_the_empty_text():
    empty = CharTokenizer("")
    assert (empty.vocab_size, empty.encode(""), empty.decode([])) == (0, [], "")
    with pytest.raises(ValueError, match="token 0"):
        empty.decode([0])


# --- ids that come in


@pytest.mark.parametrize("ids", [
    [1, 0, 2], (1, 0, 2), np.array([1, 0, 2], np.uint8), [np.int64(1), np.float32(0), 2], Tensor([1, 0, 2]),
    Tensor(np.array([1, 0, 2])), iter([1, 0, 2])])
def test_ids_of_any_kind(ids):
    got = known_ids(ids, 3)
    assert got == [1, 0, 2]
    assert all(type(one) is int for one in got)


def test_a_tensor_is_decoded():
    assert CharTokenizer("abc").decode(Tensor([2, 0, 1])) == "cab"
    assert tokenizer.decode(Tensor([[104, 105]])[0]) == "hi"


@pytest.mark.parametrize("ids, place", [([0, 3], 1), ([-1], 0), ([0, 0, 1.5], 2), ([float("nan")], 0),
                                        ([float("inf")], 0), ([10**30], 0)])
def test_strange_ids_are_named_with_their_place(ids, place):
    with pytest.raises(ValueError, match=rf"token {ids[place]} at position {place}".replace("+", r"\+")):
        known_ids(ids, 3)


@pytest.mark.parametrize("ids", [[True], ["1"], [[1, 2]], np.array([[1, 2]]), 5, np.float32(1), Tensor(1), "12", [None],
                                 [np.bool_(True)], np.array([True]), [1j]])
def test_what_is_no_row_of_ids_is_refused(ids):
    with pytest.raises(TypeError, match="token ids"):
        known_ids(ids, 300)


@pytest.mark.parametrize("text", [b"bytes", None, 3, ["a"]])
def test_what_is_no_text_is_refused(text):
    for call in (CharTokenizer, CharTokenizer("a").encode, tokenizer.encode, pieces, text_bytes):
        with pytest.raises(TypeError, match="want text"):
            call(text)


# --- words and bytes


@given(everything)
def test_pieces_join_to_the_text(text):
    assert "".join(pieces(text)) == text
    assert all(pieces(text))


@given(everything)
@example("\ud83d\ude00")  # the two halves of a smile, not joined
@example("\ufffd\ufeff\0\r\n\u2028")
def test_any_text_is_bytes(text):
    assert bytes_text(text_bytes(text)) == text


@given(st.binary())
def test_any_bytes_are_shown(data):
    assert isinstance(bytes_text(data), str)


def test_broken_bytes_become_the_replacement_character():
    assert bytes_text(b"caf\xc3") == "caf\ufffd"
    assert bytes_text(b"\xffok") == "\ufffdok"


def test_words_are_counted_over_all_texts():
    assert word_counts(["a b", "a"]) == {(97,): 2, (32, 98): 1}
    assert word_counts("") == {}
    with pytest.raises(TypeError, match="want text"):
        word_counts(["a", b"b"])


# --- learning


words = st.dictionaries(st.lists(st.integers(0, 4), max_size=7).map(tuple), st.integers(1, 5), max_size=8)


def plainly(words, num_merges):
    """Count everything anew for each merge."""
    merges = []
    while len(merges) < num_merges:
        counts = {}
        for word, times in words.items():
            for i in range(len(word) - 1):
                counts[word[i], word[i + 1]] = counts.get((word[i], word[i + 1]), 0) + times
        best = max(counts.values(), default=0)
        if best < 2:
            break
        pair = sorted(pair for pair, times in counts.items() if times == best)[0]
        merged = {}
        for word, times in words.items():
            out = []
            for one in word:
                out.append(one)
            i = 0
            while i + 1 < len(out):
                if (out[i], out[i + 1]) == pair:
                    out[i:i + 2] = [256 + len(merges)]
                i += 1
            merged[tuple(out)] = times
        words = merged
        merges.append(pair)
    return merges


@given(words, st.integers(0, 12))
def test_merges_are_those_of_counting_anew(words, num_merges):
    before = dict(words)
    assert learn_merges(words, num_merges) == plainly(words, num_merges)
    assert words == before


@given(words, st.randoms(use_true_random=False))
def test_the_order_of_the_words_does_not_matter(words, rng):
    items = list(words.items())
    rng.shuffle(items)
    assert learn_merges(dict(items), 9) == learn_merges(words, 9)


@given(words, st.integers(0, 6), st.integers(0, 6))
def test_fewer_merges_are_the_first_of_more(words, few, more):
    assert learn_merges(words, few) == learn_merges(words, few + more)[:few]


@given(words)
def test_counts_are_those_of_the_whole_text(words):
    spelled = Counter(pair for word, times in words.items() for _ in range(times) for pair in zip(word, word[1:]))
    assert count_pairs(words) == spelled
    assert most_frequent(spelled) == min(spelled, key=lambda pair: (-spelled[pair], pair), default=None)


@given(st.lists(st.integers(0, 2), max_size=12), st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_merging_loses_nothing(ids, pair):
    merged = merge_pair(ids, pair, 9)
    assert [one for new in merged for one in (pair if new == 9 else (new,))] == ids
    assert pair not in zip(merged, merged[1:])
    assert merge_pair(tuple(ids), pair, 9) == merged


def test_a_known_example():
    """Gage's string of 1994 as commonly told: aa, then ab (a tie with the pair of aa and a), then both."""
    assert BPETokenizer().train("aaabdaaabac", 259).encode("aaabdaaabac") == [258, 100, 258, 97, 99]


# --- applying


@given(words, st.lists(st.integers(0, 4), max_size=12))
def test_applying_is_replaying_the_training(words, ids):
    merges, replayed = learn_merges(words, 12), ids
    for k, pair in enumerate(merges):
        replayed = merge_pair(replayed, pair, 256 + k)
    assert apply_merges(ids, {pair: 256 + k for k, pair in enumerate(merges)}) == replayed


@given(everything)
@example("")
@example("e\u0301 \U0001f468\u200d\U0001f469\u200d\U0001f467 \0 \r\n \ud800\udc00 \udfff")
@example("  the river  rises\tin the hills  ")
def test_every_string_comes_back(text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode_bytes(ids) == text_bytes(text)
    assert all(0 <= one < tokenizer.vocab_size for one in ids)
    assert len(ids) <= len(text_bytes(text))
    assert BPETokenizer().decode(BPETokenizer().encode(text)) == text


@given(everything, st.lists(st.tuples(st.integers(0), st.integers(0)), max_size=12))
@example("hi hi", [(104, 105), (32, 256), (257, 256)])
@example("\U0001f642", [(240, 159), (153, 130), (256, 257)])
def test_no_merges_lose_anything(text, pairs):
    """What the merges are does not matter: a token's bytes are those of the two it replaces."""
    merges = [(left % (256 + k), right % (256 + k)) for k, (left, right) in enumerate(pairs)]
    assume(len(set(merges)) == len(merges))
    one = BPETokenizer(merges)
    assert one.decode(one.encode(text)) == text
    assert one.decode_bytes(one.encode(text)) == text_bytes(text)


@given(st.lists(st.integers(0, tokenizer.vocab_size - 1)))
def test_whatever_a_model_makes_is_decoded(ids):
    data = tokenizer.decode_bytes(ids)
    assert data == b"".join(tokenizer.tokens[one] for one in ids)
    assert tokenizer.decode(ids) == bytes_text(data)


def test_tokens_are_all_different_and_as_trained():
    assert tokenizer.vocab_size == 300 == len(set(tokenizer.tokens))
    assert tokenizer.tokens == token_bytes(tokenizer.merges)
    assert len(tokenizer.encode(TEXT)) < len(TEXT) / 2
    assert tokenizer.encode(" the") == [tokenizer.tokens.index(b" the")]
    for one, token in enumerate(tokenizer.tokens[256:], 256):  # a token's own bytes are encoded as the token
        if len(pieces(bytes_text(token))) == 1:
            assert tokenizer.encode(bytes_text(token)) == [one]


@pytest.mark.parametrize("one", [300, -1, 0.5])
def test_a_token_that_does_not_exist_is_named(one):
    for call in (tokenizer.decode, tokenizer.decode_bytes):
        with pytest.raises(ValueError, match=f"token {one} at position 2.*0 to 299"):
            call([1, 2, one])


# --- training the tokenizer


def test_training_forgets_what_was_known_and_returns_the_tokenizer():
    one = BPETokenizer().train(TEXT, 300)
    assert one.train("zz zz zz", 300) is one
    assert one.merges == [(122, 122), (32, 256)]
    assert one.vocab_size == 258  # nothing else comes twice
    assert one.train("", 300).merges == []


def test_a_list_of_texts_is_their_words_together():
    assert BPETokenizer().train(["hug hug", "hugs bug"], 260).merges == BPETokenizer().train("hug hug", 260).train(
        ["hug", " hug", "hugs", " bug"], 260).merges


@pytest.mark.parametrize("size, kind", [(255, ValueError), (-1, ValueError), (True, TypeError), (300.0, TypeError),
                                        ("300", TypeError), (None, TypeError)])
def test_impossible_sizes(size, kind):
    one = BPETokenizer([(1, 2)])
    with pytest.raises(kind, match="vocab_size is"):
        one.train(TEXT, size)
    assert one.merges == [(1, 2)]  # as before


def test_sizes_may_be_numpys():
    assert BPETokenizer().train(TEXT, np.int64(260)).vocab_size == 260


# --- storage


def test_json_holds_everything():
    text = tokenizer.to_json()
    again = BPETokenizer.from_json(text)
    assert again.merges == tokenizer.merges
    assert again.to_json() == text
    assert text.isascii()
    assert again.encode(TEXT) == tokenizer.encode(TEXT)
    assert BPETokenizer.from_json(BPETokenizer().to_json()).vocab_size == 256


@pytest.mark.parametrize("text", ["", "[1, 2]", "{}", "not json", '{"tokenizer": "byte pairs"}', "null",
                                  '{"tokenizer": "characters", "merges": []}',
                                  '{"tokenizer": "byte pairs", "merges": 3}',
                                  '{"tokenizer": "byte pairs", "merges": null}'])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError):
        BPETokenizer.from_json(text)


@pytest.mark.parametrize("merges", [[[1]], [[1, 2, 3]], [3], ["ab"], [[1, 256]], [[1, 2], [257, 1]], [[-1, 2]],
                                    [[1, 2], [1, 2]], [[1.0, 2]], [[True, 2]], [[1, None]]])
def test_impossible_merges_are_named(merges):
    with pytest.raises(ValueError, match=f"merge {len(merges) - 1} is"):
        BPETokenizer(merges)
    with pytest.raises(ValueError, match="merge"):
        BPETokenizer.from_json(json.dumps({"tokenizer": "byte pairs", "merges": merges}))


def test_representations():
    assert repr(CharTokenizer("ba")) == "CharTokenizer('ab')"
    assert repr(BPETokenizer([(1, 2)])) == "BPETokenizer(vocab_size=257)"


# --- size


def test_a_hundred_kilobytes():
    """Training works on different words, not on the text; encoding remembers the pieces it has done."""
    rng = random.Random(0)
    vocabulary = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(1, 9))) for _ in range(1_500)]
    text = " ".join(vocabulary[min(int(rng.paretovariate(0.7)) - 1, 1_499)] for _ in range(20_000))
    one = BPETokenizer().train(text, 400)
    ids = one.encode(text)
    assert one.decode(ids) == text
    assert len(ids) < len(text) / 2

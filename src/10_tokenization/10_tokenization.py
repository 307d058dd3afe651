# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# 10 · Tokenization

Tier: Architecture · Difficulty 2 of 4 · About 2½ hours · Needs no module before it: Python's strings, dictionaries and loops are enough

A model computes with numbers; people write text. Something has to cut text into pieces and give each piece a number. It sounds like plumbing, and it decides how long every text is for the model, what the model can
spell, and what a sentence costs in one language and in another.

**Build** a tokenizer of characters, then one of byte pairs: counting, merging, training, encoding, decoding → **use** it on a story and on other languages → **reflect** on who pays for the
vocabulary.

When you are done you can
1. turn any text into numbers and back, and say why nothing can be lost;
2. train byte-pair merges from a text, and say why the result does not depend on the order of a dict;
3. encode a text that was never seen, and decode what a model made up;
4. predict what a larger vocabulary buys and what it costs;
5. explain why a model miscounts letters, and why some languages cost more than others.

Yours: `CharTokenizer`, `count_pairs`, `most_frequent`, `merge_pair`, `learn_merges`, `apply_merges`, `token_bytes`, and the tokenizer's `encode` and `decode_bytes`. Given and explained: the alphabet's errors, the split into words, text to bytes and back, the frame of
`BPETokenizer` and its JSON.

A cell you have not filled says which one it is: `count_pairs: section 3, cell 3` is the function `count_pairs` in the third code cell of section 3.
"""

# %%
#| default_exp core.tokenization

# %%
#| export
import json
import re
from collections import Counter
from numbers import Real

# %% [markdown]
"""
## 1. One number for each character

**Question.** What is the simplest way to make numbers of a text, such that the text can be had back?

Python has one built in: every character has a number, `ord`. Look at how large they get:
"""

# %%
for character in "aZé猫🙂":
    print(character, ord(character))
print(f"the largest is {0x10FFFF:,}: a table with a row for each needs {0x110000:,} rows")

# %% [markdown]
"""
A model keeps a row of learned numbers for each token, and a million rows for a text that uses sixty characters would be a waste. So number only the characters that occur: sort them, so that the numbers do not depend on the order in which they were met, and count from 0.

Given: two helpers for what people hand in by mistake. `want_text(text)` returns a string, or raises a `TypeError`. `known_ids(ids, vocab_size)` takes a list, array or Tensor of token ids and returns a list of Python integers; an id that is not one of 0 to `vocab_size - 1` is a `ValueError` that names it.
"""

# %%
#| export
def want_text(text):
    """Return ``text`` if it is a string, or raise ``TypeError``."""
    if not isinstance(text, str):
        raise TypeError(f"a {type(text).__name__} came; want text, a str")
    return text


def known_ids(ids, vocab_size):
    """Return one row of token ids (a list, array or Tensor) as a list of ints.

    Whole floats are accepted, since Tensors of Python numbers are float32. An id that is not in the vocabulary is a
    ``ValueError`` that names it and its position, something else than a number a ``TypeError``.
    """
    ids = ids.numpy() if hasattr(ids, "numpy") else ids
    ids = ids.tolist() if hasattr(ids, "tolist") else ids
    if isinstance(ids, Real):
        raise TypeError(f"a single {type(ids).__name__} came; want a row of token ids")
    ids = list(ids)
    for position, one in enumerate(ids):
        if isinstance(one, bool) or not isinstance(one, Real):
            raise TypeError(f"a {type(one).__name__} at position {position}; want a row of token ids, whole numbers")
        if not 0 <= one < vocab_size or one != int(one):
            raise ValueError(f"token {one} at position {position}: this vocabulary has the ids 0 to {vocab_size - 1}")
    return [int(one) for one in ids]

# %% [markdown]
"""
**Task.** Write `CharTokenizer(text)`.

- `__init__` keeps two things: `self.alphabet`, a string with each character of `text` once, sorted; and `self.ids`, a dict from each of them to its number, 0 for the first.
- `encode(text)` returns the list of numbers. A character that is not in the alphabet is a `ValueError` whose message contains the character and its position in the text, counted from 0.
- `decode(ids)` returns the text; let `known_ids(ids, self.vocab_size)` refuse strange ids and give you a list.

Example: `CharTokenizer("hello")` has the alphabet `"ehlo"`; it encodes `"hole"` as `[1, 3, 2, 0]`.

<details><summary>Hint 1: idea</summary>
The alphabet is the way back already: the character with number 2 stands at its place 2. Only the way there needs a dict.
</details>
<details><summary>Hint 2: approach</summary>
<code>set</code> removes doubles, <code>sorted</code> makes a list, <code>"".join</code> a string, <code>enumerate</code> numbers it. In <code>encode</code>, go through <code>enumerate(text)</code>, ask <code>self.ids</code>, and raise where there is no answer.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Weekdays: <code>days = ["Mon", "Tue"]</code>; there: <code>{day: i for i, day in enumerate(days)}</code>; back: <code>days[1]</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "char-tokenizer", "solution": true}
#| export
class CharTokenizer:
    """One token for each character of ``text``: ``alphabet`` in sorted order, ids from 0.

    A character is one Unicode code point. ``CharTokenizer(tokenizer.alphabet)`` is the same tokenizer again.
    """

    def __init__(self, text):
        """Keep the sorted characters of ``text`` as ``alphabet``, and their numbers as ``ids``."""
        text = want_text(text)
        ### BEGIN SOLUTION
        self.alphabet = "".join(sorted(set(text)))
        self.ids = {character: number for number, character in enumerate(self.alphabet)}
        ### END SOLUTION

    @property
    def vocab_size(self):
        """How many tokens there are."""
        return len(self.alphabet)

    def encode(self, text):
        """Return a list of ids, one for each character; ``ValueError`` names one that is not in the alphabet."""
        text = want_text(text)
        ### BEGIN SOLUTION
        for position, character in enumerate(text):
            if character not in self.ids:
                raise ValueError(f"character {character!r} at position {position} is not in the alphabet of "
                                 f"{self.vocab_size} characters")
        return [self.ids[character] for character in text]
        ### END SOLUTION

    def decode(self, ids):
        """Return the text of a list, array or Tensor of ids; ``ValueError`` names one that does not exist."""
        ### BEGIN SOLUTION
        return "".join(self.alphabet[number] for number in known_ids(ids, self.vocab_size))
        ### END SOLUTION

    def __repr__(self):
        return f"CharTokenizer({self.alphabet!r})"

# %%
tokenizer = CharTokenizer("hello")
print(tokenizer, tokenizer.vocab_size, tokenizer.encode("hole"), tokenizer.decode([1, 3, 2, 0]))

# %% nbgrader={"grade": true, "grade_id": "test-char-tokenizer", "points": 18, "skill": "characters"}
from tito.checks import check, check_raises


def test_char_tokenizer():
    """Alphabet, both directions, strangers."""
    tokenizer = CharTokenizer("the quick brown fox")
    check("the alphabet", tokenizer.alphabet, " bcefhiknoqrtuwx", {
        "the quickbrownfx": "in order of appearance: sort it, so that ids do not depend on the text's order", "   bcefhiknooqrtuwx": "a character that comes twice is there twice"})
    check("vocab_size", tokenizer.vocab_size, 16, {19: "a character that comes twice is counted twice"})
    check("ids", tokenizer.ids["t"], 12, {13: "numbers begin at 0"})
    check("encode", tokenizer.encode("xof"), [15, 9, 4], {(4, 9, 15): "the text's order is lost"})
    check("the order of the text does not matter", CharTokenizer("xof nworb kciuq eht").encode("fox"), [4, 9, 15])
    check("decode", tokenizer.decode([4, 9, 15]), "fox")
    text = " Fox\n\tfox: \0 é e\u0301 猫 🙂 \ud800 "
    check("there and back", CharTokenizer(text).decode(CharTokenizer(text).encode(text)), text)
    check("nothing", (tokenizer.encode(""), tokenizer.decode([])), ([], ""))
    for word in ("Z", "3"):
        check_raises(f"'foxZ', naming {word}", ValueError, lambda: tokenizer.encode("foxZ"), must_say=word)
    check_raises("an id below zero", ValueError, lambda: tokenizer.decode([1, -1]), must_say="-1")
    check_raises("an id too large", ValueError, lambda: tokenizer.decode([16]), must_say="16")


test_char_tokenizer()

# %% [markdown]
"""
**What if** two texts look the same? Bet on the number of tokens of each:
"""

# %%
my_bet = (None, None)
one, two = "caf\u00e9", "cafe\u0301"
tokenizer = CharTokenizer(one + two)
print(f"bet {my_bet}: {one} {tokenizer.encode(one)}, {two} {tokenizer.encode(two)}; equal to Python: {one == two}")

# %% [markdown]
"""
Unicode can write é as one character, or as e with an accent that combines. They look alike and are different texts; a tokenizer that is lossless must keep them apart. **What it means for a real model:** characters have two faults. The alphabet is closed: one character that training did not have, and
`encode` refuses. And texts get long, as section 7 will show. The next sections mend both.

## 2. Bytes: an alphabet of 256 that nothing falls out of

**Question.** Is there a small alphabet in which *every* text can be written?

There is, and your computer uses it whenever it stores a text: bytes. In UTF-8 an English letter is one byte, others are two to four. With 256 tokens, one for each byte, no text can be refused.
"""

# %%
for text in ("cat", "é", "猫", "🙂"):
    print(text, list(text.encode("utf-8")))

# %% [markdown]
"""
Two questions remain, and this is what we decide.

- *Is every Python string UTF-8?* Nearly. A string may contain lone halves of characters (surrogates, from broken files and old systems), which strict UTF-8 refuses. We write them in the same manner as all others (`"surrogatepass"`), so that decode(encode(s)) is s for every string there is.
- *Is every sequence of bytes a text?* No. A model generates token after token, and may stop in the middle of an emoji. Such bytes are shown as `\ufffd`, the replacement character; whoever wants the exact bytes asks for them.
"""

# %%
#| export
def text_bytes(text):
    """Return the UTF-8 bytes of any string, lone surrogates included."""
    return want_text(text).encode("utf-8", "surrogatepass")


def bytes_text(data):
    """Return the text of UTF-8 bytes; in bytes that are no text, what is broken becomes the replacement character."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")

# %%
smile = text_bytes("a 🙂")
print(smile, bytes_text(smile), bytes_text(smile[:4]), bytes_text(text_bytes("\ud800")) == "\ud800")

# %% [markdown]
"""
**Who pays?** The same sentence in five languages. Guess, before you run, how many bytes Greek and Hindi need for a letter.
"""

# %%
sentences = {
    "English": "The cat sleeps in the warm sun.", "German": "Die Katze schläft in der warmen Sonne.",
    "Greek": "Η γάτα κοιμάται στον ζεστό ήλιο.", "Hindi": "बिल्ली गर्म धूप में सोती है।", "Japanese": "猫は暖かい日なたで眠っている。"}
for language, sentence in sentences.items():
    print(f"{language:>8}: {len(sentence):>2} characters, {len(text_bytes(sentence)):>2} bytes, {len(text_bytes(sentence)) / len(sentence):.2f} bytes per character")

# %% [markdown]
"""
## 3. Which pair comes most often?

**Question.** Bytes never refuse, but a text of bytes is long. Can pieces that come again and again have a token of their own?

That is byte-pair encoding, devised for compression (Gage, 1994), brought to language by Sennrich and others (2016), to bytes by Radford and others (2019, GPT-2): count which two neighbours come most often, make one token of them, and repeat.

```
h u g   h u g s   b u g        most often: (u, g), 3 times   -> new token "ug"
h ug    h ug s    b ug         most often: (h, ug), 2 times  -> new token "hug"
hug     hug s     b ug
```

Pairs are not counted across words: otherwise the end of one word and the beginning of the next would become a token. So the text is cut into words first; and since a text repeats its words, each *different* word is kept once, with the number of times it came. That makes training fast: section 5 shows how few words there are in a text.

Given: the cut. A word takes the space before it along, so `" cat"` in a sentence is one piece; marks such as `,` or `...` stand together; other white space is a piece of its own. A character is either of a word, or white space, or neither, so each is in exactly one piece, and the pieces join to the text again.
"""

# %%
#| export
PIECE = re.compile(r" ?\w+| ?[^\w\s]+|\s+")  # a word, marks, white space: every character is in one of them


def pieces(text):
    """Cut text into words, marks and white space; joined they are the text again."""
    return PIECE.findall(want_text(text))


def word_counts(texts):
    """Return {word: how often it came} for one text or several; a word is the tuple of its bytes."""
    counts = Counter(piece for text in ([texts] if isinstance(texts, str) else texts) for piece in pieces(text))
    return {tuple(text_bytes(piece)): times for piece, times in counts.items()}

# %%
print(pieces("The cat's hat,  the cat..."))
print(word_counts("hug hug"))

# %% [markdown]
"""
**Task.** Write `count_pairs(words)`. `words` maps each word, a tuple of ids, to the number of times it came, as `word_counts` gives it. Return a `Counter` (imported) that maps each pair `(left, right)` of neighbours to how often it comes in the whole text: a pair in a word that came 5 times counts 5. A pair that comes twice in
one word counts twice, overlapping ones too: `(7, 7, 7)` holds the pair `(7, 7)` twice.

And write `most_frequent(counts)`: the pair with the highest count. Where several share it, the smallest pair, compared as Python compares tuples: `(3, 9)` comes before `(4, 1)`. So the result is the same on every machine, however the dict is ordered. Without any pairs, `None`.

Example: `count_pairs({(1, 2, 3): 4, (2, 3): 1})` is `{(1, 2): 4, (2, 3): 5}`; `most_frequent` of it is `(2, 3)`.

<details><summary>Hint 1: idea</summary>
Neighbours are a word and the same word without its first, side by side.
</details>
<details><summary>Hint 2: approach</summary>
<code>zip(word, word[1:])</code> gives all neighbours and stops where the shorter one ends. For the tie: the smallest of <code>(-count, pair)</code>; <code>min</code> takes a <code>key</code>, and <code>default=None</code> for emptiness.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Steps of several walks: <code>for walk, times in walks.items(): for a, b in zip(walk, walk[1:]): steps[b - a] += times</code>. The shortest word, and of equal ones the first in the alphabet: <code>min(words, key=lambda w: (len(w), w))</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "count-pairs", "solution": true}
#| export
def count_pairs(words):
    """Return how often each pair of neighbours comes, from {word: times}; overlapping pairs count each."""
    ### BEGIN SOLUTION
    counts = Counter()
    for word, times in words.items():
        for pair in zip(word, word[1:]):
            counts[pair] += times
    return counts
    ### END SOLUTION


def most_frequent(counts):
    """Return the pair with the highest count, of equal ones the smallest; None where there are none."""
    ### BEGIN SOLUTION
    return min(counts, key=lambda pair: (-counts[pair], pair), default=None)
    ### END SOLUTION

# %%
counts = count_pairs(word_counts("hug hug hugs bug"))
print({bytes(pair).decode(): times for pair, times in counts.items()}, "most frequent:", bytes(most_frequent(counts)).decode())

# %% nbgrader={"grade": true, "grade_id": "test-count-pairs", "points": 16, "skill": "pairs"}
def test_count_pairs():
    """Counts with weights, overlaps, short words, ties."""
    words = {(5, 6, 5, 6): 10, (6, 5): 3, (9,): 100, (7, 7, 7): 2, (): 4}
    counts = count_pairs(words)
    check("the pair (5, 6), twice in a word that came 10 times", counts[(5, 6)], 20, {2: "each word counted once: it came more often", 10: "the pair comes twice in the word", 33: "the order of a pair matters"})
    check("the pair (6, 5)", counts[(6, 5)], 13, {3: "the end of one pair and the beginning of the next are neighbours too", 2: "each word counted once: it came more often"})
    check("overlapping pairs (7, 7)", counts[(7, 7)], 4, {2: "three in a row hold two pairs"})
    check("what kind of dict", type(counts).__name__, "Counter", {"dict": "begin with Counter(): section 5 subtracts and updates it", "defaultdict": "begin with Counter(): section 5 subtracts and updates it"})
    check("all of them", sorted(pair for pair in counts if counts[pair]), [(5, 6), (6, 5), (7, 7)], {((5, 6), (6, 5), (6, 9), (7, 7)): "no pairs across words"})
    check("the words are left as they were", words[(6, 5)], 3)
    check("most frequent", most_frequent(counts), (5, 6), {(7, 7): "that is the rarest", 20: "that is how often: want the pair"})
    check("a tie", most_frequent(Counter({(4, 1): 7, (9, 1): 7, (3, 9): 7, (3, 200): 7, (1, 1): 6})), (3, 9), {
        (4, 1): "the first that was met: want the smallest of equals", (9, 1): "the largest of equals: want the smallest", (3, 200): "the last of equals", (1, 1): "that is the rarest"})
    check("the same tie in another order", most_frequent(Counter({(3, 200): 7, (1, 1): 6, (3, 9): 7, (9, 1): 7})), (3, 9))
    check("no pairs", most_frequent(count_pairs({(4,): 2})), None)


test_count_pairs()

# %% [markdown]
"""
## 4. Merging

**Question.** A pair becomes a new token. What does `a a a` become when `(a, a)` is merged?

One new token and an `a`: from left to right, and what was merged is used up.

**Task.** Write `merge_pair(ids, pair, new_id)`: a new list in which every `pair` in `ids` (a list or tuple), found from left to right, is replaced by `new_id`. What is given stays as it was.

Example: `merge_pair([1, 2, 3, 1, 2], (1, 2), 9)` is `[9, 3, 9]`.

<details><summary>Hint 1: idea</summary>
Walk with a finger. At each step either the pair begins here, and the finger moves by two, or it does not, and it moves by one.
</details>
<details><summary>Hint 2: approach</summary>
A <code>while</code> loop: in a <code>for</code> loop the finger cannot skip. At the last element there is no neighbour to look at; a slice <code>tuple(ids[i:i + 2])</code> is then just shorter, and equals no pair.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Replace each "--" in a list of characters by "–": <code>out, i = [], 0</code>; <code>while i &lt; len(chars):</code> if <code>chars[i:i + 2] == ["-", "-"]</code> append "–" and add 2, else append <code>chars[i]</code> and add 1.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "merge-pair", "solution": true}
#| export
def merge_pair(ids, pair, new_id):
    """Return a list in which each ``pair`` of neighbours in ``ids``, found from the left, is one ``new_id``."""
    ### BEGIN SOLUTION
    merged, i, last = [], 0, len(ids) - 1
    while i <= last:
        if i < last and ids[i] == pair[0] and ids[i + 1] == pair[1]:
            merged.append(new_id)
            i += 2
        else:
            merged.append(ids[i])
            i += 1
    return merged
    ### END SOLUTION

# %%
print(merge_pair([1, 2, 3, 1, 2], (1, 2), 9), merge_pair(["a", "a", "a"], ("a", "a"), "aa"))

# %% nbgrader={"grade": true, "grade_id": "test-merge-pair", "points": 14, "skill": "merging"}
def test_merge_pair():
    """Everywhere, from the left, at the edges, nothing changed in place."""
    ids = [4, 8, 1, 4, 8, 8, 4]
    check("two of them", merge_pair(ids, (4, 8), 256), [256, 1, 256, 8, 4], {(256, 1, 4, 8, 8, 4): "all of them, not the first alone", (256, 1, 256, 8): "something fell off the end", (256, 8, 1, 256, 8, 8, 4): "the right one of the pair is still there",
        (256, 1, 256, 256): "the order matters: (8, 4) is another pair"})
    check("what came stays as it was", ids, [4, 8, 1, 4, 8, 8, 4], {(256, 8, 1, 256, 8, 8, 4): "written into the list that came"})
    check("at the end", merge_pair([1, 4, 8], (4, 8), 256), [1, 256], {(1, 4, 8): "the last pair was not looked at", (1,): "something fell off the end"})
    check("the last one alone", merge_pair([4, 8, 4], (4, 8), 256), [256, 4], {(256,): "the last one was lost"})
    check("three in a row", merge_pair([7, 7, 7], (7, 7), 256), [256, 7], {(7, 256): "from the left", (256, 256): "the middle one was used twice", (256,): "the last one was lost"})
    check("four and five in a row", (merge_pair([7] * 4, (7, 7), 300), merge_pair([7] * 5, (7, 7), 300)), ([300, 300], [300, 300, 7]))
    check("a tuple gives a list", merge_pair((4, 8, 4, 8), (4, 8), 256), [256, 256])
    check("not there, too short, empty", (merge_pair([8, 4], (4, 8), 9), merge_pair([4], (4, 8), 9), merge_pair([], (4, 8), 9)), ([8, 4], [4], []))


test_merge_pair()

# %% [markdown]
"""
## 5. Training

**Question.** What exactly does a byte-pair tokenizer learn?

A list of pairs, in order. Nothing else. Merge number `k` (counted from 0) makes the token `256 + k`, and later merges may use it.

**Task.** Write `learn_merges(words, num_merges)`: the list of pairs. Again and again: take the most frequent pair, merge it in every word, remember it. Stop after `num_merges`; or earlier, when the most frequent pair comes less than 2 times, or none is left: a pair that comes once saves nothing. The caller's `words` must stay
as they were.

Use `count_pairs(words)`, `most_frequent(counts)` and `merge_pair(ids, pair, new_id)`. Words are keys of a dict, so they are tuples; `merge_pair` gives a list.

To be quick, do not count everything anew in every round. Most words do not hold the pair, and their counts stay. For a word that does: subtract its old pairs, add its new ones.

Example: `learn_merges(word_counts("hug hug hugs bug"), 2)` is `[(117, 103), (104, 256)]`: "u" + "g", then "h" + "ug".

<details><summary>Hint 1: idea</summary>
First make it work: count, pick, merge in all words, remember. That passes the check. Then make it quick.
</details>
<details><summary>Hint 2: approach</summary>
Begin with <code>words = dict(words)</code>. The words to touch are <code>[word for word in words if pair in zip(word, word[1:])]</code>, a list made before the dict is changed. Take one out with <code>pop</code>. A Counter has <code>subtract</code> and <code>update</code>, and
<code>count_pairs({word: times})</code> counts a single word.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Letters in a shelf of titles, kept up to date when a title is replaced: <code>letters.subtract(Counter(old))</code>, then <code>letters.update(Counter(new))</code>; no other title is read.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "learn-merges", "solution": true}
#| export
def learn_merges(words, num_merges):
    """Return up to ``num_merges`` pairs from {word: times}, each time the most frequent; merge k makes token 256 + k.

    Of equally frequent pairs the smallest is taken. Stops early when no pair comes twice. Only words that hold the
    pair are counted anew. Source: Sennrich and others, 2016.
    """
    ### BEGIN SOLUTION
    words, counts, merges = dict(words), count_pairs(words), []
    while len(merges) < num_merges:
        pair = most_frequent(counts)
        if pair is None or counts[pair] < 2:
            break
        for word in [word for word in words if pair in zip(word, word[1:])]:
            times = words.pop(word)
            merged = tuple(merge_pair(word, pair, 256 + len(merges)))
            words[merged] = times
            counts.subtract(count_pairs({word: times}))
            counts.update(count_pairs({merged: times}))
        merges.append(pair)
    return merges
    ### END SOLUTION

# %%
print(learn_merges(word_counts("hug hug hugs bug"), 2))

# %% nbgrader={"grade": true, "grade_id": "test-learn-merges", "points": 20, "skill": "training"}
def test_learn_merges():
    """Order, numbers of new tokens, ties, where it stops, a longer text."""
    check("hug, hug, hugs, bug", learn_merges(word_counts("hug hug hugs bug"), 2), [(117, 103), (104, 256)], {((117, 103), (104, 117)): "the words were not merged: the second round still sees the bytes",
        ((117, 103), (104, 0)): "new tokens are numbered from 256", ((117, 103), (104, 257)): "the first new token is 256", ((117, 103), (117, 103)): "the same pair again: its counts were not brought up to date",
        ((117, 103), (32, 104)): "the counts of the words as they were have not been taken away"})
    check("each merge is a pair, so it can be a key", type(learn_merges({(1, 2): 2}, 1)[0]).__name__, "tuple")
    check("ties: the smallest pair", learn_merges({(9, 8, 7): 2, (3, 4): 2}, 3), [(3, 4), (8, 7), (9, 256 + 1)], {((9, 8), (256, 7), (3, 4)): "the first of equals was taken: want the smallest"})
    check("one merge lowers other counts", learn_merges({(1, 2, 3): 5, (2, 3): 1, (1, 2): 3, (9, 3): 4}, 2), [(1, 2), (256, 3)], {((1, 2), (2, 3)): "after merging (1, 2), the pair (2, 3) comes once: counts must be brought up to date"})
    check("a pair that comes once is not merged", learn_merges({(1, 2): 1, (3, 4): 2}, 5), [(3, 4)], {((3, 4), (1, 2)): "stop when the best pair comes less than twice"})
    check("three in a row", learn_merges({(7, 7, 7): 5}, 9), [(7, 7), (256, 7)])
    check("nothing to merge, and nothing asked", (learn_merges({(5,): 9}, 3), learn_merges({}, 3), learn_merges({(1, 2): 9}, 0)), ([], [], []))
    words = {(1, 2, 3): 4, (2, 3): 1}
    learn_merges(words, 2)
    check("the caller's words stay", words, {(1, 2, 3): 4, (2, 3): 1})
    text = "she sells sea shells on the sea shore, the shells she sells are sea shells she is sure"
    check("twelve merges of a longer text", learn_merges(word_counts(text), 12), [(32, 115), (104, 101), (108, 108), (256, 101), (256, 257), (258, 115), (114, 101), (259, 97), (260, 261), (32, 116), (259, 261), (265, 257)])


test_learn_merges()

# %% [markdown]
"""
**Given: a story.** Read it or not; the tokenizer will. Its last three paragraphs are kept out of training, to be a text that the tokenizer has never seen.
"""

# %%
story = "\n".join([
    "There was a ferry on the river long before there was a bridge. In the morning it carried the farmers and their baskets to the market, and in the",
    "evening it carried them home again. The ferryman was called Anton, and his father had been the ferryman before him. He knew every stone in the water",
    "and every face on the bank, and when there was fog he found his way by listening.",
    "In 1912 the town decided to build a bridge. The people who lived near the market were glad, because they thought that more travellers would come. The",
    "people who lived near the river were not so sure. They remembered the winter of 1879, when the ice had carried away the mill and everything that was",
    "in it, and they asked whether a bridge would stand where a mill had not been able to stand.",
    "The engineer came in the spring. She was younger than anyone had expected, and she had brought three boxes of instruments and a small grey cat. For a",
    "week she did nothing but measure. She measured how fast the water was running and how deep it was, in the morning and again in the evening; she",
    "measured the stones, and she measured the wind. In the evening she wrote all the numbers into a book.",
    '"Why do you measure the same thing again and again?" asked the ferryman\'s daughter, who was called Marta and who was eleven years old.',
    '"Because it is never the same thing," said the engineer. "Yesterday the water was running faster than today. If I had measured only once, I would',
    'believe that the river has one speed. Now I know that it has many, and I know how far they are apart."',
    "Marta thought about this for the whole evening. The next morning she took a piece of chalk and made a mark on the landing where the water was. She did",
    "so every morning until the end of 1912. When the snow was melting in the hills, the marks went up; when there was no rain, they went down. In the end",
    "there were more than three hundred of them, and they looked like the teeth of a comb that somebody had broken.",
    'The engineer looked at the marks for a long time. "This is worth more than my instruments," she said. "I was here for a week, and you were here for a',
    'year. I was going to build the bridge too low."',
    "So the bridge was built higher than anyone had thought necessary, and it cost more than anyone had thought possible. There was much talking about it",
    "in the market. The baker said that the money would have been enough for a new school, and the teacher said that the baker was right for once. The",
    "mayor said nothing and hoped that there would be a flood before the next election.",
    "There was no flood in 1913, and there was none in 1914. The bridge stood far above the water, and people who crossed it for the first time used to",
    "laugh. Anton, who had become the keeper of the bridge, did not laugh. He had put his chair where the ferry had been, and in the evening he sat there",
    "with the grey cat, which had decided to stay when the engineer went away. He listened to the water, as he had always done.",
    "Then came the spring of 1921. It had been snowing in the hills for the whole winter, and in the last week of March it began to rain. The rain was",
    "warm, and it did not stop. On the first evening the water was at the highest of the marks of 1912. On the second evening there were no marks to be",
    "seen. On the third the market was under water, and the people stood on the bridge with their children and their baskets and their animals, and looked",
    "down at the river running under their feet. It was a hand's breadth below the stones.",
    "Nobody was laughing now. They stood there for the whole night, and because it was dark and there was nothing else to do, somebody began to tell",
    "stories, and the others listened. The baker told the story of the mill, and the teacher told the story of the ice, and the mayor told a story that",
    "nobody believed. In the morning the rain stopped, and the water began to go down.",
    "When everything was dry again, the mayor wanted to put a stone on the bridge with the name of the engineer on it. He wrote her a letter and asked what",
    'should be written there. The answer came after a week. "Thank you," she wrote, "but the bridge stands where it stands because of three hundred marks',
    "of chalk. Write the name of the one who made them. And tell her that I am building another bridge, and that I need somebody who knows how to measure",
    'the same thing again and again."',
    "Marta, who had been eleven in 1912, was twenty by then. She read the letter three times, and she looked at the river for a long time. Then she went to",
    "the market and bought a box of chalk, and in the evening she carried it home; and the next morning she took the train.",
])
held_out = "\n".join([
    "The stone is still there. People who cross the bridge for the first time ask what it means, because there is no name on it and no year, only a row of",
    "short lines like the teeth of a comb. Anyone who lives in the town can tell them the story. They tell it a little differently each time, and they say",
    "that this is how it should be: whoever has heard it only once believes that it has one ending.",
    "There are other bridges on the river now, and the highest mark is not the one of 1921 any more. But in the last week of March, when the snow is",
    "melting in the hills, there is always somebody on the landing in the morning, with a piece of chalk. Nobody has ever asked them to do it. They look at",
    "the water, and they listen, and they make a mark; and when they are asked why they measure the same thing again and again, they say that it is never",
    "the same thing.",
    "The grey cat lived to be very old. It was never seen to measure anything. But it used to sit on the landing in the evening, always one stone above the",
    "water, and Anton said that of all the instruments he had ever known it was the only one that needed no book.",
])

# %% [markdown]
"""
**What if** you ask for more merges than the text can give? Bet on how many you get from the story when you ask for 10,000.
"""

# %%
from time import perf_counter

my_bet = None
words = word_counts(story)
start = perf_counter()
merges = learn_merges(words, 10_000)
seconds = perf_counter() - start
print(f"{len(story):,} characters are {sum(words.values()):,} pieces, of which {len(words)} are different; bet {my_bet}, {len(merges)} merges in {seconds:.2f} s")

# %% [markdown]
"""
Then no pair came twice any more: a tokenizer can learn only what its text repeats. That is why large vocabularies are trained on very large texts.

## 6. Encoding and decoding

**Question.** The merges are learned. A new word comes. Which merges are made, and in which order?

The order of training: of all pairs in the word, merge the one that was learned *first*. The order matters. With the merges 1. `b c`, 2. `a b`, the word `a b c` becomes `a bc`. Whoever goes from left to right gets `ab c`: tokens that training never saw side by side.

**Task.** Write `apply_merges(ids, ranks)`. `ids` is a list of byte values; `ranks` maps each learned pair to its new token, so the pair learned first has the smallest value. Return the list in which nothing is left to merge. What is given stays as it was.

Example: `apply_merges([1, 2, 3], {(2, 3): 256, (1, 2): 257})` is `[1, 256]`.

<details><summary>Hint 1: idea</summary>
Which pair of neighbours has the smallest new token? Merge it everywhere. Ask again, until none of the neighbours was ever learned.
</details>
<details><summary>Hint 2: approach</summary>
<code>min(zip(ids, ids[1:]), key=...)</code> with <code>ranks.get(pair, infinity)</code> as key; <code>float("inf")</code> is larger than any token. Then <code>merge_pair</code>. A list of one or none has no pairs.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Serve the oldest guest first, until only strangers wait: <code>next_one = min(guests, key=lambda g: arrived.get(g, float("inf")))</code>; <code>if next_one not in arrived: break</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "apply-merges", "solution": true}
#| export
def apply_merges(ids, ranks):
    """Merge ``ids`` by ``ranks``, {pair: new token}, smallest new token (learned first) first, until none is left."""
    ### BEGIN SOLUTION
    ids = list(ids)
    while len(ids) > 1:
        pair = min(zip(ids, ids[1:]), key=lambda one: ranks.get(one, float("inf")))
        if pair not in ranks:
            break
        ids = merge_pair(ids, pair, ranks[pair])
    return ids
    ### END SOLUTION

# %%
ranks = {pair: 256 + k for k, pair in enumerate(learn_merges(word_counts("hug hug hugs bug"), 2))}
print(apply_merges(list(b"hugging"), ranks), "of", list(b"hugging"))

# %% nbgrader={"grade": true, "grade_id": "test-apply-merges", "points": 16, "skill": "encoding"}
def test_apply_merges():
    """Order of training, merges of merges, nothing to do."""
    check("the first learned goes first", apply_merges([1, 2, 3], {(2, 3): 256, (1, 2): 257}), [1, 256], {(257, 3): "from left to right: want the pair that was learned first", (1, 2, 3): "nothing was merged"})
    ranks = {(1, 2): 256, (256, 3): 257, (257, 257): 258}
    check("merges of merges", apply_merges([1, 2, 3, 9, 1, 2, 3, 1, 2, 3], ranks), [257, 9, 258], {(256, 3, 9, 256, 3, 256, 3): "one round: go on until nothing is left", (257, 9, 257, 257): "two rounds: go on until nothing is left"})
    check("the dict's order does not matter", apply_merges([1, 2, 3], {(1, 2): 257, (2, 3): 256}), [1, 256], {(257, 3): "in the dict's order: the smallest new token was learned first"})
    check("four in a row", apply_merges([7, 7, 7, 7, 7], {(7, 7): 256, (256, 256): 257}), [257, 7])
    check("nothing to merge, one, none", (apply_merges([5, 6], ranks), apply_merges([5], ranks), apply_merges([], ranks)), ([5, 6], [5], []))
    check("no merges learned", apply_merges([1, 2], {}), [1, 2])
    ids = [1, 2, 3]
    apply_merges(ids, ranks)
    check("what came stays as it was", ids, [1, 2, 3])
    words = word_counts("the other mother gathers feathers together with the weather")
    merges = learn_merges(words, 15)
    replayed = {word: list(word) for word in words}
    for k, pair in enumerate(merges):
        replayed = {word: merge_pair(ids, pair, 256 + k) for word, ids in replayed.items()}
    ranks = {pair: 256 + k for k, pair in enumerate(merges)}
    check("every word as in training", [apply_merges(list(word), ranks) for word in words], [tuple(ids) for ids in replayed.values()])


test_apply_merges()

# %% [markdown]
"""
**Given: what a tokenizer must refuse.** A vocabulary of fewer than 256 has no room for the bytes; merges that were stored and changed by hand may name tokens that do not exist.
"""

# %%
#| export
def at_least_bytes(vocab_size):
    """Return ``vocab_size`` if it is a whole number of at least 256, or raise ``TypeError`` or ``ValueError``."""
    if isinstance(vocab_size, bool) or not hasattr(vocab_size, "__index__"):
        raise TypeError(f"vocab_size is {vocab_size!r}; want a whole number")
    if vocab_size < 256:
        raise ValueError(f"vocab_size is {vocab_size}; want at least 256, one token for each byte")
    return vocab_size.__index__()


def checked_merges(merges):
    """Return merges as a list of pairs of ints, or raise ``ValueError`` that names the one that cannot be."""
    if not isinstance(merges, (list, tuple)):
        raise ValueError(f"merges are {merges!r}; want a list of pairs")
    pairs = [tuple(pair) if isinstance(pair, (list, tuple)) else pair for pair in merges]
    seen = set()
    for k, pair in enumerate(pairs):
        if not isinstance(pair, tuple) or len(pair) != 2 or any(type(one) is not int for one in pair):
            raise ValueError(f"merge {k} is {pair!r}; want a pair of token ids")
        if not all(0 <= one < 256 + k for one in pair) or pair in seen:
            raise ValueError(f"merge {k} is {pair}; want a new pair of tokens from 0 to {255 + k}")
        seen.add(pair)
    return pairs

# %% [markdown]
"""
**Back again.** Each token stands for some bytes: the first 256 for one byte each, every other for the bytes of its two parts, joined. Decoding looks them up, joins *all* bytes, and only then makes text of them: a character may begin in one token and end in the next.

**Task.** Write `token_bytes(merges)`: a list in which number `i` holds the bytes of token `i`, `256 + len(merges)` of them. Then two methods of the tokenizer:

- `encode(text)`: the list of ids. Cut the text with `pieces(text)`; each piece becomes `list(text_bytes(piece))`, then `apply_merges(ids, self.ranks)`; join the lists.
- `decode_bytes(ids)`: the exact bytes. `known_ids(ids, self.vocab_size)` refuses strange ids and gives a list; `self.tokens` is what your `token_bytes` returned.

The rest of the class is given: `train`, `decode`, which makes text of your bytes, and JSON, which is all the tokenizer needs to be stored: its merges are data, so nothing has to be executed to load them.

Example: with `merges = [(104, 105), (256, 33)]`, token 256 is `b"hi"` and token 257 is `b"hi!"`.

<details><summary>Hint 1: idea</summary>
A merge uses only tokens made before it, so one walk through the list is enough.
</details>
<details><summary>Hint 2: approach</summary>
<code>bytes([i])</code> is the single byte i (<code>chr(i).encode()</code> is not: from 128 on it has two bytes). Bytes are added with <code>+</code> and joined with <code>b"".join(...)</code>. A text repeats its words; a dict of pieces already done saves most of the work.
</details>
<details><summary>Hint 3: worked example, something else</summary>
Lengths of ropes knotted from two earlier ones: <code>lengths = [1, 1]</code>; <code>for a, b in knots: lengths.append(lengths[a] + lengths[b])</code>.
</details>
"""

# %% nbgrader={"grade": false, "grade_id": "bpe-tokenizer", "solution": true}
#| export
def token_bytes(merges):
    """Return the bytes of every token: 256 single bytes, then one for each merge."""
    ### BEGIN SOLUTION
    tokens = [bytes([value]) for value in range(256)]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    return tokens
    ### END SOLUTION


class BPETokenizer:
    """Byte-pair encoding on UTF-8 bytes: lossless on every string, trained by ``train(text, vocab_size)``.

    ``merges`` is all it knows: pairs of tokens in the order learned; merge k makes token 256 + k. Without merges each
    byte is a token. Example: ``BPETokenizer().train("hug hug hugs", 258).encode("hugs")`` is ``[257, 115]``.
    """

    def __init__(self, merges=()):
        """Take the merges as they are; ``ValueError`` for one that uses a token not made yet or comes twice."""
        self._know(merges)

    def _know(self, merges):
        self.merges = checked_merges(merges)
        self.ranks = {pair: 256 + k for k, pair in enumerate(self.merges)}
        self.tokens = token_bytes(self.merges)

    @property
    def vocab_size(self):
        """How many tokens there are: 256 bytes and the merges."""
        return 256 + len(self.merges)

    def train(self, text, vocab_size):
        """Learn merges from a text or a list of texts until there are ``vocab_size`` tokens; return the tokenizer.

        What it knew before is forgotten. It may stay smaller: a pair that comes only once is not merged. Of equally
        frequent pairs the smallest is taken, so the same text gives the same merges everywhere.
        """
        self._know(learn_merges(word_counts(text), at_least_bytes(vocab_size) - 256))
        return self

    def encode(self, text):
        """Return the ids of any text, a list; nothing is ever refused or lost."""
        ### BEGIN SOLUTION
        ids, known = [], {}
        for piece in pieces(text):
            if piece not in known:
                known[piece] = apply_merges(list(text_bytes(piece)), self.ranks)
            ids += known[piece]
        return ids
        ### END SOLUTION

    def decode_bytes(self, ids):
        """Return the exact bytes of a list, array or Tensor of ids; ``ValueError`` names one that does not exist."""
        ### BEGIN SOLUTION
        return b"".join(self.tokens[one] for one in known_ids(ids, self.vocab_size))
        ### END SOLUTION

    def decode(self, ids):
        """Return the text of ids; bytes that are no text (a model may make such) become the replacement character."""
        return bytes_text(self.decode_bytes(ids))

    def to_json(self):
        """Return everything the tokenizer knows as JSON text; ``from_json`` makes the same tokenizer of it."""
        return json.dumps({"tokenizer": "byte pairs", "merges": self.merges})

    @classmethod
    def from_json(cls, text):
        """Make a tokenizer from the JSON text of ``to_json``; other text is a ``ValueError``."""
        found = json.loads(want_text(text))
        if not isinstance(found, dict) or found.get("tokenizer") != "byte pairs" or "merges" not in found:
            raise ValueError("this JSON does not describe a byte-pair tokenizer; want the text that to_json gave")
        return cls(found["merges"])

    def __repr__(self):
        return f"BPETokenizer(vocab_size={self.vocab_size})"

# %%
tokenizer = BPETokenizer().train("hug hug hugs bug", 258)
print(tokenizer, tokenizer.encode("hugs"), tokenizer.tokens[256:], tokenizer.decode([257, 115]))

# %% nbgrader={"grade": true, "grade_id": "test-bpe-tokenizer", "points": 16, "skill": "decoding"}
def test_bpe_tokenizer():
    """Bytes of tokens, there and back, characters cut in two, strangers."""
    tokens = token_bytes([(104, 105), (256, 33), (257, 256)])
    check("how many tokens", len(tokens), 259)
    check("tokens 0, 65, 233, 255, in hexadecimal", [tokens[i].hex() for i in (0, 65, 233, 255)], ["00", "41", "e9", "ff"], {("00", "41", "c3a9", "c3bf"): "that is the character in UTF-8, two bytes; want the byte itself"})
    check("merges, joined", [token.decode() for token in tokens[256:]], ["hi", "hi!", "hi!hi"], {("ih", "!ih", "ih!ih"): "left first, then right"})
    tokenizer = BPETokenizer([(104, 105), (32, 256)])
    check("encode 'hi hi!'", tokenizer.encode("hi hi!"), [256, 257, 33], {(104, 105, 32, 104, 105, 33): "nothing was merged", (256, 32, 256, 33): "merges of merges are missing"})
    check("no merges across pieces", BPETokenizer([(97, 32), (97, 33)]).encode("a b a!"), [97, 32, 98, 32, 97, 33], {(256, 98, 32, 257): "merged across words: cut the text first"})
    check("what decode_bytes gives", type(tokenizer.decode_bytes([104])).__name__, "bytes", {"list": "join them: b''.join(...)", "str": "bytes, not yet text"})
    check("the exact bytes, in hexadecimal", tokenizer.decode_bytes([257, 195]).hex(), "206869c3", {"206869efbfbd": "made into text before: want the bytes themselves"})
    check("é, two bytes in two tokens", tokenizer.decode(tokenizer.encode("é")), "é", {"\ufffd\ufffd": "each token was made into text alone: join the bytes first"})
    trained = BPETokenizer().train("the cat and the hat and the bat that sat", 270)
    for text in ("the cat sat", "", "Ça va? naïve café", "cafe\u0301", "猫 🙂\n\t\0  end  ", "\ud800 lone", "x" * 50):
        check(f"there and back: {text[:12]!a}", trained.decode(trained.encode(text)), text)
    check("half a smile", trained.decode(trained.encode("🙂")[:2]), "\ufffd")
    check("nothing", (trained.encode(""), trained.decode([]), trained.decode_bytes([]).hex()), ([], "", ""))
    for one in (trained.vocab_size, -1):
        check_raises(f"token {one}", ValueError, lambda one=one: trained.decode_bytes([65, one]), must_say=str(one))
    check("the same from its JSON", BPETokenizer.from_json(trained.to_json()).encode("the cats that sat"), trained.encode("the cats that sat"))


test_bpe_tokenizer()

# %% [markdown]
r"""
**Why nothing is lost.** `decode(encode(s)) == s` for *every* Python string `s`. No trial can show that, but three short reasons can:

1. the cut: each character is in exactly one piece, so the pieces join to `s`;
2. the bytes: `"surrogatepass"` writes every character there is, and two different strings never get the same bytes;
3. the merges: a new token's bytes are those of the two it replaces, so all tokens' bytes, joined, are the same before and after each merge.

So the joined bytes are those of `s`, and reading them as UTF-8 gives `s`. The third reason holds for any merges, sensible or not. See the first two on all characters of Unicode, and the third on 20,000 characters at random, with the story's merges and with some that make no sense:
"""

# %%
import random

everything = "".join(map(chr, range(0x110000)))
print(f"the cut, {len(everything):,} characters:", "".join(pieces(everything)) == everything)
print(f"the bytes, {len(text_bytes(everything)):,} of them:", bytes_text(text_bytes(everything)) == everything)
mixture = "".join(random.Random(0).choices(everything, k=10_000) + random.Random(1).choices(" \n.,aehnst", k=10_000))
for what, one in (("the story's", BPETokenizer(merges)), ("nonsense", BPETokenizer([(104, 101), (32, 32), (256, 257), (240, 159)]))):
    ids = one.encode(mixture)
    print(f"the merges, {what}: {len(text_bytes(mixture)):,} bytes in {len(ids):,} tokens,", one.decode(ids) == mixture)

# %% [markdown]
"""
**And the other way round?** Is `encode(decode(ids))` always `ids`? Bet first.
"""

# %%
my_bet = None
tokenizer = BPETokenizer().train("hug hug hugs bug", 258)
for ids in ([104, 117, 103], [257], [240, 159]):
    print(f"bet {my_bet}; {ids} -> {tokenizer.decode(ids)!r} -> {tokenizer.encode(tokenizer.decode(ids))}, exact bytes {tokenizer.decode_bytes(ids)}")

# %% [markdown]
"""
No. The same text can be spelled with different tokens, of which `encode` makes one choice; and bytes that are no text are shown as a replacement character, which is a text of its own. Only `decode_bytes` keeps them.

## 7. What tokens look like

**Question.** What does your tokenizer, the one that read the story, take for a token? Look at the first ones it learned, and at a sentence.
"""

# %%
english = BPETokenizer(merges)
print("first 12:", [bytes_text(token) for token in english.tokens[256:268]])
print("longest: ", sorted((bytes_text(token) for token in english.tokens[256:]), key=len)[-6:])
for text in ("The engineer measured the river again.", "the The THE  the", "strawberry", "In 1912, in 1913, in 1921."):
    print([bytes_text(english.tokens[one]) for one in english.encode(text)])

# %% [markdown]
"""
Frequent words have become one token, with the space before them; rare ones stay in pieces. ` the` after a space, `the` at the beginning of a text and `THE` have no token in common, and the model must learn that they are related. Years that the story names often are cut in another way than their neighbours. And "strawberry" arrives as numbers for its pieces: whoever asks the model how many r are in it asks about something that it does not see.

**Tokens are not words.** Guess how many tokens the same sentence takes in each language, for this tokenizer, which has read only English. Which language does it help, and which pays?
"""

# %%
my_bet = dict.fromkeys(sentences)
for language, sentence in sentences.items():
    ids = english.encode(sentence)
    print(f"{language:>8}: bet {my_bet[language]}, {len(sentence.split())} words, {len(sentence)} characters, {len(text_bytes(sentence))} bytes, {len(ids)} tokens: {len(text_bytes(sentence)) / len(ids):.2f} bytes per token")

# %% [markdown]
"""
Nothing is refused, and nothing is equal: what training did not see stays in bytes. A text in such a language fills the model's window sooner, takes longer, and costs more where tokens are paid for.

Training on Hindi would help, but not as much as it should. Our cut, like that of GPT-2, was made by people who thought of letters without vowel signs:
"""

# %%
print(pieces(sentences["Hindi"]), pieces("cafe\u0301"))

# %% [markdown]
"""
The signs are no "word characters", so words break at them, and no merge can join across the break.

**How large a vocabulary?** The merges are learned one after another, so the first `k` of them *are* the tokenizer with `256 + k` tokens: one training gives all sizes. Count the tokens of the story, of its end, which training did not see, and of the Greek sentence.
"""

# %%
import matplotlib.pyplot as plt

sizes = [0, 10, 30, 60, 100, 200, 300, len(merges)]
texts = {"the story, trained on": story, "its end, not trained on": held_out, "Greek": sentences["Greek"]}
compression = {name: [len(text_bytes(text)) / len(BPETokenizer(merges[:k]).encode(text)) for k in sizes] for name, text in texts.items()}
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for (name, ratios), colour in zip(compression.items(), ("#56B4E9", "#0072B2", "#D55E00")):
    left.plot([256 + k for k in sizes], ratios, "o-", color=colour, label=name)
left.set(xlabel="vocabulary size", ylabel="bytes per token", title="what a larger vocabulary buys")
left.legend(frameon=False)
tokens = [len(BPETokenizer(merges[:k]).encode(sentences["English"])) for k in sizes]
right.plot([256 + k for k in sizes], tokens, "o-", color="#0072B2")
right.axhline(len(sentences["English"].split()), color="#444444", linestyle=":")
right.set(xlabel="vocabulary size", ylabel="tokens", title="'The cat sleeps in the warm sun.' (dotted: words)", ylim=(0, None))
for name, ratios in compression.items():
    print(f"{name:>23}, bytes per token:", ", ".join(f"{256 + k}: {ratio:.2f}" for k, ratio in zip(sizes, ratios)))

# %% [markdown]
"""
On the text that training did not see, the first hundred merges buy about as much as all others together. The text it was trained on looks better, and deceives: part of that is the tokenizer knowing this story. In Greek nothing is bought at any size: one would have to train on Greek. And what does a larger vocabulary cost?

## 8. What it means for a real model

**Question.** GPT-2 has 50,257 tokens: 256 bytes, 50,000 merges and one that marks the end of a text. What does that buy, and what does it cost, in a model with 768 numbers for each token and 124,439,808 parameters? Guess the share of the table first.
"""

# %%
vocabulary, width, total = 50_257, 768, 124_439_808
print(f"table of GPT-2 small: {vocabulary * width:,} numbers, {100 * vocabulary * width / total:.1f} % of the model")
print(f"with 256 tokens:      {256 * width:,} numbers")
ratio = compression["its end, not trained on"][-1]
print(f"your {256 + len(merges):,} tokens: {ratio:.2f} bytes per token, so a text has 1/{ratio:.2f} of the places, and attention, which compares each place with each, 1/{ratio**2:.1f} of the products")

# %% [markdown]
"""
So the vocabulary trades memory against length. The table grows in proportion to the number of tokens; the length of a text falls ever more slowly; but what attention saves is the *square* of it.

**Reflect.** Answer first, then open.

<details><summary>Why bytes and not characters as the first tokens?</summary>
256 of them write every text in every script. Unicode has some 150,000 characters, and those that training did not have would be refused or become an "unknown" token, which loses them.
</details>
<details><summary>Two tokenizers have the same vocabulary size. Can a model be moved from one to the other?</summary>
No. Its table has a row for each id, and the ids mean other pieces. Tokenizer and model belong together, which is why the merges are stored with the weights.
</details>
<details><summary>"1912" and "1921" are cut in different ways. What does that do to a model that adds?</summary>
It must learn arithmetic for every way in which a number may be cut. Some newer tokenizers therefore allow no token of more than one, or three, digits.
</details>
<details><summary>A tokenizer was trained on web pages that contain one user's name ten thousand times; the model was trained on other texts. What happens to that token?</summary>
It has a row in the table that was hardly ever trained, so the model does unpredictable things when it meets it. That has happened.
</details>
<details><summary>Loss per token fell when the vocabulary shrank. Is the model better?</summary>
Not by that. Shorter tokens are easier to guess, and there are more of them. Compare the loss per byte of text: tokens per byte times loss per token.
</details>
<details><summary>Your encoder asks for the smallest rank again and again. What would make a long piece without spaces slow?</summary>
Every merge walks through the whole piece, so the time is its length times the number of different merges in it. Field tokenizers keep a queue of pairs, or limit the length of a piece.
</details>

`tito test tokenization` checks the module; once all of it passes, `tito module complete tokenization` puts what you wrote into the package, and later modules run on your code. Next: Module 11, embeddings: what a model makes of a token's number.
"""

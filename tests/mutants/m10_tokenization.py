"""Wrong and right solutions of module 10, as small edits of the reference."""

WRONG = [
    {"name": "in-order-of-appearance", "cell": "char-tokenizer",
     "old": '"".join(sorted(set(text)))', "new": '"".join(dict.fromkeys(text))',
     "caught": "test-char-tokenizer: the alphabet", "says": "in order of appearance"},
    {"name": "numbers-from-1", "cell": "char-tokenizer",
     "old": "enumerate(self.alphabet)}", "new": "enumerate(self.alphabet, 1)}",
     "caught": "test-char-tokenizer: ids", "says": "numbers begin at 0"},
    {"name": "repeats-kept", "cell": "char-tokenizer",
     "old": '"".join(sorted(set(text)))', "new": '"".join(sorted(text))',
     "caught": "test-char-tokenizer: the alphabet", "says": "is there twice"},
    {"name": "ids-sorted", "cell": "char-tokenizer",
     "old": "return [self.ids[character] for character in text]",
     "new": "return sorted(self.ids[character] for character in text)",
     "caught": "test-char-tokenizer: encode", "says": "the text's order is lost"},
    {"name": "strangers-left-out", "cell": "char-tokenizer",
     "old": "            if character not in self.ids:\n",
     "new": "            if character not in self.ids and position == 0:\n",
     "caught": "test-char-tokenizer: 'foxZ', naming Z"},
    {"name": "each-word-once", "cell": "count-pairs",
     "old": "counts[pair] += times", "new": "counts[pair] += 1",
     "caught": "test-count-pairs: the pair (5, 6), twice in a word that came 10 times",
     "says": "each word counted once"},
    {"name": "pairs-as-a-set", "cell": "count-pairs",
     "old": "for pair in zip(word, word[1:]):", "new": "for pair in set(zip(word, word[1:])):",
     "caught": "test-count-pairs: the pair (5, 6), twice in a word that came 10 times", "says": "the pair comes twice"},
    {"name": "every-second-pair", "cell": "count-pairs",
     "old": "zip(word, word[1:])", "new": "zip(word[::2], word[1::2])",
     "caught": "test-count-pairs: the pair (6, 5)", "says": "neighbours too"},
    {"name": "order-of-a-pair-lost", "cell": "count-pairs",
     "old": "counts[pair] += times", "new": "counts[tuple(sorted(pair))] += times",
     "caught": "test-count-pairs: the pair (5, 6), twice in a word that came 10 times", "says": "the order of a pair"},
    {"name": "first-of-equals", "cell": "count-pairs",
     "old": "min(counts, key=lambda pair: (-counts[pair], pair), default=None)",
     "new": "max(counts, key=lambda pair: counts[pair], default=None)",
     "caught": "test-count-pairs: a tie", "says": "the first that was met"},
    {"name": "largest-of-equals", "cell": "count-pairs",
     "old": "min(counts, key=lambda pair: (-counts[pair], pair), default=None)",
     "new": "max(counts, key=lambda pair: (counts[pair], pair), default=None)",
     "caught": "test-count-pairs: a tie", "says": "the largest of equals"},
    {"name": "rarest", "cell": "count-pairs",
     "old": "(-counts[pair], pair)", "new": "(counts[pair], pair)",
     "caught": "test-count-pairs: most frequent", "says": "the rarest"},
    {"name": "last-pair-not-looked-at", "cell": "merge-pair",
     "old": "last = [], 0, len(ids) - 1", "new": "last = [], 0, len(ids) - 2",
     "caught": "test-merge-pair: two of them", "says": "fell off the end"},
    {"name": "right-one-stays", "cell": "merge-pair",
     "old": "i += 2", "new": "i += 1",
     "caught": "test-merge-pair: two of them", "says": "the right one of the pair is still there"},
    {"name": "either-order", "cell": "merge-pair",
     "old": "ids[i] == pair[0] and ids[i + 1] == pair[1]", "new": "{ids[i], ids[i + 1]} == set(pair)",
     "caught": "test-merge-pair: two of them", "says": "(8, 4) is another pair"},
    {"name": "only-the-first", "cell": "merge-pair",
     "old": "if i < last and ids[i] == pair[0]", "new": "if i < last and new_id not in merged and ids[i] == pair[0]",
     "caught": "test-merge-pair: two of them", "says": "not the first alone"},
    {"name": "written-into-the-list", "cell": "merge-pair",
     "old": "            merged.append(new_id)\n",
     "new": "            ids[i] = new_id\n            merged.append(new_id)\n",
     "caught": "test-merge-pair: what came stays as it was", "says": "written into the list that came"},
    {"name": "words-not-merged", "cell": "learn-merges",
     "old": "            words[merged] = times\n            counts.subtract(count_pairs({word: times}))\n"
            "            counts.update(count_pairs({merged: times}))\n",
     "new": "            words[word] = times\n        counts.pop(pair)\n",
     "caught": "test-learn-merges: hug, hug, hugs, bug", "says": "the words were not merged"},
    {"name": "numbered-from-0", "cell": "learn-merges",
     "old": "256 + len(merges)", "new": "len(merges)",
     "caught": "test-learn-merges: hug, hug, hugs, bug", "says": "numbered from 256"},
    {"name": "numbered-from-257", "cell": "learn-merges",
     "old": "256 + len(merges)", "new": "257 + len(merges)",
     "caught": "test-learn-merges: hug, hug, hugs, bug", "says": "the first new token is 256"},
    {"name": "counts-not-subtracted", "cell": "learn-merges",
     "old": "            counts.subtract(count_pairs({word: times}))\n", "new": "",
     "caught": "test-learn-merges: hug, hug, hugs, bug", "says": "have not been taken away"},
    {"name": "other-counts-kept", "cell": "learn-merges",
     "old": "counts.subtract(count_pairs({word: times}))", "new": "counts[pair] = 0",
     "caught": "test-learn-merges: hug, hug, hugs, bug", "says": "have not been taken away"},
    {"name": "single-pairs-merged", "cell": "learn-merges",
     "old": "counts[pair] < 2", "new": "counts[pair] < 1",
     "caught": "test-learn-merges: a pair that comes once is not merged", "says": "less than twice"},
    {"name": "callers-words-changed", "cell": "learn-merges",
     "old": "words, counts, merges = dict(words), count_pairs(words), []",
     "new": "counts, merges = count_pairs(words), []",
     "caught": "test-learn-merges: the caller's words stay"},
    {"name": "from-left-to-right", "cell": "apply-merges",
     "old": 'min(zip(ids, ids[1:]), key=lambda one: ranks.get(one, float("inf")))',
     "new": "next((one for one in zip(ids, ids[1:]) if one in ranks), None)",
     "caught": "test-apply-merges: the first learned goes first", "says": "from left to right"},
    {"name": "last-learned-first", "cell": "apply-merges",
     "old": 'min(zip(ids, ids[1:]), key=lambda one: ranks.get(one, float("inf")))',
     "new": "max(zip(ids, ids[1:]), key=lambda one: ranks.get(one, -1))",
     "caught": "test-apply-merges: the first learned goes first", "says": "want the pair that was learned first"},
    {"name": "in-the-dicts-order", "cell": "apply-merges",
     "old": 'min(zip(ids, ids[1:]), key=lambda one: ranks.get(one, float("inf")))',
     "new": "next((one for one in ranks if one in zip(ids, ids[1:])), None)",
     "caught": "test-apply-merges: the dict's order does not matter", "says": "in the dict's order"},
    {"name": "one-round", "cell": "apply-merges",
     "old": "        ids = merge_pair(ids, pair, ranks[pair])\n",
     "new": "        return merge_pair(ids, pair, ranks[pair])\n",
     "caught": "test-apply-merges: merges of merges", "says": "one round"},
    {"name": "characters-not-bytes", "cell": "bpe-tokenizer",
     "old": "bytes([value]) for value", "new": "chr(value).encode() for value",
     "caught": "test-bpe-tokenizer: tokens 0, 65, 233, 255, in hexadecimal", "says": "the character in UTF-8"},
    {"name": "right-before-left", "cell": "bpe-tokenizer",
     "old": "tokens[left] + tokens[right]", "new": "tokens[right] + tokens[left]",
     "caught": "test-bpe-tokenizer: merges, joined", "says": "left first"},
    {"name": "merged-across-words", "cell": "bpe-tokenizer",
     "old": "for piece in pieces(text):", "new": "for piece in [text]:",
     "caught": "test-bpe-tokenizer: no merges across pieces", "says": "merged across words"},
    {"name": "never-merged", "cell": "bpe-tokenizer",
     "old": "apply_merges(list(text_bytes(piece)), self.ranks)", "new": "list(text_bytes(piece))",
     "caught": "test-bpe-tokenizer: encode 'hi hi!'", "says": "nothing was merged"},
    {"name": "decoded-one-by-one", "cell": "bpe-tokenizer",
     "old": 'b"".join(self.tokens[one] for one in known_ids(ids, self.vocab_size))',
     "new": '"".join(bytes_text(self.tokens[one]) for one in known_ids(ids, self.vocab_size)).encode()',
     "caught": "test-bpe-tokenizer: the exact bytes, in hexadecimal", "says": "made into text before"},
]

RIGHT = [
    {"name": "counting-by-index", "cell": "count-pairs", "code": '''
#| export
def count_pairs(words):
    """Return how often each pair of neighbours comes, from {word: times}; overlapping pairs count each."""
    counts = Counter()
    for word, times in words.items():
        for i in range(len(word) - 1):
            counts[word[i], word[i + 1]] += times
    return counts


def most_frequent(counts):
    """Return the pair with the highest count, of equal ones the smallest; None where there are none."""
    if not counts:
        return None
    most = max(counts.values())
    return sorted(pair for pair, times in counts.items() if times == most)[0]
'''},
    {"name": "merging-from-a-queue", "cell": "merge-pair", "code": '''
#| export
def merge_pair(ids, pair, new_id):
    """Return a list in which each ``pair`` of neighbours in ``ids``, found from the left, is one ``new_id``."""
    merged, joined = [], False
    for one in ids:
        if merged and not joined and (merged[-1], one) == tuple(pair):
            merged[-1], joined = new_id, True
        else:
            merged.append(one)
            joined = False
    return merged
'''},
    {"name": "counted-anew-each-round", "cell": "learn-merges", "code": '''
#| export
def learn_merges(words, num_merges):
    """Return up to ``num_merges`` pairs from {word: times}, each time the most frequent."""
    merges = []
    while len(merges) < num_merges:
        counts = count_pairs(words)
        pair = most_frequent(counts)
        if pair is None or counts[pair] < 2:
            return merges
        words = {tuple(merge_pair(word, pair, 256 + len(merges))): times for word, times in words.items()}
        merges.append(pair)
    return merges
'''},
    {"name": "merge-by-merge", "cell": "apply-merges", "code": '''
#| export
def apply_merges(ids, ranks):
    """Merge ``ids`` by ``ranks``, {pair: new token}, smallest new token (learned first) first, until none is left."""
    ids = list(ids)
    while True:
        here = {ranks[pair]: pair for pair in zip(ids, ids[1:]) if pair in ranks}
        if not here:
            return ids
        first = min(here)
        ids = merge_pair(ids, here[first], first)
'''},
]

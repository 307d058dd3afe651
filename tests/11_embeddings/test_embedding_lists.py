"""Token ids that come as Python lists are whole numbers, never rounded through a float."""

import numpy as np
import pytest

from tinytorch.core.embeddings import Embedding, token_ids


def test_large_ids_in_a_list_are_exact():
    """2**24 + 1 is the first whole number that float32 does not have."""
    assert token_ids([2**24 + 1], 2**24 + 10).data.tolist() == [2**24 + 1]


def test_lists_of_booleans_are_refused_and_empty_lists_are_empty():
    with pytest.raises(TypeError, match="booleans"):
        Embedding(5, 3)([True])
    assert Embedding(5, 3)([]).shape == (0, 3)
    assert Embedding(5, 3)([[1, 2]]).shape == (1, 2, 3)


def test_the_message_says_the_id_as_it_came():
    with pytest.raises(ValueError, match=r"\b9\b(?!\.\d)"):
        token_ids([1, 9], 5)
    with pytest.raises(ValueError, match=r"\b1\.5\b"):
        token_ids(np.array([1.5], np.float32), 5)

"""Intervals that are right for few samples: against published tables, by hand, and by trying them."""

from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.core.tensor import Tensor
from tinytorch.perf.benchmarking import (
    accuracy_interval,
    coverage,
    difference_interval,
    geometric_mean,
    mean_interval,
    paired_accuracy,
    sign_test,
    t_coverage,
    t_factor,
)

DEGREES = (1, 2, 3, 4, 7, 10, 30, 120, 999)
TABLE = {  # two-sided quantiles of Student's t: SciPy 1.17.1, stats.t.ppf(0.5 + c / 2, df)
    0.5: (1.0, 0.816496581, 0.764892328, 0.740697084, 0.711141778, 0.699812061, 0.682755693, 0.676539725, 0.67473541),
    0.95: (12.706204736, 4.30265273, 3.182446305, 2.776445105, 2.364624252, 2.228138852, 2.042272456, 1.979930405,
           1.962341461),
    0.99: (63.656741163, 9.924843201, 5.84090931, 4.604094871, 3.499483297, 3.169272673, 2.749995654, 2.617421145,
           2.580759637),
    0.9999: (6366.197671317, 99.992499844, 28.000130011, 15.544100582, 7.884584262, 6.211050891, 4.482417175,
             4.02538995, 3.906359561),
}


@pytest.mark.parametrize("confidence", TABLE)
def test_the_factor_is_the_published_one(confidence):
    assert [t_factor(confidence, df) for df in DEGREES] == pytest.approx(TABLE[confidence], rel=1e-8)


@given(st.integers(1, 60), st.floats(0.01, 4))
def test_coverage_rises_with_t_and_with_the_degrees_of_freedom(df, t):
    assert 0 < t_coverage(t, df) < t_coverage(1.01 * t, df) < 1
    assert t_coverage(t, df) <= t_coverage(t, df + 1) + 1e-12


@given(st.integers(1, 200), st.floats(0.001, 0.9999))
def test_factor_and_coverage_undo_each_other(df, confidence):
    assert t_coverage(t_factor(confidence, df), df) == pytest.approx(confidence, rel=1e-9)


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_mean_of_few_is_covered_as_often_as_promised(n, confidence):
    """4,000 trials: the share's own standard deviation is sqrt(c (1 - c) / 4000); four of them are allowed."""
    rng = np.random.default_rng(n)
    share = coverage(lambda samples: mean_interval(samples, confidence), lambda: rng.normal(-3, 2, n), -3, trials=4000)
    assert abs(share - confidence) < 4 * sqrt(confidence * (1 - confidence) / 4000)


def test_a_mean_by_hand_at_another_confidence():
    # 1, 3: mean 2, s = sqrt(2), s / sqrt(2) = 1, and t of one degree covers one half at 1
    assert mean_interval([1, 3], confidence=0.5) == pytest.approx((1.0, 3.0), rel=1e-12)
    assert mean_interval(np.array([1.0, 3.0], np.float32), 0.5) == pytest.approx((1.0, 3.0), rel=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8), st.floats(-1e3, 1e3), st.floats(0.1, 10))
def test_a_mean_moves_and_stretches_with_its_samples(samples, shift, scale):
    low, high = mean_interval(samples)
    assert mean_interval([scale * one + shift for one in samples]) == pytest.approx(
        (scale * low + shift, scale * high + shift), rel=1e-6, abs=1e-4)


@pytest.mark.parametrize("samples, error, says", [
    ([], ValueError, "no samples came"), ([1.0, float("nan")], ValueError, r"samples\[1\] is NaN"),
    ([1.0, float("inf")], ValueError, r"samples\[1\] is inf"), (["1", 2.0], TypeError, r"samples\[0\]"),
    ([True, 2.0], TypeError, r"samples\[0\]"), (3, TypeError, "samples is 3; want a list"),
    ([1e308, 1e308], ValueError, r"samples\[0\] is 1e\+308; want .* up to 1e150")])
def test_what_is_no_sample_is_refused(samples, error, says):
    with pytest.raises(error, match=says):
        mean_interval(samples)


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, float("nan")])
@pytest.mark.parametrize("interval", [lambda c: mean_interval([1, 2], c), lambda c: accuracy_interval(1, 2, c)])
def test_a_confidence_is_a_share(interval, confidence):
    with pytest.raises(ValueError, match="confidence"):
        interval(confidence)


def test_the_largest_numbers_and_the_smallest():
    # -a, a: mean 0, s = a sqrt(2), s / sqrt(2) = a, t of one degree 12.706
    assert mean_interval([-1e150, 1e150]) == pytest.approx((-12.706204736e150, 12.706204736e150), rel=1e-9)
    assert mean_interval([5e-324, 5e-324]) == (5e-324, 5e-324)


@pytest.mark.parametrize("t, error", [(-1.0, ValueError), (float("nan"), ValueError), ("1", TypeError)])
def test_a_t_is_a_number_from_0(t, error):
    with pytest.raises(error, match="t is "):
        t_coverage(t, 3)


def test_the_factor_does_not_remember_what_it_would_refuse():
    assert t_factor(0.95, 1) > 12
    for wrong in (True, 1.0):
        with pytest.raises(TypeError, match="df"):
            t_factor(0.95, wrong)


def test_odd_degrees_and_trials_are_refused():
    for wrong, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="df"):
            t_coverage(1.0, wrong)
        with pytest.raises(error, match="trials"):
            coverage(lambda samples: (0, 1), lambda: [1], 0, trials=wrong)


# ---- shares

@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.5, 0.95]))
def test_an_end_is_z_deviations_away_from_what_was_seen(counts, confidence):
    """Wilson's definition: |share - p| = z sqrt(p (1 - p) / n) at both ends; z of 0.5 is 0.674490, of 0.95 1.959964."""
    right, total = counts
    ends, z = accuracy_interval(right, total, confidence), {0.5: 0.674490, 0.95: 1.959964}[confidence]
    assert 0 <= ends[0] < ends[1] <= 1 and ends[0] <= right / total <= ends[1]
    for p in ends:
        assert abs(right / total - p) == pytest.approx(z * sqrt(p * (1 - p) / total), rel=1e-4, abs=1e-7)


def test_none_and_all_mirror_each_other():
    for n in (1, 2, 10, 355, 10**6):
        (low, high), (below, above) = accuracy_interval(0, n), accuracy_interval(n, n)
        assert (low, above) == (0.0, 1.0)
        assert high == pytest.approx(1 - below) and 0 < high < 1


def test_wilson_covers_near_its_promise_where_the_textbook_does_not():
    """20 throws at p = 0.95, every count weighed by its chance: exact, no drawing."""
    chance = [comb(20, k) * 0.95**k * 0.05 ** (20 - k) for k in range(21)]

    def covered(interval):
        return sum(c for k, c in enumerate(chance) if interval(k)[0] <= 0.95 <= interval(k)[1])

    def textbook(k):
        half = 1.959964 * sqrt(k / 20 * (1 - k / 20) / 20)
        return k / 20 - half, k / 20 + half

    # Wilson's holds 0.95 for k = 18 .. 20: 0.1887 + 0.3774 + 0.3585; the textbook's for 16 .. 19, not for 20
    assert covered(lambda k: accuracy_interval(k, 20)) == pytest.approx(0.9245, abs=1e-4)
    assert covered(textbook) == pytest.approx(0.6390, abs=1e-4)


@pytest.mark.parametrize("n, mean, worst", [(1, 0.957, 0.794), (5, 0.955, 0.833), (20, 0.953, 0.852)])
def test_wilson_keeps_its_promise_on_average_over_p_and_not_at_the_edges(n, mean, worst):
    """For p in thousandths, every count weighed by its chance. For n = 1 the worst: 0 of 1 ends at 0.7935, 1 - p."""
    ends = [accuracy_interval(k, n) for k in range(n + 1)]
    over = [sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k, (low, high) in enumerate(ends) if low <= p <= high)
            for p in np.arange(1, 1000) / 1000]
    assert (np.mean(over), min(over)) == pytest.approx((mean, worst), abs=6e-4)


@pytest.mark.parametrize("right, total, error", [(5, 4, ValueError), (-1, 4, ValueError), (0, 0, ValueError),
                                                 (1.0, 4, TypeError), (1, 4.0, TypeError), (True, 4, TypeError),
                                                 (1, 2**53 + 1, ValueError)])
def test_counts_that_are_none_are_refused(right, total, error):
    with pytest.raises(error):
        accuracy_interval(right, total)


# ---- pairs

@pytest.mark.parametrize("ups, downs, p", [(2, 10, 0.03857421875), (5, 1, 0.21875), (40, 60, 0.05688793364098089)])
def test_the_sign_test_is_the_exact_binomial(ups, downs, p):
    """SciPy 1.17.1: stats.binomtest(ups, ups + downs).pvalue."""
    assert sign_test(ups, downs) == pytest.approx(p, rel=1e-12) == sign_test(downs, ups)


@given(st.integers(0, 12), st.integers(0, 12))
def test_the_sign_test_counts_rows_of_coins(ups, downs):
    n = ups + downs
    rows = sum(comb(n, k) for k in range(n + 1) if abs(2 * k - n) >= abs(ups - downs))  # as uneven, either way
    assert sign_test(ups, downs) == pytest.approx(rows / 2**n)


def test_two_models_on_the_same_ten_thousand():
    assert sign_test(4800, 5200) == pytest.approx(6.593515598672343e-05, rel=1e-9)  # SciPy 1.17.1; 2^-10000 is no float


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_two_models_exchanged(answers):
    first, second = (np.array(side) for side in zip(*answers))
    there, back = paired_accuracy(first, second), paired_accuracy(second, first)
    assert (there["only_first"], there["only_second"]) == (back["only_second"], back["only_first"])
    assert there["difference"] == pytest.approx(second.mean() - first.mean())
    assert there["p_value"] == back["p_value"]
    assert there["interval"] == pytest.approx((-back["interval"][1], -back["interval"][0]))
    assert there["interval"][0] < there["interval"][1]


def test_the_interval_of_a_difference_by_hand():
    # 98 examples, 3 only the first, 6 only the second: gained 6.5 / 100, lost 3.5 / 100, middle 0.03,
    # half 1.959964 sqrt((0.1 - 0.0009) / 100) = 0.061700
    first = np.arange(98) < 3
    second = (np.arange(98) >= 3) & (np.arange(98) < 9)
    found = paired_accuracy(first, Tensor(second, dtype=bool))
    assert (found["only_first"], found["only_second"]) == (3, 6)
    assert found["interval"] == pytest.approx((0.03 - 0.061700, 0.03 + 0.061700), abs=1e-6)


@pytest.mark.parametrize("gained, lost", [(0.02, 0.02), (0.05, 0.05), (0.01, 0.03)])
def test_a_difference_is_covered_and_the_sign_test_errs_no_more_often_than_it_says(gained, lost):
    """1,000 pairs of models on 355 examples; four deviations, 4 sqrt(0.05 * 0.95 / 1000) = 0.0276, are allowed."""
    drawn = np.random.default_rng(0).multinomial(355, [gained, lost, 1 - gained - lost], 1000)[:, :2].tolist()
    ends = [difference_interval(down, up, 355) for up, down in drawn]
    assert np.mean([low <= gained - lost <= high for low, high in ends]) == pytest.approx(0.955, abs=0.0276)
    if gained == lost:
        assert np.mean([sign_test(up, down) < 0.05 for up, down in drawn]) < 0.05


def test_where_few_differ_the_test_is_more_cautious_than_the_interval():
    # 5 against 0: p = 2/32; (5.5 - 0.5) / 357 = 0.014006, half 1.959964 sqrt((6/357 - 0.014006^2) / 357) = 0.013369
    found = paired_accuracy(np.arange(355) < 0, np.arange(355) < 5)
    assert found["p_value"] == 2 / 32
    assert found["interval"] == pytest.approx((0.000636, 0.027375), abs=1e-6)


@pytest.mark.parametrize("counts, says", [((3, 4, 5), "total is 5; want at least 7"), ((-1, 0, 5), "only_first is -1"),
                                          ((0, 0, 0), "total is 0")])
def test_counts_that_do_not_add_up_are_refused(counts, says):
    with pytest.raises(ValueError, match=says):
        difference_interval(*counts)


def test_the_same_model_twice():
    right = np.array([True, False, True])
    found = paired_accuracy(right, right)
    assert (found["difference"], found["p_value"]) == (0.0, 1.0)


@pytest.mark.parametrize("first, second, error, says", [
    ([1, 0], [True, False], TypeError, "right_first is int"), ([True], [True, False], ValueError, "1 and 2 examples"),
    ([[True]], [[True]], ValueError, r"shape \(1, 1\)"), (np.zeros(0, bool), np.zeros(0, bool), ValueError, "shape")])
def test_answers_that_are_no_pairs_are_refused(first, second, error, says):
    with pytest.raises(error, match=says):
        paired_accuracy(first, second)


# ---- ratios

@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=9))
def test_the_geometric_mean_is_the_root_of_the_product(ratios):
    assert geometric_mean(ratios) == pytest.approx(float(np.prod(ratios)) ** (1 / len(ratios)), rel=1e-9)


@pytest.mark.parametrize("ratios, says", [([], "no ratios"), ([1.0, 0.0], "above 0"), ([-1.0], "above 0"),
                                          ([float("nan")], r"ratios\[0\] is NaN")])
def test_what_is_no_ratio_is_refused(ratios, says):
    with pytest.raises(ValueError, match=says):
        geometric_mean(ratios)

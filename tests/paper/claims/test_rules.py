"""The verdict of a rule on an interval."""

import math

import pytest

from gradsurgery.lab.analysis import Interval, interval_of
from gradsurgery.paper.claims.rule import Rule, Verdict, combine

HOLDS, FAILS, UNDECIDED = Verdict


@pytest.mark.parametrize(
    ("rule", "low", "high", "verdict"),
    [
        (Rule(low=0.0, margin=0.02), 0.01, 0.3, HOLDS),
        (Rule(low=0.0, margin=0.02), 0.001, 0.01, HOLDS),
        (Rule(low=0.0, margin=0.02), -0.3, -0.1, FAILS),
        (Rule(low=0.0, margin=0.02), -0.01, 0.01, FAILS),  # any lead is too small to count
        (Rule(low=0.0, margin=0.02), -0.1, 0.1, UNDECIDED),
        (Rule(high=0.0, margin=0.01), -0.2, -0.1, HOLDS),
        (Rule(high=0.0, margin=0.01), 0.1, 0.2, FAILS),
        (Rule(high=0.0, margin=0.01), -0.005, 0.2, FAILS),
        (Rule(high=0.0, margin=0.01), -0.2, 0.2, UNDECIDED),
        (Rule(-0.05, 0.05), -0.04, 0.04, HOLDS),
        (Rule(-0.05, 0.05), 0.06, 0.07, FAILS),
        (Rule(-0.05, 0.05), -0.07, -0.06, FAILS),
        (Rule(-0.05, 0.05), 0.04, 0.06, UNDECIDED),
        (Rule(-0.05, 0.05), -0.5, 0.5, UNDECIDED),
    ],
)
def test_the_verdict_depends_on_the_whole_interval(rule, low, high, verdict):
    assert rule.verdict(Interval((low + high) / 2, low, high, 3)) == verdict


def test_one_seed_decides_nothing():
    assert Rule(low=0.0, margin=math.inf).verdict(interval_of([1.0])) == UNDECIDED


@pytest.mark.parametrize(
    ("verdicts", "combined"),
    [
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, UNDECIDED], UNDECIDED),
        ([HOLDS, FAILS], FAILS),
        ([FAILS, UNDECIDED], FAILS),
        ([], UNDECIDED),
    ],
)
def test_a_claim_holds_if_all_its_statistics_do(verdicts, combined):
    assert combine(verdicts) == combined

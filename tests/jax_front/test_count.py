"""The words that a jitted step moves per parameter. Unlike a time, a count is the same on every machine."""

import pytest

from benchmarks.count_jax import bytes_moved, platforms, words

BUDGET = {
    "CPU": {
        "no surgery": 10,
        "mixed": 14,
        "bloop": 23,
        "bloop, average in bfloat16": 21.5,
        "bloop, relative lam": 24,
        "bloop, two levels": 40,
        "pcgrad with an average": 26,
    },
    "H100": {
        "no surgery": 7,
        "mixed": 10,
        "bloop": 13,
        "bloop, average in bfloat16": 11.5,
        "bloop, relative lam": 13,
        "bloop, two levels": 18,
        "pcgrad with an average": 13,
    },
    "TPU v5e": {
        "no surgery": 7,
        "mixed": 10,
        "bloop": 15,
        "bloop, average in bfloat16": 13,
        "bloop, relative lam": 15,
        "bloop, two levels": 20,
        "pcgrad with an average": 15,
    },
}
"""With Adam and the addition to the parameters, as in ``docs/speed.md``."""


@pytest.mark.slow
@pytest.mark.parametrize("platform", BUDGET)
def test_a_step_moves_no_more_words_than_it_did(platform):
    if platform not in platforms():
        pytest.skip(f"XLA's compiler for {platform} is not installed")
    device = platforms()[platform]()
    counts = {case: words(case, device) for case in BUDGET[platform]}
    assert all(counts[case] < most + 0.05 for case, most in BUDGET[platform].items()), counts


def test_operands_and_results_of_each_instruction_are_counted():
    module = """
%fused (a: f32[9,9]) -> f32[9,9] {
  ROOT %b = f32[9,9]{1,0} copy(%a)
}

ENTRY %main (p: f32[4,2], q: bf16[8]) -> (f32[], f32[4,2]) {
  %p = f32[4,2]{1,0} parameter(0), metadata={op_name="p"}
  %q = bf16[8]{0} parameter(1)
  %both = (f32[]{:T(128)}, f32[4,2]{1,0}) fusion(%p, /*index=1*/%q), kind=kLoop, calls=%fused
  %first = f32[] get-tuple-element(%both), index=0
  ROOT %out = pred[] compare(%first, %first), direction=EQ
}
"""
    assert bytes_moved(module) == (4 + 32 + 32 + 16) + (4 + 4 + 1)

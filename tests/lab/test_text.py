"""Numbers for people."""

import pytest

from gradsurgery.lab.text import number


@pytest.mark.parametrize(
    ("value", "text"),
    {
        0.3: "0.3",
        2: "2",
        100: "100",
        0.9999: "1",
        0.001: "0.001",
        9.999e-4: "0.001",
        0.0012345: "0.00123",
        54321: "54,321",
        123456: "1.23×10⁵",
        1e-4: "10⁻⁴",
        3.16e-4: "3.16×10⁻⁴",
        -0.5: "−0.5",
        0: "0",
        float("inf"): "∞",
    }.items(),
)
def test_numbers_are_formatted_for_people(value, text):
    assert number(value) == text

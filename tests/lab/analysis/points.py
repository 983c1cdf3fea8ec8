"""Hypothesis strategies for points of the loss plane."""

from hypothesis import strategies as st

losses = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6), st.floats(1e-12, 1e-6))
point = st.tuples(losses, losses)
points = st.lists(point, max_size=12)

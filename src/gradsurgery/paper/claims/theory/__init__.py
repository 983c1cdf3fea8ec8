"""The paper's mathematics in plain numpy, float64: one file per statement, shared by the ledger and the tests.

Each file has the routine, and a problem whose runs draw something at random from their seed and record how far the
statement is from true. None needs data or jax.
"""

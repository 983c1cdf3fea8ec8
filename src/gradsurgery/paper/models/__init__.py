"""Networks in Flax NNX, the wrapper that makes them functional, and spectral norms of their weights."""

"""Networks in Flax NNX, one file each."""

"""Data: datasets from the hub or a folder, shuffled and cached."""

"""Labelled images for training: ``source.image_source`` makes batches of them, from memory or from disk."""

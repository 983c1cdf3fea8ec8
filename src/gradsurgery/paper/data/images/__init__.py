"""Labelled images for training: ``load.image_source`` makes batches of them, from memory or from disk."""

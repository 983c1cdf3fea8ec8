"""Text made ready for models: bytes in windows, pairs of sentences in buckets, and texts that need no download."""

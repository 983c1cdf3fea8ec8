"""Text for training: byte windows for language models, tokenized sentence pairs for translation."""

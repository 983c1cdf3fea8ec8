"""A network with small weights."""

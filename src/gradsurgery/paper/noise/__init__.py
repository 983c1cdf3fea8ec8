"""Gradient noise turns a projection on the current gradient into mixed training: the noise hides main."""

"""The device that tests run on: ``GRADSURGERY_DEVICE``, or the CPU. ``conftest.py`` makes it PyTorch's default."""

import os

DEVICE = os.environ.get("GRADSURGERY_DEVICE", "cpu")

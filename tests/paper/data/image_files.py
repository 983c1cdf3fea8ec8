"""Encoded images for tests."""

import io

from PIL import Image


def encode_image(pixels, mode="RGB", codec="JPEG"):
    """Return an encoded image as a cell of a ``datasets`` image column."""
    stream = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(stream, codec)
    return {"bytes": stream.getvalue(), "path": None}

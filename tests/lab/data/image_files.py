"""Image files made up for tests."""

import io

from PIL import Image


def encoded(pixels, mode="RGB", kind="JPEG"):
    stream = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(stream, kind)
    return {"bytes": stream.getvalue(), "path": None}

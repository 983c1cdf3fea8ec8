"""HTML from the templates in ``assets``: pages that load nothing from the network, as their policy forbids it."""

from base64 import b64encode
from collections.abc import Mapping

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_PACKAGE = "gradsurgery.lab.reports"


def render(template: str, values: Mapping[str, object], *, package: str = _PACKAGE) -> bytes:
    """A page from a template in the folder ``assets`` of a package; values are escaped.

    It may extend ``page.html``, the frame of all pages, and take in other files of the folder with ``asset``.
    """
    loader = ChoiceLoader([PackageLoader(name, "assets") for name in (package, _PACKAGE)])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )

    def asset(name: str) -> Markup:
        return Markup(loader.get_source(environment, name)[0])

    environment.globals["asset"] = asset
    return environment.get_template(template).render(values).encode()


def embed_png(image: bytes) -> str:
    """The address of an image that is part of the page."""
    return f"data:image/png;base64,{b64encode(image).decode()}"

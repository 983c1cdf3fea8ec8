"""HTML from the templates in ``assets``: pages that load nothing from the network, as their policy forbids it."""

import re
from base64 import b64encode
from collections.abc import Mapping

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gradsurgery.lab.analysis.level_costs import level_costs
from gradsurgery.lab.reports.style import look

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

    environment.globals |= {"asset": asset, "level_costs": level_costs, "look": look}
    environment.filters["keep_together"] = keep_together
    return environment.get_template(template).render(values).encode()


def keep_together(text: str) -> str:
    """The text with no line break between a number and its sign or unit, nor within an interval."""
    return re.sub(r" [%±=→] ?|\[[^\]]*\]", lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def embed_png(image: bytes) -> str:
    """The address of an image that is part of the page."""
    return f"data:image/png;base64,{b64encode(image).decode()}"

"""An HTML page that loads nothing from the network: its content security policy forbids it."""

from html import escape
from importlib.resources import files
from string import Template


def read_resource(name: str) -> str:
    """The text of a file beside this module."""
    return files("gradsurgery.lab.reports").joinpath(name).read_text("utf-8")


def render_page(title: str, body: str, *, layout: str = "") -> bytes:
    """A page with the style of our reports.

    Args:
        title: as plain text.
        body: as HTML.
        layout: the CSS class of the body.
    """
    page = Template(read_resource("page.html"))
    return page.substitute(title=escape(title), style=read_resource("report.css"), body=body, layout=layout).encode()

"""The progress of a sweep in a notebook: one bar that is redrawn in place."""

import time
from html import escape
from typing import Any

from rich.console import Console

from gradsurgery.lab.sweep.events import Advanced, Event
from gradsurgery.lab.sweep.progress import ProgressBar, describe, format_losses

_SECONDS = 0.2
"""The shortest time between two redraws."""


class NotebookBar(ProgressBar):
    """Shows the events of a sweep below the cell that started it."""

    def __init__(self) -> None:
        from IPython.display import display

        super().__init__(Console(force_jupyter=False, force_terminal=False, markup=False, highlight=False, emoji=False))
        self._live = True  # no line for each run
        self._latest = ""
        self._drawn = 0.0
        self._display: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._draw()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        super().__call__(event)
        if isinstance(event, Advanced):
            self._latest = f"{describe(event.run)}: {format_losses(event.metrics)}"
        if time.monotonic() - self._drawn >= _SECONDS:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        done = self._finished + sum(self._fractions.values())
        text = f"{self._finished}/{self._runs} runs {self._latest}"
        bar = f'<progress max="{self._runs}" value="{done:.3f}"></progress>'
        self._display.update({"text/html": f"{bar} {escape(text)}", "text/plain": text}, raw=True)

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces that show themselves in a notebook."""
import html
import os

from ._embed import VIEWER, embed


class TraceView:
    """A recorded decode, or two to compare, as the viewer shows it: the value of a notebook's cell.

    trace, other    a path, or the text of a trace (str or bytes that begin with `{`)
    height          of the view, in pixels
    """

    def __init__(self, trace, other=None, height=900):
        if isinstance(height, bool) or not isinstance(height, int) or height < 1:
            raise ValueError(f"height is {height!r}; it must be an integer, at least 1")
        self.height = height
        self.traces = [_read(t, name) for t, name in ((trace, "trace"), (other, "other")) if t is not None]
        if trace is None:
            raise ValueError("trace is None; it must be a path or the text of a trace")

    def html(self):
        """The page with the traces in it: one file that needs no server."""
        return embed(VIEWER.read_text(encoding="utf-8"), self.traces)

    def save(self, path):
        """Writes the page."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html())

    def _repr_html_(self):
        # A frame of its own: neither the page nor the traces reach the notebook.
        return (f'<iframe sandbox="allow-scripts" title="decode viewer" width="100%" height="{self.height}" '
                f'style="border:0" srcdoc="{html.escape(self.html())}"></iframe>')


def _read(trace, argument):
    """(name, text) of a path or a text."""
    if isinstance(trace, bytes):
        trace = trace.decode("utf-8", errors="replace")
    if isinstance(trace, str) and trace.lstrip().startswith("{"):
        return argument, trace
    if not isinstance(trace, (str, os.PathLike)):
        raise ValueError(f"{argument} is a {type(trace).__name__}; it must be a path or the text of a trace")
    with open(trace, encoding="utf-8", errors="replace") as file:
        return os.path.basename(trace), file.read()

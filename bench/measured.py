# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The part of a page that a script measures; the rest is written by hand."""

BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"


def write(page, lines):
    """Writes the lines between the two markers of the page, or a page of nothing else."""
    whole = page.read_text(encoding="utf-8") if page.exists() else f"{BEGIN}\n{END}\n"
    before, rest = whole.split(BEGIN)
    page.write_text(before + BEGIN + "\n".join(lines) + "\n\n" + END + rest.split(END)[1], encoding="utf-8")

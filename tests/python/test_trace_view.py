# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The installed package has the viewer with it; tests/viewer has what it draws."""
import unmask


def test_a_trace_shows_itself(tmp_path):
    text = '{"format":"unmask-trace/1","policy":"<b>"}\n'
    shown = unmask.TraceView(text)._repr_html_()
    assert shown.startswith("<iframe sandbox=") and "unmask-trace/1" in shown and "<b>" not in shown
    unmask.TraceView(text).save(tmp_path / "decode.html")
    assert "\\u003cb>" in (tmp_path / "decode.html").read_text(encoding="utf-8")

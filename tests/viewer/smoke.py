# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The viewer in whatever Chromium is on the machine, without a driver: what the page holds once it is loaded.
tests/viewer.sh has the whole. Status 77 where there is no Chromium, or none that opens a file.

usage: smoke.py
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "examples" / "viewer")]
sys.dont_write_bytecode = True

import embed  # noqa: E402
import traces  # noqa: E402

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def dump(chromium, folder, html):
    page = pathlib.Path(folder, "page.html")
    page.write_text(html, encoding="utf-8")
    root = ["--no-sandbox", "--disable-dev-shm-usage"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    for _ in range(3):  # a Chromium that prints no page has ended early: it says nothing about the viewer
        done = subprocess.run([chromium, "--headless=new", "--disable-gpu", f"--user-data-dir={folder}/profile", *root,
                               "--virtual-time-budget=5000", "--dump-dom", page.as_uri()],
                              capture_output=True, text=True, timeout=120, check=False)
        if "</html>" in done.stdout:
            break
    return re.sub(r"<(script|style)\b.*?</\1>", "", done.stdout, flags=re.S)


def without_frames(viewer):
    """The viewer on a machine too busy to give a page its first animation frame before it is printed."""
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    frames = "requestAnimationFrame("
    if len(policy.findall(viewer)) != 1 or frames not in viewer:
        raise ValueError(f"the viewer has no policy, or no {frames}")
    return policy.sub("", viewer).replace(frames, "(() => 0)(")


def show(chromium, folder, *texts, change=without_frames):
    viewer = change(embed.VIEWER.read_text(encoding="utf-8"))
    return dump(chromium, folder, embed.embed(viewer, [(f"{i}.jsonl", t) for i, t in enumerate(texts)]))


def main():
    chromium = os.environ.get("UNMASK_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if chromium is None:
        print("skipped: no Chromium is installed")
        return 77
    wrong = []

    def want(condition, what):
        if not condition:
            wrong.append(what)

    lines = traces.decode(0.9, edits=True)
    forwards = len(lines) - 2
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if "it opens" not in dump(chromium, folder, "<p>it opens</p>"):
            print(f"skipped: {chromium} opens no file here")
            return 77
        page = show(chromium, folder, traces.text_of(lines), traces.text_of(traces.decode(0.8)))
        want(f"<dt>forwards</dt><dd>{forwards}</dd>" in page, "the counters of the trace")
        want("First difference: forward 1, position 52." in page, "the first difference")
        want(page.count("<canvas") >= 8, "the drawings")
        other = traces.decode(0.8)
        other[0]["sequences"][0].update(policy="left_to_right + threshold(0.7)", parts=["left_to_right", "threshold(0.7)"])
        own = show(chromium, folder, traces.text_of(other))
        want('<span class="policy">left_to_right + threshold(0.7)</span>' in own, "the policy of the sequence")
        grows = traces.growing()
        for n, sentence in ((2, "1 moved, 2 inserted"), (3, "4 moved")):
            want(sentence in show(chromium, folder, traces.text_of(grows[:n + 1])), f"text that forward {n} moved")
        attack = "<img src=x onerror=\"document.title='ran'\"></script><script>document.title='ran'</script>"
        lines[0]["policy"] = attack
        for change in (without_frames, str):  # without the policy of the page, and with it
            page = show(chromium, folder, traces.text_of(lines) + attack, change=change)
            want("&lt;img src=x" in page and "<img" not in page, "a text of a trace is text")
            want("<title>Decode viewer</title>" in page, "nothing of a trace runs")
        page = show(chromium, folder, '{"format":"unmask-trace/9"}\n')
        want("Line 1: the trace has the format unmask-trace/9" in page, "the sentence about a newer trace")
    for what in wrong:
        print("wrong:", what)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shows how far CTest is, and what failed, instead of a line for each test that passed.

usage: ctest --output-on-failure ... | progress.py LOG
       progress.py --self-test

Every line goes to LOG. Shown are the progress (on a terminal in place, else after each tenth), failed
tests with their output, and CTest's summary, which lists the tests that were skipped.
"""
import io
import re
import sys

START = re.compile(r" +Start +\d+: ")
DONE = re.compile(r" *(\d+)/(\d+) Test +#\d+: .*?(Passed|\*\*\*\S+.*?) +[\d.]+ sec\s*$")


class Progress:
    def __init__(self, out, terminal):
        self.out, self.terminal = out, terminal
        self.failed = self.skipped = self.tenths = 0
        self.drawn = False

    def clear(self):
        if self.drawn:
            self.out.write("\r\033[K")
        self.drawn = False

    def draw(self, done, of):
        text = f"{done} of {of} tests, {self.failed} failed, {self.skipped} skipped"
        if self.terminal:
            self.clear()
            self.out.write(text)
            self.drawn = True
        elif 10 * done // of > self.tenths:
            self.tenths = 10 * done // of
            self.out.write(text + "\n")

    def line(self, line):
        if START.match(line):
            return
        done = DONE.match(line)
        if done:
            skipped = done[3].startswith(("***Skipped", "***Not Run (Disabled)"))
            self.skipped += skipped
            if done[3] != "Passed" and not skipped:
                self.failed += 1
                self.clear()
                self.out.write(line)
            self.draw(int(done[1]), int(done[2]))
        elif line.strip() or not self.drawn:
            self.clear()
            self.out.write(line)
        self.out.flush()


def show(lines, log, out, terminal):
    progress = Progress(out, terminal)
    for line in lines:
        log.write(line)
        progress.line(line)
    progress.clear()
    out.flush()


def self_test():
    said = ("Test project build\n"
            "      Start  1: a\n"
            " 1/4 Test  #1: a ...........   Passed    0.01 sec\n"
            "      Start  2: b<x, y>\n"
            " 2/4 Test  #2: b<x, y> .....***Failed    0.01 sec\n"
            "3 is not 4\n"
            "\n"
            " 3/4 Test  #3: c ...........***Skipped   0.01 sec\n"
            " 4/4 Test  #4: d ...........***Exception: SegFault  0.01 sec\n"
            "\n"
            "50% tests passed, 2 tests failed out of 4\n"
            "\n"
            "The following tests did not run:\n"
            "\t  3 - c (Skipped)\n")
    log, out = io.StringIO(), io.StringIO()
    show(said.splitlines(keepends=True), log, out, False)
    assert log.getvalue() == said
    wanted = ("Test project build\n"
              "1 of 4 tests, 0 failed, 0 skipped\n"
              " 2/4 Test  #2: b<x, y> .....***Failed    0.01 sec\n"
              "2 of 4 tests, 1 failed, 0 skipped\n"
              "3 is not 4\n"
              "\n"
              "3 of 4 tests, 1 failed, 1 skipped\n"
              " 4/4 Test  #4: d ...........***Exception: SegFault  0.01 sec\n"
              "4 of 4 tests, 2 failed, 1 skipped\n"
              "\n"
              "50% tests passed, 2 tests failed out of 4\n"
              "\n"
              "The following tests did not run:\n"
              "\t  3 - c (Skipped)\n")
    assert out.getvalue() == wanted, out.getvalue()
    out = io.StringIO()
    show(said.splitlines(keepends=True), io.StringIO(), out, True)
    screen = re.sub(r"[^\n]*\r\033\[K", "", out.getvalue())  # what is left on a terminal
    wanted = re.sub(r"\d of 4 tests, .*\n", "", wanted)
    assert screen == wanted.replace("sec\n\n50%", "sec\n50%"), screen


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif len(sys.argv) == 2:
        with open(sys.argv[1], "w", encoding="utf-8") as log:
            sys.stdin.reconfigure(errors="replace")
            show(sys.stdin, log, sys.stdout, sys.stdout.isatty())
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asks judged.cpp about texts: what the judges share."""
import json
import subprocess


class Judged:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, kind, source, texts, samples=0, flags="-"):
        lines = [f"{kind} {flags} {samples} {len(texts)}"] + [t.encode().hex() for t in [source, *texts]]
        self.process.stdin.write(("\n".join(lines) + "\n").encode())
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the compiler ended on {source[:2000]}")
        return json.loads(line.decode("utf-8", "surrogateescape"))


def written(data):
    """The text of a value, with its members in the order of the case."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces for the tests of the viewer: decodes of a given answer by a model that is made up, with the same bits on
every machine."""
import json
import math

PROMPT = "Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?"
ANSWER = "10+8=18;18-7=11;11+4=15;A:15"
MASK, EOS = 1, 2


def noise(*keys):
    """In [0, 1), by the keys alone."""
    x = 0x9E3779B9
    for key in keys:
        x = (x ^ (key + 0x7F4A7C15)) * 0x2545F491 & 0xFFFFFFFF
        x ^= x >> 15
        x = x * 0x85EBCA6B & 0xFFFFFFFF
        x ^= x >> 13
    return x / 2**32


def head(tokens, prompt, block, policy, parts, vocab, text, **more):
    return {"format": "unmask-trace/1", "library": "unmask 0.1.0",
            "model": {"name": "made up", "vocab": vocab, "mask": MASK, "eos": EOS, "layers": 6}, "policy": policy,
            "parts": parts, "seed": 0,
            "sequences": [{"slot": 0, "sequence": 0,
                           "shape": {"prompt_length": prompt, "length": len(tokens), "block_length": block},
                           "tokens": tokens, "fixed": []}], "text": text} | more


def decode(threshold=0.9, block=20, length=40, pieces=None, prompt=None, edits=False, name="threshold"):
    """The lines of a trace: every candidate above the threshold commits, or else the likeliest one."""
    prompt = list(PROMPT) if prompt is None else prompt
    pieces = (list(ANSWER) if pieces is None else pieces)[:length]
    words = sorted(set(prompt) | set(pieces) | {"?", "9"})
    ids = {word: 3 + i for i, word in enumerate(words)}
    text = {str(MASK): "_", str(EOS): "<eos>"} | {str(i): word for word, i in ids.items()}
    answer = [ids[p] for p in pieces] + [EOS] * (length - len(pieces))
    first, total = len(prompt), len(prompt) + length
    tokens = [ids[p] for p in prompt] + [MASK] * length
    parts = ["by_confidence", f"{name}({threshold})"] + (["remask_below(0.5)"] if edits else [])
    lines = [head(tokens, first, block, " + ".join(parts), parts, 3 + len(words), text)]
    now, age, forward, edited = list(tokens), {}, 0, set()
    for start in range(first, total, block):
        stop = min(start + block, total)
        while any(now[p] == MASK for p in range(start, stop)):
            forward += 1
            rows = []
            for p in range(start, stop):
                if now[p] != MASK:
                    continue
                known = sum(0 <= q < total and now[q] != MASK for q in (p - 2, p - 1, p + 1, p + 2))
                sure = 1.5 * noise(p) + 0.6 * noise(p, forward) + 0.5 * known + 0.05 * (forward - (p - start) / 4)
                confidence = 1 - 0.85 * math.exp(-max(0.02, sure))
                wrong = confidence < 0.6 and noise(p, forward, 7) < 0.6
                rows.append([p, ids["9"] if wrong else answer[p - first], confidence])
            chosen = [r for r in rows if r[2] > threshold]
            letter = "c" if chosen else "f"
            chosen = chosen or [max(rows, key=lambda r: (r[2], -r[0]))]
            kept = {r[0] for r in chosen}
            outcome = {r[0]: letter if r[0] in kept else "h" for r in rows}
            if edits and forward == 3:  # one token is replaced and one is masked again
                done = [p for p in range(start, stop) if now[p] != MASK and p not in edited]
                for p, what in zip(done, "er"):
                    rows.append([p, answer[p - first] if what == "e" else now[p], 0.45])
                    outcome[p] = what
                    edited.add(p)
            rows.sort()
            lines.append({
                "slot": 0, "step": forward - 1, "forward": forward, "segment": 0, "score": [start, stop],
                "compute": [0, total], "position": [r[0] for r in rows], "token": [r[1] for r in rows],
                "log_probability": [round(math.log(r[2]), 6) for r in rows],
                "confidence": [round(r[2], 6) for r in rows], "outcome": "".join(outcome[r[0]] for r in rows),
                "by": [-1 if outcome[r[0]] == "f" else 2 if outcome[r[0]] in "er" else 1 for r in rows],
                "milliseconds": 1.25})
            for p, token, _ in rows:
                if outcome[p] in "cfe":
                    now[p] = token
                elif outcome[p] == "r":
                    now[p] = MASK
    commits = sum(letter in "cf" for line in lines[1:] for letter in line["outcome"])
    lines.append({"slot": 0, "end": "complete", "forwards": forward, "committed": commits, "tokens": now})
    return lines


def growing():
    """Text of four positions that two masks make six: the second step moves z to the right; the third erases y."""
    text = {str(MASK): "_", "3": "q", "4": "x", "5": "y", "6": "z"}
    tokens = [3, 3] + [MASK] * 8
    lines = [head(tokens, 2, 10, "daedal", ["by_confidence", "daedal"], 7, text)]

    def step(position, token, outcome, end, after=None):
        n = len(lines) - 1
        lines.append({"slot": 0, "step": n, "forward": n + 1, "segment": 0, "score": [2, end], "compute": [0, end],
                      "position": position, "token": token, "log_probability": [-0.1] * len(position),
                      "confidence": [0.9] * len(position), "outcome": outcome, "by": [1] * len(position)}
                     | ({"after": after} if after else {}))

    step([2, 3, 4, 5], [4, 5, 5, 6], "hhhc", 6)
    step([2, 3, 4], [4, 5, 5], "chh", 6, {"first": 3, "tokens": [MASK, MASK, MASK, MASK, 6]})
    step([3, 4, 5, 6], [5, 5, 5, 5], "chhh", 8, {"first": 3, "tokens": [MASK, MASK, MASK, 6]})
    return lines


def large(positions=4096, steps=1000, block=None):
    """As many steps, each with all masked positions of its block as candidates."""
    prompt, block = 32, block or positions
    total = prompt + positions
    text = {str(MASK): "_"} | {str(i): "abcdefghij"[i % 10] * (1 + i % 5) for i in range(3, 200)}
    yield head([3 + i % 197 for i in range(prompt)] + [MASK] * positions, prompt, block, "tokens_per_step",
               ["by_confidence", "tokens_per_step(4)"], 200, text)
    per_block = max(1, steps * block // positions)
    step = 0
    for start in range(prompt, total, block):
        masked = list(range(start, min(start + block, total)))
        for k in range(per_block):
            left = per_block - k
            count = -(-len(masked) // left)
            scores = [noise(p, step) for p in masked]
            chosen = set(sorted(range(len(masked)), key=lambda i: -scores[i])[:count])
            yield {"slot": 0, "step": step, "forward": step + 1, "segment": 0, "score": [start, start + block],
                   "compute": [start, start + block], "position": masked,
                   "token": [3 + int(197 * noise(p, k // 8)) % 197 for p in masked],
                   "log_probability": [round(math.log(s + 1e-9), 5) for s in scores],
                   "confidence": [round(s, 5) for s in scores],
                   "outcome": "".join("c" if i in chosen else "h" for i in range(len(masked))), "by": [1] * len(masked)}
            masked = [p for i, p in enumerate(masked) if i not in chosen]
            step += 1
    yield {"slot": 0, "end": "complete", "forwards": step, "committed": positions}


def text_of(lines):
    return "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)


WORDS = ["Sure", "!", " Ivy", " starts", " with", " 10", " keys", ",", " buys", " 8", " more", ",", " and", " then", " loses",
         " 7", " of", " them", ".", "\n", "That", " leaves", " 11", ",", " and", " with", " 4", " gifts", " she", " has",
         " **", "15", "**", " keys", "."]
QUESTION = ["<|user|>", "Ivy", " has", " ", "10", " keys", ".", " Buys", " 8", ".", " Eats", " 7", ".", " Gets", " 4", ".",
            " How", " many", "?", "<|assistant|>"]

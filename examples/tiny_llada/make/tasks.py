# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Synthetic tasks with one right answer each, for a tiny masked-diffusion language model.

Each task yields (prompt, answer); accuracy is exact match of the text before the end token.
word: grade-school arithmetic with the working shown. json: reformat pairs as a JSON object.
sort: order numbers. code: trace a short program line by line.
"""
import json

NAMES = "Amy Ben Cat Dan Eve Fay Gus Hal Ivy Jay Kim Leo Mia Ned Ora Pam".split()
ITEMS = "apples pens cards coins books eggs cups keys nuts hats".split()
CITIES = "Rome Oslo Lima Cairo Paris Delhi Quito Tokyo".split()

def word_problem(r):
    """'<a>+<b>=<c>;<c>-<d>=<e>;#<e>': every intermediate value is at most 29."""
    name = r.choice(NAMES); item = r.choice(ITEMS)
    x = r.randint(2, 12); text = f"{name} has {x} {item}."; steps = []
    for _ in range(r.randint(1, 3)):
        op = r.choice("+-") if 2 <= x <= 20 else ("+" if x < 2 else "-")
        if op == "+":
            y = r.randint(1, 9); z = x + y
            text += r.choice([f" Buys {y}.", f" Finds {y}.", f" Gets {y}."])
        else:
            y = r.randint(1, min(9, x)); z = x - y
            text += r.choice([f" Loses {y}.", f" Sells {y}.", f" Eats {y}."])
        steps.append(f"{x}{op}{y}={z}"); x = z
    return f"Q:{text} How many?", ";".join(steps) + f";#{x}"

def to_json(r):
    """Turn 'key value' pairs into a JSON object in the same order."""
    fields = r.sample(["name", "age", "city", "id", "item"], r.randint(1, 2))
    val = dict(name=r.choice(NAMES), age=r.randint(18, 99), city=r.choice(CITIES), id=r.randint(100, 999), item=r.choice(ITEMS))
    obj = {k: val[k] for k in fields}
    return "J:" + " ".join(f"{k} {v}" for k, v in obj.items()), json.dumps(obj, separators=(",", ":"))

def sort_numbers(r):
    """Ascending order of three to seven two-digit numbers."""
    xs = [r.randint(10, 99) for _ in range(r.randint(3, 7))]
    return "S:" + " ".join(map(str, xs)), " ".join(map(str, sorted(xs)))

def code_trace(r):
    """Trace a short program on one variable whose value stays within 0..29: the value after each line."""
    a = r.randint(1, 12); lines = [f"a={a}"]; out = [f"a={a}"]
    for _ in range(r.randint(1, 4)):
        op = r.choice("+-") if 2 <= a <= 20 else ("+" if a < 2 else "-")
        y = r.randint(1, 9) if op == "+" else r.randint(1, min(9, a))
        a = a + y if op == "+" else a - y
        lines.append(f"a{op}={y}"); out.append(f"a={a}")
    return "P:" + ";".join(lines), "|".join(out)

TASKS = dict(word=word_problem, json=to_json, sort=sort_numbers, code=code_trace)
WEIGHTS = [3, 2, 1.5, 2]

# Fixed character vocabulary: 0 = mask, 1 = end, 2 = begin, then printable ASCII 32..126.
MASK, EOS, BOS = 0, 1, 2
def encode(s): return [ord(c) - 32 + 3 for c in s]
def decode(ids): return "".join(chr(i - 3 + 32) if i >= 3 else {0: "_", 1: "", 2: ""}[i] for i in ids)
VOCAB = 3 + 95

if __name__ == "__main__":
    import random
    r = random.Random(1)
    for k, f in TASKS.items():
        L = [f(r) for _ in range(2000)]
        print(k, max(len(p) for p, _ in L), max(len(a) for _, a in L), L[:3])

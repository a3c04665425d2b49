# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the generator of the chains' problems, and the stored ones against it."""
import collections
import itertools
import json
import pathlib
import random
import sys
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "chains"
sys.path.insert(0, str(FOLDER / "make"))
import tasks  # noqa: E402


def shortest_naively(edges, a, b):
    """Edges of a shortest path, by trying all sequences of nodes from the shortest on."""
    nodes = sorted({n for e in edges for n in e})
    for between in range(len(nodes)):
        for middle in itertools.permutations(nodes, between):
            route = (a, *middle, b)
            if all(pair in edges for pair in zip(route, route[1:])):
                return between + 1
    return None


def keys(p):
    """What decides the set of a problem: of a countdown the numbers and the target of each piece."""
    if p.task != "reach":
        return [p.key]
    return [f"{tuple(sorted(map(int, piece[:3])))}>{piece[4:piece.index(':')]}" for piece in p.given.split(",")]


class Chains(unittest.TestCase):
    def test_the_answer_fills_the_canvas(self):
        r = random.Random(3)
        for make in tasks.TASKS.values():
            for _ in range(100):
                p = make(r)
                self.assertEqual(len(p.given), len(p.answer))
                self.assertTrue(all(clue in ("_", c) for clue, c in zip(p.given, p.answer)), p)
                self.assertLessEqual(1 + len(p.prompt) + len(p.given), 256)
                self.assertEqual(tasks.decode(tasks.encode(p.prompt + p.given)), p.prompt + p.given)

    def test_traces_are_what_python_computes(self):
        r = random.Random(4)
        for _ in range(100):
            first, *statements = tasks.trace(r).answer.rstrip(";").split(";")
            values = {first[0]: int(first[2])}
            for name, text, result in (tuple(s.replace(":", "=").split("=")) for s in statements):
                values[name] = eval(text, {}, values) % 10  # noqa: S307
                self.assertEqual(values[name], int(result))

    def test_totals_are_what_python_computes(self):
        r = random.Random(8)
        operations = collections.Counter()
        for _ in range(100):
            answer = tasks.waiting(r).answer
            total, statements = int(answer[:2]), [answer[i:i + 5] for i in range(2, len(answer), 5)]
            self.assertEqual(1 + len(statements), 48)
            for operation, y, equals, *result in statements:
                total = int(y) if operation == ":" else eval(f"{total}{operation}{y}") % 100  # noqa: S307
                self.assertEqual(f"={total:02}", equals + "".join(result))
                operations[operation] += 1
        self.assertEqual(set(operations), set("+-:"))
        self.assertAlmostEqual(operations[":"] / operations.total(), 1 / 16, delta=.01)

    def test_paths_are_shortest(self):
        r = random.Random(5)
        for _ in range(30):
            p = tasks.path(r)
            edges = {tuple(e) for e in p.prompt[5:-1].split(",")}
            self.assertTrue(all((b, a) in edges for a, b in edges))
            for route in p.answer.split(","):
                self.assertEqual(shortest_naively(edges, route[0], route[-1]), len(route) - 1, p)
                self.assertTrue(all(pair in edges for pair in zip(route, route[1:])), p)

    def test_countdowns_reach_their_targets(self):
        r = random.Random(7)
        for _ in range(50):
            for piece in tasks.reach(r, "test").answer.split(","):
                numbers, target, *steps = piece.replace(":", ">").replace(";", ">").split(">")
                left = list(map(int, numbers))
                for step in steps:
                    x, y, result = map(int, step.replace("*", "+").replace("-", "+").replace("=", "+").split("+"))
                    self.assertEqual(eval(step.split("=")[0]), result)  # noqa: S307
                    left.remove(x)
                    left.remove(y)
                    left.append(result)
                self.assertEqual(left, [int(target)])

    def test_lists(self):
        r = random.Random(6)
        for _ in range(100):
            p = tasks.sort(r)
            self.assertEqual(list(p.answer), sorted(p.prompt[5:-1]))
            p = tasks.copy(r)
            self.assertEqual(p.answer, p.prompt[5:-1])
            p = tasks.shuffle(r)
            self.assertEqual(sorted(p.answer), sorted(p.prompt[8:-1]))

    def test_a_key_is_in_one_set(self):
        count = collections.Counter(tasks.set_of(str(i)) for i in range(20_000))
        for which, share in (("test", 1 / 16), ("validation", 1 / 16), ("training", 7 / 8)):
            self.assertAlmostEqual(count[which] / 20_000, share, delta=.01)

    def test_stored_problems_are_those_of_the_generator(self):
        for name, judged in (("problems.jsonl", tasks.JUDGED), ("waiting.jsonl", tasks.WAITING)):
            with open(FOLDER / name, encoding="ascii") as file:
                stored = [json.loads(line) for line in file]
            self.assertEqual(len({(p["prompt"], p["given"]) for p in stored}), len(stored))
            made = tasks.problems("test", len(stored) // len(judged), judged=judged)
            self.assertEqual([(p["task"], p["prompt"], p["given"]) for p in stored], [p[:3] for p in made])
            self.assertEqual({tasks.set_of(k) for p in made for k in keys(p)}, {"test"})
            for which in ("validation", "training"):
                others = tasks.problems(which, 50, judged=judged)
                self.assertEqual({tasks.set_of(k) for p in others for k in keys(p)}, {which})
                self.assertFalse({p[1:3] for p in others} & {p[1:3] for p in made})


if __name__ == "__main__":
    unittest.main()

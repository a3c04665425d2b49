# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the generator of Sudokus against a solver of its own, and the stored puzzles against the generator."""
import json
import pathlib
import random
import sys
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "sudoku"
sys.path.insert(0, str(FOLDER / "make"))
import puzzles  # noqa: E402


def count_naively(cells, limit):
    """Solutions of a grid by plain backtracking from the first empty cell, at most `limit`."""
    if 0 not in cells:
        return 1
    p = cells.index(0)
    row, column = divmod(p, 6)
    found = 0
    for digit in range(1, 7):
        clash = any(cells[q] == digit and (q // 6 == row or q % 6 == column or
                                           (q // 12 == p // 12 and q % 6 // 3 == column // 3)) for q in range(36))
        if not clash:
            found += count_naively(cells[:p] + [digit] + cells[p + 1:], limit - found)
            if found >= limit:
                break
    return found


class Sudoku(unittest.TestCase):
    def test_solver_counts_as_backtracking_does(self):
        r = random.Random(3)
        for _ in range(30):
            grid = puzzles.full_grid(r)
            self.assertTrue(puzzles.solves([0] * 36, grid))
            cells = [digit if r.random() < .45 else 0 for digit in grid]
            self.assertEqual(len(puzzles.solutions(cells, 5)), count_naively(cells, 5), cells)
        self.assertEqual(puzzles.solutions([1, 1] + [0] * 34), [])

    def test_puzzles_have_one_solution(self):
        for which in ("test", "validation", "training"):
            for cells, grid in puzzles.puzzles(which, 15):
                self.assertEqual(count_naively(cells, 2), 1)
                self.assertTrue(puzzles.solves(cells, grid))
                self.assertTrue(10 <= sum(map(bool, cells)) <= 14)
                self.assertEqual(puzzles.set_of(grid), which)

    def test_stored_puzzles_are_those_of_the_generator_and_of_the_test_set(self):
        with open(FOLDER / "puzzles.jsonl", encoding="ascii") as file:
            stored = [json.loads(line)["given"] for line in file]
        self.assertEqual(len(set(stored)), len(stored))
        self.assertEqual(stored[:50], [puzzles.text(cells) for cells, _ in puzzles.puzzles("test", 50)])
        for given in stored[::20]:
            found = puzzles.solutions([0 if c == "_" else int(c) for c in given])
            self.assertEqual(len(found), 1, given)
            self.assertEqual(puzzles.set_of(found[0]), "test", given)

    def test_a_full_grid_is_in_one_set(self):
        r, sets = random.Random(5), []
        for _ in range(800):
            grid = puzzles.full_grid(r)
            sets.append(puzzles.set_of(grid))
        for which, share in (("test", 1 / 16), ("validation", 1 / 16), ("training", 7 / 8)):
            self.assertAlmostEqual(sets.count(which) / len(sets), share, delta=.04)

    def test_one_wrong_cell_is_refused(self):
        cells, grid = puzzles.puzzles("training", 1)[0]
        self.assertTrue(puzzles.solves(cells, grid))
        for p in range(36):
            self.assertFalse(puzzles.solves(cells, grid[:p] + [grid[p] % 6 + 1] + grid[p + 1:]))


if __name__ == "__main__":
    unittest.main()

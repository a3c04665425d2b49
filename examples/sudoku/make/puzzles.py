# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""6x6 Sudokus with one solution each: rows, columns and boxes of 2 rows x 3 columns hold 1 to 6 once.

usage: puzzles.py FILE {test,validation} COUNT [SEED]

Writes COUNT puzzles of 10 to 14 clues as lines of JSON that the demo reads: 36 characters, row by row, '_' for an
empty cell.

Every full grid belongs to one of three sets by its own digits (set_of), so puzzles of different sets never
share a solution. The training set draws its grids by the symmetries of the puzzle from a pool of others and
leaves out those that belong to the test or the validation set.
"""
import json
import random
import sys

SIDE, BOX_ROWS, BOX_COLUMNS = 6, 2, 3
CELLS = SIDE * SIDE
LEAST_CLUES, MOST_CLUES = 10, 14
SEEDS = {"test": 2026, "validation": 1979, "training": 7}


def units():
    """The 18 groups of cells that hold each digit once: rows, columns, boxes."""
    rows = [[r * SIDE + c for c in range(SIDE)] for r in range(SIDE)]
    columns = [[r * SIDE + c for r in range(SIDE)] for c in range(SIDE)]
    boxes = [[(r + i) * SIDE + c + j for i in range(BOX_ROWS) for j in range(BOX_COLUMNS)]
             for r in range(0, SIDE, BOX_ROWS) for c in range(0, SIDE, BOX_COLUMNS)]
    return rows + columns + boxes


UNITS = units()
PEERS = [sorted({q for u in UNITS if p in u for q in u} - {p}) for p in range(CELLS)]
ALL = (1 << SIDE) - 1  # a set of digits: bit d - 1 for the digit d


def place(options, cell, bit):
    """Leaves one digit for a cell and removes it from its peers, and so on. False for a contradiction."""
    options[cell] = bit
    waiting = [cell]
    while waiting:
        p = waiting.pop()
        for q in PEERS[p]:
            if options[q] & options[p]:
                options[q] &= ~options[p]
                if options[q] == 0:
                    return False
                if options[q].bit_count() == 1:
                    waiting.append(q)
    return True


def solutions(grid, limit=2, r=None):
    """Up to `limit` solutions of a grid with 0 for an empty cell, digits tried in the order of `r` if given."""
    options, found = [ALL] * CELLS, []
    for p, digit in enumerate(grid):
        if digit:
            bit = 1 << (digit - 1)
            if not options[p] & bit or not place(options, p, bit):
                return found

    def search(options):
        open_cells = [p for p in range(CELLS) if options[p].bit_count() > 1]
        if not open_cells:
            found.append([o.bit_length() for o in options])
            return
        cell = min(open_cells, key=lambda p: options[p].bit_count())
        bits = [1 << i for i in range(SIDE) if options[cell] >> i & 1]
        if r is not None:
            r.shuffle(bits)
        for bit in bits:
            copy = options[:]
            if place(copy, cell, bit):
                search(copy)
            if len(found) >= limit:
                return

    search(options)
    return found


def full_grid(r):
    """A random full grid: each digit is tried in random order. Not uniform over all grids."""
    first = r.sample(range(1, SIDE + 1), SIDE)
    return solutions(first + [0] * (CELLS - SIDE), 1, r)[0]


def puzzle(r, grid):
    """Removes digits of a full grid in random order while the solution stays the only one, down to a random
    number of clues. None where that number can not be reached in this order."""
    clues, left = r.randint(LEAST_CLUES, MOST_CLUES), CELLS
    cells = grid[:]
    for p in r.sample(range(CELLS), CELLS):
        if left == clues:
            break
        digit, cells[p] = cells[p], 0
        if len(solutions(cells)) == 1:
            left -= 1
        else:
            cells[p] = digit
    return cells if left == clues else None


def set_of(grid):
    """'test', 'validation' or 'training', a sixteenth, a sixteenth and the rest of all full grids."""
    value = 0
    for digit in grid:
        value = (value * 1_000_003 + digit) % 2 ** 64
    return {0: "test", 1: "validation"}.get(value >> 60, "training")


def puzzles(which, count, seed=None):
    """That many different (puzzle, solution) of a set, always the same for a seed."""
    r, seen = random.Random(SEEDS[which] if seed is None else seed), {}
    while len(seen) < count:
        grid = full_grid(r)
        if set_of(grid) == which:
            cells = puzzle(r, grid)
            if cells is not None:
                seen.setdefault(tuple(cells), grid)
    return [(list(cells), grid) for cells, grid in seen.items()]


def text(cells):
    return "".join(str(digit) if digit else "_" for digit in cells)


def write(name, pairs):
    with open(name, "w", encoding="ascii") as file:
        for cells, _ in pairs:
            file.write(json.dumps({"task": "sudoku", "given": text(cells), "checker": "sudoku_6x6"}) + "\n")


def solves(clues, answer):
    """Whether an answer has the clues where they were and every digit once in every unit."""
    return all(c in (0, a) for c, a in zip(clues, answer)) and all(
        sorted(answer[p] for p in unit) == list(range(1, SIDE + 1)) for unit in UNITS)


if __name__ == "__main__":
    name, which, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    write(name, puzzles(which, count, *map(int, sys.argv[4:])))

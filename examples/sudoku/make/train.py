# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Train a small LLaDA on 6x6 Sudokus, on one CPU. Usage: train.py OUT.pt [STEPS] [SEED]

Two layers are applied in turn, four times each: the file written by export.py holds eight. Half of a batch masks any
cells of a full grid, a share drawn uniformly; the other half masks the cells of a puzzle but the clues, the same way.
Matrices inside the layers are trained by Muon (momentum orthogonalised by Newton-Schulz), the others by AdamW; what is
written is a moving average of the weights.
"""
import os, sys, time, numpy as np, torch
import torch.nn.functional as F
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "training"))
from llada import Denoiser, Optimizers, Shape
from puzzles import CELLS, SEEDS, SIDE, BOX_ROWS, BOX_COLUMNS, puzzles, solves

MASK, EOS, BOS, VOCAB = 0, 1, 2, 3 + SIDE       # the digit d is token 2 + d
SHAPE = Shape(vocab=VOCAB, context=1 + CELLS, width=96, unique=2, rounds=4, heads=4, ffn=256, rope_base=100.0)
BATCH, POOL, STEPS, SEED = 128, 20_000, 600, 1

def lines(g, n, size):
    """n random orders of rows (or columns) that keep the boxes: [n, SIDE]."""
    outer = np.argsort(g.random((n, SIDE // size)), 1); inner = np.argsort(g.random((n, SIDE // size, size)), 2)
    return (outer[:, :, None] * size + inner).reshape(n, SIDE)

def held_out(grids):
    """set_of of puzzles.py for many grids: True where it is not 'training'."""
    value = np.zeros(len(grids), np.uint64)
    for p in range(CELLS): value = value * np.uint64(1_000_003) + grids[:, p].astype(np.uint64)
    return (value >> np.uint64(60)) < 2

def batch(g, clues, grids, n):
    """Tokens [n, CELLS] of training grids, and which are masked: symmetric images of those of the pool."""
    i = g.integers(len(grids), size=2 * n)
    order = (lines(g, 2 * n, BOX_ROWS)[:, :, None] * SIDE + lines(g, 2 * n, BOX_COLUMNS)[:, None, :]).reshape(2 * n, CELLS)
    digits = np.argsort(g.random((2 * n, SIDE)), 1) + 1
    grid = np.take_along_axis(digits, np.take_along_axis(grids[i], order, 1) - 1, 1)
    open_cells = np.take_along_axis(clues[i] == 0, order, 1)
    keep = np.flatnonzero(~held_out(grid))[:n]; grid, open_cells = grid[keep], open_cells[keep]; n = len(keep)
    open_cells[: n // 2] = True
    share = (g.random() + np.arange(n) / n) % 1
    rank = np.argsort(np.argsort(np.where(open_cells, g.random((n, CELLS)), 2.0), 1), 1)
    masked = rank < np.maximum(1, np.ceil(g.permutation(share) * open_cells.sum(1)))[:, None]
    return torch.from_numpy(grid + 2), torch.from_numpy(masked & open_cells)

def canvas(tokens): return F.pad(tokens, (1, 0), value=BOS)

@torch.no_grad()
def solve(model, problems, order="confidence", threshold=2.0):
    """Share solved, and forwards of a puzzle: the best masked cell by `order` and every one above the threshold."""
    x = canvas(torch.tensor([[c + 2 if c else MASK for c in cells] for cells, _ in problems])); forwards = 0
    generator = torch.Generator().manual_seed(1); many = torch.arange(len(x))
    while (masked := x == MASK).any():
        forwards += masked.any(1).sum().item(); p = model(x)[:, :, 3:].softmax(-1); two = p.topk(2, -1); best, token = two.values[..., 0], two.indices[..., 0] + 3
        key = dict(confidence=best, margin=best - two.values[..., 1], random=torch.rand(best.shape, generator=generator), left=-torch.arange(x.shape[1]).expand_as(x).float())[order]
        first = key.masked_fill(~masked, -1e9).argmax(1); take = masked & (best > threshold); take[many, first] |= masked.any(1)
        x = torch.where(take, token, x)
    return sum(solves(cells, (row[1:] - 2).tolist()) for (cells, _), row in zip(problems, x)) / len(problems), forwards / len(problems)

def main():
    path, steps, seed = sys.argv[1], *map(int, sys.argv[2:4] + [STEPS, SEED][len(sys.argv) - 2:])
    torch.set_num_threads(1); torch.manual_seed(seed); g = np.random.default_rng(seed); model = Denoiser(SHAPE); average = Denoiser(SHAPE); average.load_state_dict(model.state_dict()); fast = torch.compile(model)
    pool = puzzles("training", POOL, SEEDS["training"] + seed); clues = np.array([c for c, _ in pool]); grids = np.array([s for _, s in pool])
    check = puzzles("validation", 200, SEEDS["validation"] + 1)    # others than those that settings are chosen on
    optimizers = Optimizers(model, 0.02, 3e-3); start = time.time(); mean = None
    for step in range(1, steps + 1):
        optimizers.rate(step, (step - 1) / steps)
        tokens, masked = batch(g, clues, grids, BATCH)
        with torch.autocast("cpu", dtype=torch.bfloat16): logits = fast(canvas(torch.where(masked, MASK, tokens)))[:, 1:]
        loss = F.cross_entropy(logits.float()[masked], tokens[masked]); optimizers.zero_grad(); loss.backward()
        optimizers.step(); decay = min(0.998, step / (step + 20))
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()): a.lerp_(p, 1 - decay)
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if step % 100 == 0: print(f"step {step} loss {mean:.4f} {(time.time() - start) / step:.3f} s/step", flush=True)
    torch.save(average.state_dict(), path); check = puzzles("validation", 500, SEEDS["validation"] + 1)
    for order in ("margin", "confidence", "random", "left"): print(order, solve(average, check, order), flush=True)
    for t in (.99, .9, .8, .7, .5, 0): print("threshold", t, solve(average, check, threshold=t), flush=True)

if __name__ == "__main__": main()

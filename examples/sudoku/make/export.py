# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write the Sudoku model, its puzzles and what the tests compare with. Usage: export.py MODEL.pt FOLDER TESTS [PUZZLES]

FOLDER gets sudoku-f16.gguf (architecture 'llada', the two layers written four times) and puzzles.jsonl, the test set;
TESTS gets reference_logits.jsonl and reference_decodes.jsonl, computed by PyTorch in f32 from the
weights as they are in the file.
"""
import json, os, sys, torch
from puzzles import SIDE, puzzles, text, write
from train import MASK, SHAPE, Denoiser, canvas
from gguf_file import export

def lines(path, rows):
    with open(path, "w", encoding="ascii") as file: file.writelines(json.dumps(row) + "\n" for row in rows)

@torch.no_grad()
def decode(model, cells, threshold):
    """Threshold decoding of one puzzle in one block: every masked cell above it, or the most confident one."""
    x = canvas(torch.tensor([[c + 2 if c else MASK for c in cells]])); forwards = 0
    while (masked := x == MASK).any():
        logits = model(x); logits[..., MASK] = -torch.inf; best, token = logits.softmax(-1).max(-1); best = best.masked_fill(~masked, -1)
        take = masked & (best > threshold); take[0, best[0].argmax()] = True; x = torch.where(take, token, x); forwards += 1
    return x[0, 1:].tolist(), forwards

def main():
    source, folder, tests = sys.argv[1:4]; count = int(sys.argv[4]) if len(sys.argv) > 4 else 1200; torch.set_num_threads(1)
    state = torch.load(source, map_location="cpu", weights_only=True); os.makedirs(tests, exist_ok=True)
    export(SHAPE, state, os.path.join(folder, "sudoku-f16.gguf"), "sudoku", "".join(str(d) for d in range(1, SIDE + 1)))
    write(os.path.join(folder, "puzzles.jsonl"), puzzles("test", count))
    model = Denoiser(SHAPE); model.load_state_dict({k: v.half().float() if v.dim() == 2 else v for k, v in state.items()}); few = puzzles("test", 40)
    with torch.no_grad():
        for_logits = [canvas(torch.tensor([[c + 2 if c else MASK for c in cells]])) for cells, _ in few[:4]]
        lines(os.path.join(tests, "reference_logits.jsonl"), (dict(tokens=x[0].tolist(), logits=[[float(f"{v:.7g}") for v in row] for row in model(x)[0].tolist()]) for x in for_logits))
    lines(os.path.join(tests, "reference_decodes.jsonl"), (dict(given=text(cells), **{f"threshold_{t}": dict(zip(("tokens", "forwards"), decode(model, cells, t))) for t in (2.0, 0.9, 0.5)}) for cells, _ in few))

if __name__ == "__main__": main()

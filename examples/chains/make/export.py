# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write a model, its problems and what the tests compare with. Usage: export.py MODEL.pt FOLDER TESTS [PROBLEMS] [NAME]

NAME is chains (the default), chains_2, or waiting or block_causal with _1 or _2. FOLDER gets NAME-f16.gguf and the test set,
PROBLEMS of each task (240): problems.jsonl, or waiting.jsonl. TESTS gets reference_logits.jsonl and
reference_decodes.jsonl, of the others than chains with NAME in front, computed by PyTorch in f32 from the weights as
they are in the file.
"""
import json, os, sys, torch
from tasks import ALPHABET, BOS, JUDGED, MASK, WAITING, encode, problems, write
from train import SHAPES, Denoiser
import gguf_file

def canvas(p): return torch.tensor([[BOS] + encode(p.prompt) + encode(p.given)])

@torch.no_grad()
def decode(model, p, threshold):
    """Threshold decoding in one block: every masked position above it, or the most confident one."""
    x = canvas(p); forwards = 0
    while (masked := x == MASK).any():
        logits = model(x); logits[..., MASK] = -torch.inf; best, token = logits.softmax(-1).max(-1); best = best.masked_fill(~masked, -1)
        take = masked & (best > threshold); take[0, best[0].argmax()] = True; x = torch.where(take, token, x); forwards += 1
    return x[0, 1 + len(p.prompt):].tolist(), forwards

def lines(path, rows):
    with open(path, "w", encoding="ascii") as file: file.writelines(json.dumps(row) + "\n" for row in rows)

def main():
    source, folder, tests = sys.argv[1:4]; count = int(sys.argv[4]) if len(sys.argv) > 4 else 240; name = sys.argv[5] if len(sys.argv) > 5 else "chains"
    torch.set_num_threads(1); kind = name.rpartition("_")[0] or name; shape = SHAPES[kind]; file = os.path.join(folder, f"{name}-f16.gguf"); os.makedirs(tests, exist_ok=True)
    gguf_file.export(shape, torch.load(source, map_location="cpu", weights_only=True), file, name, ALPHABET)
    judged, stored, length = (JUDGED, "problems.jsonl", 256) if kind == "chains" else (WAITING, "waiting.jsonl", 64)
    front, few, some = ("", 5, 50) if name == "chains" else (name + "_", 1, 5)
    chosen = problems("test", count, judged=judged); write(os.path.join(folder, stored), chosen)
    model = Denoiser(shape); model.load_state_dict(gguf_file.read(shape, file))
    with torch.no_grad():
        lines(os.path.join(tests, front + "reference_logits.jsonl"), (dict(tokens=x[0].tolist(), logits=[[float(f"{v:.7g}") for v in row] for row in model(x)[0].tolist()]) for x in (canvas(p)[:, :length] for p in chosen[:few])))
    lines(os.path.join(tests, front + "reference_decodes.jsonl"), (dict(prompt=p.prompt, given=p.given, **{f"threshold_{t}": dict(zip(("tokens", "forwards"), decode(model, p, t))) for t in (0.9, 0.5)}) for p in chosen[:some]))

if __name__ == "__main__": main()

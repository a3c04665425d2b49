# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write tiny_llada: GGUF files, prompts, reference logits and reference decodes. Usage: package.py MODEL.pt OUT_DIR HELDOUT_DIR"""
import json, os, random, subprocess, sys, torch
import train; from tasks import TASKS, MASK, encode, decode

def prompts(n, seed):
    return [dict(task=k, prompt=p, answer=a) for k, f in TASKS.items() for r in [random.Random(f"{seed}-{k}")] for p, a in (f(r) for _ in range(n))]

def main():
    ckpt, out, held = sys.argv[1:4]; torch.set_num_threads(2); here = os.path.dirname(os.path.abspath(__file__))
    m = train.Denoiser(train.SHAPE); m.load_state_dict(torch.load(ckpt)); m.eval(); os.makedirs(out, exist_ok=True); os.makedirs(held, exist_ok=True)
    for kind in ("f32", "f16", "q8_0"):
        subprocess.run([sys.executable, os.path.join(here, "export_gguf.py"), ckpt, os.path.join(out, f"tiny-{kind}.gguf"), kind], check=True)
    public, hidden = prompts(100, "public"), prompts(100, "heldout")
    seen = {p["prompt"] for p in public}; hidden = [p for p in hidden if p["prompt"] not in seen]
    for name, rows, d in (("prompts", public, out), ("prompts", hidden, held)):
        with open(os.path.join(d, name + ".jsonl"), "w") as f: f.writelines(json.dumps(p) + "\n" for p in rows)
    table = {}
    for label, rows, d in (("public", public, out), ("heldout", hidden, held)):
        with open(os.path.join(d, "reference_decodes.jsonl"), "w") as f:
            for p in rows:
                row = dict(task=p["task"], prompt=p["prompt"])
                for rule, tau in (("one_a_forward", 2.0), ("threshold_0.9", 0.9), ("threshold_0.5", 0.5)):
                    ids, nfe = train.generate(m, encode(p["prompt"]), tau=tau); text = decode(ids).rstrip()
                    row[rule] = dict(tokens=ids, forwards=nfe, exact=text == p["answer"])
                    t = table.setdefault((label, rule, p["task"]), [0, 0, 0]); t[0] += text == p["answer"]; t[1] += nfe; t[2] += 1
                f.write(json.dumps(row) + "\n")
    with torch.no_grad(), open(os.path.join(out, "reference_logits.jsonl"), "w") as f:
        for p in public[::50]:
            ids = [2] + encode(p["prompt"]) + encode(p["answer"])[:7] + [MASK] * (train.GEN - min(7, len(p["answer"])))
            lg = m(torch.tensor([ids]))[0]; f.write(json.dumps(dict(tokens=ids, logits=[[float(f"{v:.7g}") for v in r] for r in lg.tolist()])) + "\n")
    with open(os.path.join(out, "accuracy.json"), "w") as f:
        json.dump({f"{l}/{r}/{t}": dict(exact=round(v[0] / v[2], 3), forwards=round(v[1] / v[2], 2), prompts=v[2]) for (l, r, t), v in table.items() if l == "public"}, f, indent=1)
    for k, v in table.items(): print(*k, f"exact {v[0] / v[2]:.3f} forwards {v[1] / v[2]:.2f}")

if __name__ == "__main__": main()

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write the Sudoku model, its puzzles and what the tests compare with. Usage: export.py MODEL.pt FOLDER TESTS [PUZZLES]

FOLDER gets sudoku-f16.gguf (architecture 'llada', the two layers written four times) and puzzles.jsonl, the test set;
TESTS gets reference_logits.jsonl and reference_decodes.jsonl, computed by PyTorch in f32 from the
weights as they are in the file.
"""
import json, os, sys, gguf, numpy as np, torch
from puzzles import SIDE, puzzles, text, write
from train import BOS, CONTEXT, D, EOS, EPSILON, FFN, HEADS, LAYERS, MASK, ROPE_BASE, UNIQUE, VOCAB, Denoiser, canvas

def pairs(weight):
    """Reorder the rows of Wq and Wk: the file's architecture rotates neighbours (0,1),(2,3).., the model rotates halves."""
    return weight.reshape(HEADS, 2, D // HEADS // 2, D).swapaxes(1, 2).reshape(D, D)

def tensors(state):
    """Yield (GGUF name, array) in the order of the network."""
    yield "token_embd.weight", state["emb.weight"]
    for i in range(LAYERS):
        for ours, theirs in dict(n1="attn_norm", q="attn_q", k="attn_k", v="attn_v", o="attn_output",
                                 n2="ffn_norm", gate="ffn_gate", up="ffn_up", down="ffn_down").items():
            x = state[f"layers.{i % UNIQUE}.{ours}.weight"]
            yield f"blk.{i}.{theirs}.weight", pairs(x) if ours in "qk" else x
    yield "output_norm.weight", state["norm.weight"]
    yield "output.weight", state["head.weight"]

def export(state, path):
    w = gguf.GGUFWriter(path, "llada"); w.add_name("sudoku"); w.add_file_type(1)
    w.add_uint32("llada.vocab_size", VOCAB); w.add_context_length(CONTEXT); w.add_embedding_length(D); w.add_block_count(LAYERS)
    w.add_feed_forward_length(FFN); w.add_head_count(HEADS); w.add_head_count_kv(HEADS); w.add_layer_norm_rms_eps(EPSILON)
    w.add_causal_attention(False); w.add_rope_dimension_count(D // HEADS); w.add_rope_freq_base(ROPE_BASE); w.add_diffusion_shift_logits(False)
    kinds = gguf.TokenType; w.add_tokenizer_model("llama"); w.add_token_list(["<mask>", "</s>", "<s>"] + [str(d) for d in range(1, SIDE + 1)])
    w.add_token_scores([0.0] * VOCAB); w.add_token_types([kinds.CONTROL] * 3 + [kinds.NORMAL] * SIDE)
    w.add_bos_token_id(BOS); w.add_eos_token_id(EOS); w.add_pad_token_id(EOS); w.add_mask_token_id(MASK)
    w.add_add_bos_token(True); w.add_add_eos_token(False); w.add_add_space_prefix(False)
    for name, x in tensors({k: v.float().numpy() for k, v in state.items()}):
        w.add_tensor(name, np.ascontiguousarray(x if x.ndim == 1 else x.astype(np.float16)))
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

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
    export(state, os.path.join(folder, "sudoku-f16.gguf"))
    write(os.path.join(folder, "puzzles.jsonl"), puzzles("test", count))
    model = Denoiser(); model.load_state_dict({k: v.half().float() if v.dim() == 2 else v for k, v in state.items()}); few = puzzles("test", 40)
    with torch.no_grad():
        for_logits = [canvas(torch.tensor([[c + 2 if c else MASK for c in cells]])) for cells, _ in few[:4]]
        lines(os.path.join(tests, "reference_logits.jsonl"), (dict(tokens=x[0].tolist(), logits=[[float(f"{v:.7g}") for v in row] for row in model(x)[0].tolist()]) for x in for_logits))
    lines(os.path.join(tests, "reference_decodes.jsonl"), (dict(given=text(cells), **{f"threshold_{t}": dict(zip(("tokens", "forwards"), decode(model, cells, t))) for t in (2.0, 0.9, 0.5)}) for cells, _ in few))

if __name__ == "__main__": main()

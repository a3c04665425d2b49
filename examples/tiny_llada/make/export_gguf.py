# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write the tiny LLaDA-style model as GGUF for llama.cpp. Usage: export_gguf.py MODEL.pt|random OUT.gguf [f32|f16|q8_0]

The file declares the architecture 'llada', which llama.cpp runs without a KV cache. The same hyperparameters are
written a second time under 'llama.', so a host that overrides general.architecture with 'llama' gets the same
network with a KV cache (it must then switch causal attention off itself).
"""
import sys, gguf, numpy as np, torch
from gguf import GGMLQuantizationType as Q
from tasks import BOS, EOS, MASK, VOCAB, decode
from train import D, FFN, HEADS, LAYERS, Denoiser

ARCH, CONTEXT = "llada", 256

def hyperparameters(w, arch):
    w.add_uint32(f"{arch}.vocab_size", VOCAB)
    w.add_uint32(f"{arch}.context_length", CONTEXT)
    w.add_uint32(f"{arch}.embedding_length", D)
    w.add_uint32(f"{arch}.block_count", LAYERS)
    w.add_uint32(f"{arch}.feed_forward_length", FFN)
    w.add_uint32(f"{arch}.attention.head_count", HEADS)
    w.add_uint32(f"{arch}.attention.head_count_kv", HEADS)
    w.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5)
    w.add_bool(f"{arch}.attention.causal", False)
    w.add_uint32(f"{arch}.rope.dimension_count", D // HEADS)
    w.add_float32(f"{arch}.rope.freq_base", 10000.0)

def vocabulary(w):
    """One token per character. The SentencePiece tokenizer only merges pieces whose union is a token; here none is."""
    T = gguf.TokenType
    tokens = ["<mask>", "</s>", "<s>"] + [decode([i]).replace(" ", "\u2581") for i in range(3, VOCAB)]
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores([0.0] * VOCAB)
    w.add_token_types([T.CONTROL] * 3 + [T.NORMAL] * (VOCAB - 3))
    w.add_bos_token_id(BOS); w.add_eos_token_id(EOS); w.add_pad_token_id(EOS); w.add_mask_token_id(MASK)
    w.add_add_bos_token(True); w.add_add_eos_token(False); w.add_add_space_prefix(False)
    # llama-diffusion-cli always formats a chat; without this it uses ChatML, whose newline has no token here.
    w.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")

def pairs(weight):
    """Reorder the rows of Wq and Wk: llama.cpp rotates neighbours (0,1),(2,3).. for llada, the model rotates halves."""
    return weight.reshape(HEADS, 2, D // HEADS // 2, D).swapaxes(1, 2).reshape(D, D)

def tensors(state):
    """Yield (GGUF name, float32 array) in the order of the network."""
    n = {k: v.float().numpy() for k, v in state.items()}
    yield "token_embd.weight", n["emb.weight"]
    for i in range(LAYERS):
        for ours, theirs in dict(n1="attn_norm", q="attn_q", k="attn_k", v="attn_v", o="attn_output",
                                 n2="ffn_norm", gate="ffn_gate", up="ffn_up", down="ffn_down").items():
            x = n[f"layers.{i}.{ours}.weight"]
            yield f"blk.{i}.{theirs}.weight", pairs(x) if ours in "qk" else x
    yield "output_norm.weight", n["norm.weight"]
    yield "output.weight", n["head.weight"]

def export(state, path, kind="f16"):
    w = gguf.GGUFWriter(path, ARCH)
    w.add_name("tiny-llada"); w.add_file_type({"f32": 0, "f16": 1, "q8_0": 7}[kind])
    for arch in (ARCH, "llama"): hyperparameters(w, arch)
    w.add_diffusion_shift_logits(False); vocabulary(w)
    quant = Q[kind.upper()]
    for name, x in tensors(state):
        if x.ndim == 1: w.add_tensor(name, np.ascontiguousarray(x))
        else: w.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(x), quant), raw_dtype=quant)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

def weights(source):
    """State dict from a checkpoint, or untrained weights large enough to give distinct logits."""
    if source != "random": return torch.load(source, map_location="cpu", weights_only=True)
    torch.manual_seed(0); m = Denoiser()
    with torch.no_grad():
        for p in m.parameters():
            if p.dim() == 2: p.mul_(4)
            else: p.uniform_(0.5, 1.5)
    return m.state_dict()

if __name__ == "__main__": export(weights(sys.argv[1]), sys.argv[2], *sys.argv[3:])

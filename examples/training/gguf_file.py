# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the weights of a model of llada.py as a GGUF file of the architecture 'llada', and reads them back."""
import gguf, numpy as np, torch

PARTS = dict(n1="attn_norm", q="attn_q", k="attn_k", v="attn_v", o="attn_output", n2="ffn_norm", gate="ffn_gate", up="ffn_up", down="ffn_down")
FILE_TYPES = dict(f32=0, f16=1, q8_0=7)

def neighbours(shape, weight):
    """Rows of Wq or Wk in the order of the file, whose architecture rotates neighbours (0,1),(2,3)..; the model rotates halves."""
    return weight.reshape(shape.heads, 2, shape.head // 2, shape.width).swapaxes(1, 2).reshape(shape.width, shape.width)

def halves(shape, weight):
    """The inverse of neighbours()."""
    return weight.reshape(shape.heads, shape.head // 2, 2, shape.width).swapaxes(1, 2).reshape(shape.width, shape.width)

def tensors(shape, state):
    """Yields (GGUF name, f32 array) in the order of the network: a layer as often as it is applied."""
    n = {k: v.float().numpy() for k, v in state.items()}
    yield "token_embd.weight", n["emb.weight"]
    for i in range(shape.layers):
        for ours, theirs in PARTS.items():
            x = n[f"layers.{i % shape.unique}.{ours}.weight"]
            yield f"blk.{i}.{theirs}.weight", neighbours(shape, x) if ours in "qk" else x
    yield "output_norm.weight", n["norm.weight"]
    yield "output.weight", n["head.weight"]

def hyperparameters(w, shape, arch):
    w.add_uint32(f"{arch}.vocab_size", shape.vocab)
    w.add_uint32(f"{arch}.context_length", shape.context)
    w.add_uint32(f"{arch}.embedding_length", shape.width)
    w.add_uint32(f"{arch}.block_count", shape.layers)
    w.add_uint32(f"{arch}.feed_forward_length", shape.ffn)
    w.add_uint32(f"{arch}.attention.head_count", shape.heads)
    w.add_uint32(f"{arch}.attention.head_count_kv", shape.heads)
    w.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", shape.epsilon)
    w.add_bool(f"{arch}.attention.causal", False)
    if shape.block: w.add_uint32(f"{arch}.attention.block_length", shape.block); w.add_uint32(f"{arch}.attention.prefix_length", shape.prefix)
    w.add_uint32(f"{arch}.rope.dimension_count", shape.head)
    w.add_float32(f"{arch}.rope.freq_base", shape.rope_base)

def vocabulary(w, characters):
    """The mask, end and begin tokens, then one token per character. The SentencePiece tokenizer merges pieces whose
    union is a token only; here none is."""
    T = gguf.TokenType; tokens = ["<mask>", "</s>", "<s>"] + [c.replace(" ", "\u2581") for c in characters]
    w.add_tokenizer_model("llama"); w.add_token_list(tokens); w.add_token_scores([0.0] * len(tokens))
    w.add_token_types([T.CONTROL] * 3 + [T.NORMAL] * len(characters))
    w.add_bos_token_id(2); w.add_eos_token_id(1); w.add_pad_token_id(1); w.add_mask_token_id(0)
    w.add_add_bos_token(True); w.add_add_eos_token(False); w.add_add_space_prefix(False)

def export(shape, state, path, name, characters, kind="f16", archs=("llada",), chat_template=None):
    """Writes a state dict; matrices as f32, f16 or q8_0. Hyperparameters are written once for each of `archs`."""
    w = gguf.GGUFWriter(path, "llada"); w.add_name(name); w.add_file_type(FILE_TYPES[kind])
    for arch in archs: hyperparameters(w, shape, arch)
    w.add_diffusion_shift_logits(False); vocabulary(w, characters)
    if chat_template: w.add_chat_template(chat_template)
    quant = gguf.GGMLQuantizationType[kind.upper()]
    for key, x in tensors(shape, state):
        x = np.ascontiguousarray(x)
        if x.ndim == 1: w.add_tensor(key, x)
        else: w.add_tensor(key, gguf.quants.quantize(x, quant), raw_dtype=quant)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

def read(shape, path):
    """The state dict of a file that export() wrote as f16 or f32: the weights as they are in the file, in f32."""
    t = {x.name: x.data.astype(np.float32) for x in gguf.GGUFReader(path).tensors}
    state = {"emb.weight": t["token_embd.weight"], "norm.weight": t["output_norm.weight"], "head.weight": t["output.weight"]}
    for i in range(shape.unique):
        for ours, theirs in PARTS.items():
            x = t[f"blk.{i}.{theirs}.weight"]; state[f"layers.{i}.{ours}.weight"] = halves(shape, x) if ours in "qk" else x
    return {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in state.items()}

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GGUF files with the vocabulary of a released model, and no weights to speak of."""
import struct

MASK, VOCABULARY = 126336, 126464  # of LLaDA 8B


def write_gguf(path, architecture, name, mask, vocabulary=VOCABULARY):
    """A model of a layer whose weights are 0, with the vocabulary of a released one."""
    def text(value):
        data = value.encode()
        return struct.pack("<Q", len(data)) + data

    def value(kind, form, *of):
        return struct.pack("<I" + form, kind, *of)

    def whole(number):
        return value(4, "I", number)

    printable = [chr(c).replace(" ", "\u2581") for c in range(32, 127)]
    tokens = ["<s>", "</s>", *printable]
    tokens += [f"<{t}>" for t in range(len(tokens), vocabulary)]
    width = 32
    about = {
        "general.architecture": value(8, "") + text(architecture), "general.name": value(8, "") + text(name),
        **{f"{architecture}.{key}": whole(n) for key, n in (
            ("vocab_size", vocabulary), ("context_length", 256), ("embedding_length", width), ("block_count", 1),
            ("feed_forward_length", width), ("attention.head_count", 1), ("attention.head_count_kv", 1),
            ("rope.dimension_count", width))},
        f"{architecture}.attention.layer_norm_rms_epsilon": value(6, "f", 1e-5),
        f"{architecture}.attention.causal": value(7, "?", False),
        "diffusion.shift_logits": value(7, "?", False),
        "tokenizer.ggml.model": value(8, "") + text("llama"),
        "tokenizer.ggml.tokens": value(9, "IQ", 8, vocabulary) + b"".join(map(text, tokens)),
        "tokenizer.ggml.scores": value(9, "IQ", 6, vocabulary) + bytes(4 * vocabulary),
        "tokenizer.ggml.token_type": value(9, "IQ", 5, vocabulary) + b"".join(
            struct.pack("<i", 3 if t < 2 or t == mask else 1) for t in range(vocabulary)),
        **{f"tokenizer.ggml.{key}_token_id": whole(t) for key, t in (("bos", 0), ("eos", 1), ("padding", 1), ("mask", mask))},
        "tokenizer.ggml.add_space_prefix": value(7, "?", False),
    }
    square = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    shapes = {"token_embd": (width, vocabulary), "output": (width, vocabulary), "output_norm": (width,),
              "blk.0.attn_norm": (width,), "blk.0.ffn_norm": (width,), **{f"blk.0.{m}": (width, width) for m in square}}
    infos, at = b"", 0
    for tensor, shape in shapes.items():
        size = 4
        infos += text(tensor + ".weight") + struct.pack("<I", len(shape))
        for n in shape:
            infos += struct.pack("<Q", n)
            size *= n
        infos += struct.pack("<IQ", 0, at)
        at += size  # all are multiples of 32
    with open(path, "wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(shapes), len(about)))
        file.write(b"".join(text(key) + of for key, of in about.items()) + infos)
        file.write(bytes(-file.tell() % 32))
        file.truncate(file.tell() + at)

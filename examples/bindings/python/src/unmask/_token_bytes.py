# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The bytes of each token of a tokenizer."""
from __future__ import annotations

import json
import re
from typing import Any, Iterator

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _characters_of_bytes() -> dict[str, int]:
    """The characters by which byte-level BPE writes bytes: printable ones as they are, others from 256 on."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {**{chr(b): b for b in shown}, **{chr(256 + i): b for i, b in enumerate(hidden)}}


_BYTES = _characters_of_bytes()


def _kinds(part: Any) -> Iterator[str]:
    """Types of the parts of a decoder in a tokenizer's JSON."""
    if isinstance(part, dict):
        yield part.get("type", "")
        if part.get("type") == "Replace" and part.get("content") == " ":
            yield "Metaspace"
        for inner in part.values():
            yield from _kinds(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _kinds(inner)


def _of_pieces(pieces: dict[str, int], kinds: set[str], added: dict[int, tuple[str, bool]], size: int) -> list[bytes]:
    out = [b""] * size
    for piece, token in pieces.items():
        if token in added or token >= size:
            continue
        byte = _BYTE.fullmatch(piece)
        if "ByteLevel" in kinds:
            out[token] = bytes(_BYTES[c] for c in piece) if all(c in _BYTES for c in piece) else piece.encode()
        elif byte and "ByteFallback" in kinds:
            out[token] = bytes([int(byte[1], 16)])
        elif "Metaspace" in kinds:
            out[token] = piece.replace("\u2581", " ").encode()
        elif "WordPiece" in kinds:
            raise ValueError("tokenizer must not be WordPiece: whether a token begins with a space depends on its place; "
                             "give token_bytes")
        else:
            out[token] = piece.encode()
    for token, (text, special) in added.items():
        if token < size:
            out[token] = b"" if special else text.encode()
    return out


def _of_fast(backend: Any, size: int | None) -> list[bytes]:
    """Of a tokenizers.Tokenizer."""
    parts = json.loads(backend.to_str())
    added = {t["id"]: (t["content"], t["special"]) for t in parts.get("added_tokens", [])}
    pieces = backend.get_vocab(with_added_tokens=False)
    kinds = set(_kinds(parts.get("decoder"))) | set(_kinds(parts.get("pre_tokenizer")))
    most = max([*pieces.values(), *added], default=-1) + 1
    return _of_pieces(pieces, kinds, added, most if size is None else size)


def _of_sentencepiece(model: Any, size: int | None) -> list[bytes]:
    out = []
    for token in range(model.get_piece_size()):
        piece = model.id_to_piece(token)
        byte = _BYTE.fullmatch(piece)
        if byte and model.is_byte(token):
            out.append(bytes([int(byte[1], 16)]))
        elif model.is_control(token) or model.is_unknown(token) or model.is_unused(token):
            out.append(b"")
        else:
            out.append(piece.replace("\u2581", " ").encode())
    return out if size is None else (out + [b""] * size)[:size]


def _of_tiktoken(encoding: Any, size: int | None) -> list[bytes]:
    special = encoding.special_tokens_set
    out = [b""] * (encoding.n_vocab if size is None else size)
    for token in range(min(encoding.n_vocab, len(out))):
        try:
            text = encoding.decode_single_token_bytes(token)
        except KeyError:
            continue
        out[token] = b"" if text.decode("utf-8", "replace") in special else text
    return out


def token_bytes(tokenizer: Any, size: int | None = None) -> list[bytes]:
    """The bytes of each token; b"" for special tokens and for those without text.

    Takes tokenizers of transformers, tokenizers, sentencepiece and tiktoken.
    """
    if hasattr(tokenizer, "backend_tokenizer"):
        return _of_fast(tokenizer.backend_tokenizer, size)
    if hasattr(tokenizer, "to_str") and hasattr(tokenizer, "get_vocab"):
        return _of_fast(tokenizer, size)
    if hasattr(tokenizer, "decode_single_token_bytes"):
        return _of_tiktoken(tokenizer, size)
    model = getattr(tokenizer, "sp_model", tokenizer)
    if hasattr(model, "id_to_piece"):
        out = _of_sentencepiece(model, size)
        for token, text in getattr(tokenizer, "added_tokens_decoder", {}).items():
            if token < len(out):
                out[token] = b"" if getattr(text, "special", True) else str(text).encode()
        return out
    raise TypeError(f"tokenizer must be of transformers, tokenizers, sentencepiece or tiktoken, got "
                    f"{type(tokenizer).__name__}: give token_bytes")

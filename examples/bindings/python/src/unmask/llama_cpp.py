# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GGUF files of masked diffusion models, run by llama.cpp through llama-cpp-python.

    model = unmask.llama_cpp.LlamaCpp("model.gguf")
    session = unmask.Session("threshold(0.9)", vocab=model.vocab, mask_token=model.mask_token, length=n, window=n,
                             logits_shift=model.logits_shift)
    session.start(0, tokens, prompt_length=p)                     # tokens: int32
    while (request := session.next()) is not None:
        session.supply(model.forward([tokens], [request.segments[0].rows]))

`python -m unmask serve --model model.gguf` serves one. It needs `pip install "./examples/bindings/python[gguf]"`:
llama-cpp-python 0.3.36, which has the calls of llama.cpp 0.5.0. Calls and structures move between
minor versions.
"""
from __future__ import annotations

import ctypes
import logging
import os
import pathlib
import types
from typing import Any, Sequence

import numpy as np

VERSION = "0.3.36"


class LlamaCpp:
    """A model of llama.cpp's diffusion architectures: llada, dream, llada-moe, rnd1.

    exact       no flash attention and K/V in single precision; llama.cpp's defaults round both to half
    gpu_layers  layers on a GPU
    threads     of a pass

    Each sequence is a call of llama.cpp: its logits depend on nothing else, and take [length, vocab] floats of
    memory once. ValueError for a file that is not a masked diffusion model.
    """

    together = 1  # sequences of a call

    def __init__(self, path: str | os.PathLike[str], *, exact: bool = True, gpu_layers: int = 0, threads: int = 1) -> None:
        self._c = c = _library()
        self._exact, self._threads = exact, threads
        self._context = self._batch = None
        self._found: list[_Special] | None = None
        self._room = 0
        if not pathlib.Path(path).is_file():
            raise ValueError(f"{path}: there is no such file")
        params = c.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        self._model = c.llama_model_load_from_file(os.fsencode(path), params)
        if not self._model:
            raise ValueError(f"{path}: llama.cpp cannot load it")
        self._words = c.llama_model_get_vocab(self._model)
        if not c.llama_model_is_diffusion(self._model) or c.llama_vocab_mask(self._words) < 0:
            raise ValueError(f"{path}: no masked diffusion model to llama.cpp")
        self.name = pathlib.Path(path).stem
        self.config = types.SimpleNamespace(
            model_type=self._meta("general.architecture"),
            _name_or_path=f"{self._meta('general.name')} {self._meta('general.basename')} {self.name}")
        self.vocab: int = c.llama_vocab_n_tokens(self._words)
        self.mask_token: int = c.llama_vocab_mask(self._words)
        eos = c.llama_vocab_eos(self._words)
        self.eos_token: int | None = eos if eos >= 0 else None
        self.also_eos: Sequence[int] = [
            t for t in range(self.vocab) if c.llama_vocab_is_eog(self._words, t) and t not in (eos, self.mask_token)]
        # Rows are shifted unless the file says otherwise, as in llama.cpp's own example.
        self.logits_shift = 0 if self._meta("diffusion.shift_logits") == "false" else 1
        self.context: int = c.llama_model_n_ctx_train(self._model)
        self.answer_length = max(1, min(128, self.context // 2))
        self.block_length = 32
        template = c.llama_model_chat_template(self._model, None)
        self.chat_template: str | None = template.decode() if template else None
        self.token_bytes: Sequence[bytes] = [self._piece(t, special=False) for t in range(self.vocab)]

    def __del__(self) -> None:
        self._forget()
        if getattr(self, "_model", None):
            self._c.llama_model_free(self._model)
            self._model = None

    def encode(self, text: str) -> list[int]:
        return self._tokens(text, add_special=True, parse_special=False)

    def encode_text(self, text: str) -> list[int]:
        """The tokens of a text inside a prompt."""
        return self._tokens(text, add_special=False, parse_special=False)

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """By the template of the file. Special tokens are those of the template: one that is spelled out in a
        message is text.
        """
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        template = self.chat_template
        if template is None:
            raise ValueError(f"{self.name} has no chat template: use a completion")
        bos, eos = (self._piece(t, special=True).decode("utf-8", "replace") if t >= 0 else ""
                    for t in (self._c.llama_vocab_bos(self._words), self._c.llama_vocab_eos(self._words)))
        specials = self._specials()
        messages, stand_ins = _hidden(messages, [text for text, _, _ in specials], template)
        try:
            prompt = Jinja2ChatFormatter(template, eos, bos)(messages=messages).prompt  # type: ignore[arg-type]
        except Exception as error:  # a template says what it does not take
            raise ValueError(f"the chat template of {self.name} refuses it: {error}") from None
        begins = not (bos and prompt.startswith(bos))
        if not stand_ins:
            return self._tokens(prompt, add_special=begins, parse_special=True)
        tokens = [self._c.llama_vocab_bos(self._words)] if begins and self._c.llama_vocab_get_add_bos(self._words) else []
        for part in _split(prompt, specials):
            tokens += [part] if isinstance(part, int) else self._tokens(
                part.translate(stand_ins), add_special=False, parse_special=False)
        return tokens

    def forward(self, sequences: list[np.ndarray], rows: list[slice]) -> list[np.ndarray]:
        """The logits of these rows, float32 [rows, vocab]: those of one sequence are a view, until the next call."""
        if len(sequences) == 1:
            return [self._logits(sequences[0])[rows[0]]]
        return [self._logits(tokens)[s].copy() for tokens, s in zip(sequences, rows)]

    def _logits(self, tokens: np.ndarray) -> np.ndarray:
        c, length = self._c, len(tokens)
        self._reserve(length)
        c.llama_batch_ext_clear(self._batch)
        for position, token in enumerate(tokens.tolist()):
            if c.llama_batch_ext_add_token(self._batch, 0, token) != position:
                raise ValueError(f"tokens must be in [0, {self.vocab}), got {token} at position {position}")
            c.llama_batch_ext_set_pos(self._batch, position, ctypes.byref(c.llama_pos(position)))
            c.llama_batch_ext_set_output_logits(self._batch, position, True)  # without a memory: all rows or none
        status = c.llama_process(self._context, c.LLAMA_PROCESS_TYPE_DECODE, self._batch)
        if status != 0:
            raise RuntimeError(f"llama_process returned {status}")
        return np.ctypeslib.as_array(c.llama_get_logits(self._context), shape=(length, self.vocab))

    def _reserve(self, length: int) -> None:
        if length <= self._room:
            return
        if length > self.context:
            raise ValueError(f"a sequence must have at most {self.context} tokens, got {length}")
        c = self._c
        self._forget()
        room = min(self.context, max(256, 1 << (length - 1).bit_length()))
        params = c.llama_context_default_params()
        params.n_seq_max = 1
        params.n_ctx = params.n_batch = params.n_ubatch = room
        params.n_threads = params.n_threads_batch = self._threads
        if self._exact:
            params.flash_attn_type = c.LLAMA_FLASH_ATTN_TYPE_DISABLED
            params.type_k = params.type_v = c.GGML_TYPE_F32
        self._context = c.llama_init_from_model(self._model, params)
        if not self._context:
            raise MemoryError(f"llama.cpp cannot make a context for {room} tokens")
        c.llama_set_causal_attn(self._context, False)
        self._batch = c.llama_batch_ext_init(self._context)
        self._room = room

    def _forget(self) -> None:
        if getattr(self, "_batch", None):
            self._c.llama_batch_ext_free(self._batch)
        if getattr(self, "_context", None):
            self._c.llama_free(self._context)
        self._context = self._batch = None
        self._room = 0

    def _specials(self) -> list[_Special]:
        """The tokens that llama.cpp finds in a text with parse_special alone, in the order in which it looks for them."""
        if self._found is None:
            c, found = self._c, []
            for token in range(self.vocab):
                attributes = c.llama_vocab_get_attr(self._words, token)
                text = c.llama_vocab_get_text(self._words, token).decode("utf-8", "replace")
                if attributes & (_CONTROL | _UNKNOWN) and text:
                    found.append((text, token, attributes))
            self._found = sorted(found, key=lambda special: -len(special[0].encode()))
        return self._found

    def _tokens(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        data = text.encode()
        size = len(data) + 8
        out = (self._c.llama_token * size)()
        count = self._c.llama_tokenize(self._words, data, len(data), out, size, add_special, parse_special)
        if count < 0:
            raise ValueError(f"{self.name} cannot tokenize a text of {len(data)} bytes")
        return list(out[:count])

    def _piece(self, token: int, *, special: bool) -> bytes:
        buffer = ctypes.create_string_buffer(64)
        size = self._c.llama_token_to_piece(self._words, token, buffer, len(buffer), 0, special)
        if size < 0:
            buffer = ctypes.create_string_buffer(-size)
            size = self._c.llama_token_to_piece(self._words, token, buffer, len(buffer), 0, special)
        return buffer.raw[:size]

    def _meta(self, key: str) -> str | None:
        buffer = ctypes.create_string_buffer(256)
        size = self._c.llama_model_meta_val_str(self._model, key.encode(), buffer, len(buffer))
        return None if size < 0 else buffer.value.decode("utf-8", "replace")


_Special = tuple[str, int, int]  # text, token, attributes
_UNKNOWN, _CONTROL, _LSTRIP, _RSTRIP = 1, 8, 128, 256  # llama_token_attr


def _hidden(messages: list[dict[str, str]], specials: list[str], template: str) -> tuple[list[dict[str, str]], dict[int, str]]:
    """The messages without special tokens in their contents, and which character replaces which.

    A character that neither the template nor a message has takes the place of the first one of each special token, also
    of one that begins at the end of a content.
    """
    used = {*template, *"".join(m["content"] for m in messages)}
    free = (chr(c) for c in range(0xE000, 0xF900) if chr(c) not in used)
    stand_ins: dict[str, str] = {}
    begins = {special[:k] for special in specials for k in range(1, len(special))}

    def hidden(content: str) -> str:
        for special in specials:
            while special in content:  # twice where it overlaps with itself
                content = content.replace(special, stand_in(special[0]) + special[1:])
        end = len(content.rstrip())  # a template may strip it
        for first in range(max(0, end - max(map(len, begins), default=0)), end):
            if content[first:end] in begins:
                content = content[:first] + stand_in(content[first]) + content[first + 1:]
        return content

    def stand_in(character: str) -> str:
        if character not in stand_ins:
            stand_ins[character] = next(free)
        return stand_ins[character]

    out = [{**m, "content": hidden(m["content"])} for m in messages]
    return out, {ord(to): character for character, to in stand_ins.items()}


def _split(text: str, specials: list[_Special]) -> list[str | int]:
    """A text and the special tokens in it, as llama.cpp splits it."""
    parts: list[str | int] = [text]
    for special, token, attributes in specials:
        now: list[str | int] = []
        for part in parts:
            if isinstance(part, int):
                now.append(part)
                continue
            pieces = part.split(special)
            for i, piece in enumerate(pieces):
                if i > 0:
                    now.append(token)
                    piece = piece.lstrip() if attributes & _RSTRIP else piece
                if i + 1 < len(pieces) and attributes & _LSTRIP:
                    piece = piece.rstrip()
                now.append(piece)
        parts = now
    return [part for part in parts if part != ""]


def _library() -> Any:
    try:
        import llama_cpp
    except ImportError:
        raise ImportError('a GGUF file needs llama-cpp-python: in a checkout, pip install "./examples/bindings/python[gguf]"') from None
    found = llama_cpp.__version__
    if found.split(".")[:3] != VERSION.split("."):
        raise ImportError(f"unmask.llama_cpp is for llama-cpp-python {VERSION}, got {found}")
    global _log
    if _log is None:
        _log = llama_cpp.llama_cpp.llama_log_callback(_logged)
        llama_cpp.llama_cpp.llama_log_set(_log, None)
    return llama_cpp.llama_cpp


_log: Any = None  # llama.cpp calls it for as long as the process lives
_ERROR = 4


def _logged(level: int, text: bytes, data: Any) -> None:
    """Errors alone: each pass of a diffusion model is a warning of llama.cpp's."""
    if level == _ERROR:
        logging.getLogger("unmask.llama_cpp").error("%s", text.decode("utf-8", "replace").rstrip())

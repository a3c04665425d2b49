# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Serves examples/tiny_llada with dlmserve on this machine: serve.py [--policy TEXT] [--port N]"""
import argparse
import pathlib
from types import SimpleNamespace

import dlmserve.engine
import torch
import uvicorn
from policy_loop import install
from tiny_llada import MASK, CharTokenizer, TinyLlada

WEIGHTS = pathlib.Path(__file__).resolve().parents[2] / "tiny_llada" / "tiny-f16.gguf"


def load(**_):
    return SimpleNamespace(
        model=TinyLlada(WEIGHTS),
        tokenizer=CharTokenizer(),
        device=torch.device("cpu"),
        dtype="f32",
        mask_id=MASK,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", help="such as 'trace_credit + threshold(0.9)'; without it dlmserve's own")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    torch.set_num_threads(1)  # more do not help a model this small
    dlmserve.engine.load_model = load
    if options.policy:
        install(options.policy, MASK)
    uvicorn.run("dlmserve.api.server:app", host="127.0.0.1", port=options.port, log_level="warning")

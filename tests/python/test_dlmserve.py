# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""dlmserve 0.1.1 serves the tiny model over HTTP, decided by unmask, as the example engine decodes."""
import concurrent.futures
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
import torch
from conftest import REPOSITORY

pytest.importorskip("dlmserve.denoise_loop", reason="dlmserve is not installed")

HOST = REPOSITORY / "examples" / "hosts" / "dlmserve"
DATA = REPOSITORY / "tests" / "data" / "tiny_llada"


def references(count):
    with open(DATA / "reference_decodes.jsonl", encoding="utf-8") as file:
        every = [json.loads(line) for line in file]
    return every[:: len(every) // count]


def text_of(tokens):
    return "".join(chr(t + 29) for t in tokens if t >= 3)


@pytest.fixture
def serve():
    running = []

    def start(*arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen([sys.executable, HOST / "serve.py", "--port", str(port), *arguments])
        running.append(server)
        for _ in range(600):
            assert server.poll() is None, "the server ended"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ready").close()
                return port
            except OSError:
                time.sleep(0.2)
        raise TimeoutError("the server is not ready after two minutes")

    yield start
    for server in running:
        server.kill()  # its own handler of SIGTERM drains, but does not end it
        server.wait()


def ask(port, prompt):
    body = {
        "model": "gsai-ml/LLaDA-8B-Instruct",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": 40,
        "block_length": 20,
        "num_denoising_steps": 40,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def test_the_model_is_that_of_the_example_engine(load_host):
    model = load_host("dlmserve/tiny_llada.py")
    llada = model.TinyLlada(REPOSITORY / "examples" / "tiny_llada" / "tiny-f16.gguf")
    with open(DATA / "reference_logits.jsonl", encoding="utf-8") as file:
        for line in map(json.loads, file):
            logits = llada(torch.tensor([line["tokens"]])).logits[0]
            assert (logits - torch.tensor(line["logits"])).abs().max() < 1e-4


@pytest.mark.parametrize(
    "policy, rule, count",
    [
        ("threshold(0.9)", "threshold_0.9", 8),
        ("threshold(0.5)", "threshold_0.5", 8),
        ("tokens_per_step(1)", "one_a_forward", 2),
    ],
)
def test_serves_what_the_engine_decodes(serve, policy, rule, count):
    port = serve("--policy", policy)
    lines = references(count)
    with concurrent.futures.ThreadPoolExecutor(len(lines)) as clients:  # all in one batch
        answers = list(clients.map(lambda line: ask(port, line["prompt"]), lines))
    assert answers == [text_of(line[rule]["tokens"]) for line in lines]


def test_credit_lives_as_long_as_its_request(serve):
    """Batched answers are those of requests that are alone, whatever rows they share a pass with."""
    port = serve("--policy", "trace_credit + threshold(0.8)")
    lines = references(4)
    alone = [ask(port, line["prompt"]) for line in lines]
    with concurrent.futures.ThreadPoolExecutor(len(lines)) as clients:
        assert list(clients.map(lambda line: ask(port, line["prompt"]), lines)) == alone

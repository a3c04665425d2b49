#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Time to the first token of one client of the server while another client attacks it: a median and the worst, in ms.

usage: python tests/python/serve_hostile.py [--samples N] [--same-address] [ATTACK ...]

The server, the attacker and the user are processes, the attacker with the lowest priority: it stands for another
machine. The user asks for 20 positions from 127.0.0.2; with --same-address it is the same client to the server. Exits
with 1 if a median is more than twice the idle one, or if an answer fails.
"""
import argparse
import contextlib
import json
import multiprocessing
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time

PROMPT = "Q:Ora has 2 books. Buys 8. How many?"
SLOW = {"policy": "left_to_right + tokens_per_step(1)", "max_tokens": 180, "stream": True}


def request(body, path="/v1/completions"):
    data = body if isinstance(body, bytes) else json.dumps({"model": "tiny", "prompt": PROMPT, **body}).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


def first_token(port, host, body, seconds=120):
    """The seconds to the first text of a stream; None if there was none."""
    begin, answer = time.perf_counter(), b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds, source_address=(host, 0)) as client:
        client.sendall(request({"max_tokens": 20, "stream": True, **body}))
        while not re.search(rb'"text":"[^"]', answer):
            more = client.recv(1 << 16)
            if not more:
                return None
            answer += more
    return time.perf_counter() - begin


def again(port, data, threads):
    """Sends a request from each of some threads, again when it is answered."""
    def run():
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(data)
                while client.recv(1 << 16):
                    pass
    for _ in range(threads):
        threading.Thread(target=run, daemon=True).start()


def held(port, data, connections, drip=b""):
    """Opens connections that send some bytes, then `drip` one byte a second, and read nothing."""
    clients = []
    for _ in range(connections):
        with contextlib.suppress(OSError):
            clients.append(socket.create_connection(("127.0.0.1", port)))
            clients[-1].sendall(data)
    while True:
        time.sleep(1)
        for i, client in enumerate(clients):
            try:
                client.send(drip)
            except OSError:
                with contextlib.suppress(OSError):
                    clients[i] = socket.create_connection(("127.0.0.1", port))
                    clients[i].sendall(data)


REGEX = r"(?:[a-z]{1,40}[0-9]{1,40}){1,40}"
ATTACKS = {
    "stop of 1 MB": lambda p: again(p, request({**SLOW, "stop": "a" * 10**6}), 8),
    "stops of 1,000": lambda p: again(p, request({**SLOW, "stop": ["a" * 1000 + c for c in "bcde"]}), 16),
    "policy of 1 MB": lambda p: again(p, request({"policy": "threshold(0.9)" + " " * 10**6}), 8),
    "policies of 4,000": lambda p: again(p, request({"policy": "any_of(" * 300 + "threshold(0.9)" + ")" * 300}), 8),
    "prompts of 250 kB": lambda p: again(p, request({"prompt": "x" * 250_000}), 4),
    "numbers of 120 kB": lambda p: again(p, request({"prompt": [1] * 60_000}), 4),
    "prompts of 4 MB": lambda p: again(p, request({"prompt": "x" * (4 << 20)}), 4),
    "numbers of 4 MB": lambda p: again(p, request({"prompt": [1] * (4 << 19)}), 4),
    "escapes of 4 MB": lambda p: again(p, request(b'{"model":"tiny","prompt":"' + rb"\ud83d" * 690_000 + b'"}'), 4),
    "names of 4 MB": lambda p: again(p, request({"x" * (4 << 20): 1}), 4),
    "refused requests": lambda p: again(p, request({"policy": "x"}), 16),
    "pages that are not": lambda p: again(p, b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 16),
    "the page": lambda p: again(p, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 16),
    "the numbers": lambda p: again(p, b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 16),
    "200 slow headers": lambda p: held(p, b"POST /v1/completions HTTP/1.1\r\nX: ", 200, b"x"),
    "200 slow bodies": lambda p: held(p, request({"prompt": "x" * 1000})[:-900], 200, b"x"),
    "64 unread streams": lambda p: held(p, request({**SLOW, "canvas": True}), 64),
    "16 long answers": lambda p: again(p, request(SLOW), 16),
    "64 long answers": lambda p: again(p, request(SLOW), 64),
    "2 times n = 16": lambda p: again(p, request({**SLOW, "n": 16}), 2),
    "16 with many passes": lambda p: again(p, request({**SLOW, "policy": "timesteps(4000)"}), 16),
    "32 short answers": lambda p: again(p, request({"max_tokens": 20}), 32),
    "slow expressions": lambda p: again(p, request({"regex": REGEX, "max_tokens": 180}), 8),
}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("attack", nargs="*", default=list(ATTACKS))
    options.add_argument("--samples", type=int, default=15)
    options.add_argument("--same-address", action="store_true")
    options = options.parse_args()
    host = "127.0.0.1" if options.same_address else "127.0.0.2"
    worst = 0.0
    print("attack                 median   worst  times the idle median (ms)")
    for name in options.attack:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = subprocess.Popen([sys.executable, "-m", "unmask", "serve", "--port", str(port)], stderr=subprocess.DEVNULL)
        attacker = multiprocessing.get_context("fork").Process(target=attack, args=(name, port), daemon=True)
        try:
            end = time.monotonic() + 60
            while True:
                with contextlib.suppress(OSError):
                    first_token(port, host, {})
                    break
                assert time.monotonic() < end, "the server did not start"
                time.sleep(0.1)
            sample(port, host, 3)
            idle = sample(port, host, options.samples)
            attacker.start()
            time.sleep(3)
            found = sample(port, host, options.samples)
            attacker.kill()
            attacker.join()
            time.sleep(3)
            idle += sample(port, host, options.samples)  # the load of the machine changes, too
            ratio = statistics.median(found) / statistics.median(idle)
            worst = max(worst, ratio)
            print(f"{name:20} {1000 * statistics.median(found):8.1f} {1000 * max(found):7.1f} {ratio:6.2f} "
                  f"({1000 * statistics.median(idle):.1f})", flush=True)
        finally:
            if attacker.is_alive():
                attacker.kill()
            server.kill()
            server.wait()
    return worst > 2


def sample(port, host, count):
    found = []
    for _ in range(count):
        seconds = first_token(port, host, {})
        assert seconds is not None, "an answer of the user failed"
        found.append(seconds)
        time.sleep(0.1)
    return found


def attack(name, port):
    os.nice(19)
    ATTACKS[name](port)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies from the command line: python -m unmask [-h] {parts,models,decode,tune,trace,serve} ..."""
from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import logging
import os
import pathlib
import signal
import sys
import tempfile
import time
from typing import Any, Iterator, Sequence

from . import Decoded, TraceView, __version__, describe_models, describe_parts, tune


# More threads wait for each other longer than these small matrices take; read when NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    except (OSError, ImportError, ValueError) as error:
        print(f"unmask {options.command}: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m unmask", description="Decoding policies for masked diffusion language models.")
    parser.add_argument("--version", action="version", version=f"unmask {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{parts,models,decode,tune,trace,serve}")

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        made.set_defaults(run=run)
        return made

    made = command("parts", _parts, "list the parts and methods that a policy may name")
    made.add_argument("name", nargs="*", help="only these")

    made = command("models", _models, "list the released models that a policy may name, as model:NAME")
    made.add_argument("name", nargs="*", help="only these")

    made = command("decode", _decode, "decode with the small LLaDA of the package")
    made.add_argument("prompt", nargs="?", help="a prompt in the form of the model's tasks; default: one of its tasks")
    made.add_argument("--policy", default="trace_credit + threshold(0.9)", help="a policy as text (%(default)s)")
    made.add_argument("--task", type=int, default=0, metavar="N", help="which task without a prompt, 0 to 399")
    made.add_argument("--seed", type=int, default=0, help="of random draws (%(default)s)")
    made.add_argument("--trace", metavar="FILE", help="record the decode as a trace")
    made.add_argument("--html", metavar="FILE", help="write a page that shows the decode")

    made = command("tune", _tune, "search for the cheapest policy that is right often enough, with the small LLaDA")
    made.add_argument("--target", type=float, default=0.97, help="share of right answers (%(default)s)")
    made.add_argument("--problems", type=int, default=40, metavar="N",
                      help="tasks, 8 to 400, half of them to check what was found (%(default)s)")
    made.add_argument("--depth", type=int, default=2, help="parts that a rule may be composed with (%(default)s)")
    made.add_argument("--resume", metavar="FILE", help="keep results in FILE, and take those that it has from there")

    made = command("trace", _trace, "show a recorded decode, as text or as a page")
    made.add_argument("file", help="a trace, JSON lines; - is standard input")
    made.add_argument("--other", metavar="FILE", help="a second one next to it; needs --html")
    made.add_argument("--html", metavar="FILE", help="write the page instead")

    made = command("serve", _serve, "serve a model over OpenAI's protocol, with a page that shows decodes")
    made.add_argument("--model", default="tiny", help="tiny, or a GGUF file for llama-cpp-python (%(default)s)")
    made.add_argument("--policy", help="of requests that name none (the word of the model, or threshold(0.9) + stop_at_eos)")
    made.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    made.add_argument("--port", type=int, default=8000, help="0 takes a free one (%(default)s)")
    made.add_argument("--slots", type=int, default=16, metavar="N", help="answers decoded together (%(default)s)")
    made.add_argument("--waiting", type=int, default=512, metavar="N", help="answers that may wait (%(default)s)")
    made.add_argument("--branches", type=int, default=0, metavar="N",
                      help="lookahead branches of an answer, each a sequence more (%(default)s)")
    made.add_argument("--threads", type=int, default=1, metavar="N", help="of the model and of the reads (%(default)s)")
    made.add_argument("--time-limit", type=float, default=600.0, metavar="SECONDS", help="of an answer (%(default)s)")
    made.add_argument("--max-forwards", type=int, metavar="N",
                      help="forward passes that an answer may take (512, and 32 for each of its positions)")
    made.add_argument("--log-level", default="info", choices=("critical", "error", "warning", "info", "debug"),
                      help="of the log on stderr; info has a line for each request (%(default)s)")
    made.add_argument("--api-key", default=os.environ.get("UNMASK_API_KEY"), metavar="KEY",
                      help="clients must give it; default: the environment's UNMASK_API_KEY")
    return parser


def _parts(options: argparse.Namespace) -> None:
    _list("part", describe_parts(), options.name)


def _models(options: argparse.Namespace) -> None:
    _list("model", describe_models(), [n if n.startswith("model:") else f"model:{n}" for n in options.name])


def _list(kind: str, table: str, names: Sequence[str]) -> None:
    """Prints the entries of a table, all or those with these names; an entry begins a line, and its text is indented."""
    known: dict[str, str] = {}
    name = ""
    for line in table.splitlines():
        if line and not line.startswith(" "):
            name = line.split("(")[0].strip()
            known[name] = line
        elif name:
            known[name] += "\n" + line
    for wanted in names:
        if wanted not in known:
            near = difflib.get_close_matches(wanted, known, 3)
            raise ValueError(f"there is no {kind} '{wanted}'" + (f"; did you mean {', '.join(near)}?" if near else ""))
    print("\n".join(known[n].rstrip() for n in names or known))


def _decode(options: argparse.Namespace) -> None:
    from .tiny_llada import END, MASK, TinyLlada, decode, problems, token_text

    tasks = problems()
    if not 0 <= options.task < len(tasks):
        raise ValueError(f"--task must be at least 0 and at most {len(tasks) - 1}, got {options.task}")
    task = tasks[options.task] if options.prompt is None else {"prompt": options.prompt}
    steps = 0

    def shown(token: int) -> str:
        return "." if token == END else "_" if token == MASK else token_text(int(token))

    def show(tokens: Any, written: list[Any]) -> None:
        nonlocal steps
        if steps == 0:
            print(f"{task['prompt']}\npass  new  _ is masked, . an EOS token")
        steps += 1
        print(f"{steps:4} {len(written):4}  {''.join(map(shown, tokens))}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        trace = options.trace or (options.html and str(pathlib.Path(folder) / "decode.jsonl")) or False
        model = TinyLlada()
        start = time.perf_counter()
        answer = decode(model, options.policy, task["prompt"], seed=options.seed, trace=trace, show=show)
        seconds = time.perf_counter() - start
        if options.html:
            TraceView(trace).save(options.html)
    report = answer.report
    verdict = ""
    if "answer" in task:
        verdict = ", right" if answer.text == task["answer"] else f", not {task['answer']}"
    print(f"{answer.text}{verdict}")
    print(f"{report.forwards} forward passes, {report.tokens_per_forward:.2f} tokens a pass, "
          f"{1000 * seconds:.0f} ms with the model in NumPy")


def _tune(options: argparse.Namespace) -> None:
    from .tiny_llada import TinyLlada, decode, problems

    tasks = problems()
    if not 8 <= options.problems <= len(tasks):
        raise ValueError(f"--problems must be at least 8 and at most {len(tasks)}, got {options.problems}")
    stride = len(tasks) / options.problems  # some of each kind
    tasks = [tasks[int(i * stride)] for i in range(options.problems)]
    model = TinyLlada()

    def run(policy: str, chosen: list[int]) -> list[Decoded]:
        results = []
        for i in chosen:
            answer = decode(model, policy, tasks[i]["prompt"])
            results.append(Decoded(answer.text == tasks[i]["answer"], forwards=answer.report.forwards))
            progress.answers += 1
            progress.show()
        return results

    with _interrupted_by_sigterm(), _Progress() as progress:
        found = tune(run, problems=options.problems, target=options.target, depth=options.depth, progress=progress,
                     resume=options.resume, engine="the tiny LLaDA of the package")
    print(found.best.policy)
    if found.stopped:
        print("stopped early: the best so far" +
              (f"; the same command goes on from {options.resume}" if options.resume else ""))
    if not found.reaches:
        print(f"no policy is sure to reach {options.target:g}; this is the most accurate")
    low, high = found.checked.share
    print(f"{found.checked.right} of {found.checked.problems} right on tasks that the search did not see "
          f"({low:.2f} to {high:.2f}), {found.checked.mean.forwards:.2f} forward passes")
    print(f"single rule: {found.rival.policy}, {found.rival.right} right, {found.rival.mean.forwards:.2f} passes")


class _Progress:
    """Shows how far a search is: on a terminal in one line, elsewhere a line every few seconds. Its numbers only grow."""

    def __init__(self) -> None:
        self.answers = 0  # that were decoded
        self.stage = ""
        self.live = sys.stderr.isatty()
        self.every = 0.2 if self.live else 5.0
        self.shown = time.monotonic()
        self.policies = 0

    def __call__(self, stage: str, done: int, of: int) -> None:
        self.policies += 1
        self.stage = f"{stage}, {done} of {of}"
        self.show()

    def show(self) -> None:
        now = time.monotonic()
        if now - self.shown >= self.every:
            self.shown = now
            self.write()

    def write(self) -> None:
        text = f"{self.policies} policies, {self.answers} answers decoded" + (f" ({self.stage})" if self.stage else "")
        print(f"\r\x1b[K{text}" if self.live else text, end="" if self.live else "\n", file=sys.stderr, flush=True)

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.write()
        if self.live:
            print(file=sys.stderr)


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM ends what runs as Ctrl-C does."""
    def interrupt(*of: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _trace(options: argparse.Namespace) -> None:
    text = sys.stdin.read() if options.file == "-" else pathlib.Path(options.file).read_text(encoding="utf-8")
    if options.html:
        TraceView(text, options.other).save(options.html)
        return
    if options.other:
        raise ValueError("--other needs --html: text shows one trace")
    for line in summary(text):
        print(line)


def _serve(options: argparse.Namespace) -> None:
    for name, least in (("slots", 1), ("waiting", 1), ("branches", 0), ("threads", 1), ("port", 0)):
        if getattr(options, name) < least:
            raise ValueError(f"--{name} must be at least {least}, got {getattr(options, name)}")
    if not options.time_limit > 0:
        raise ValueError(f"--time-limit must be positive, got {options.time_limit:g}")
    if options.max_forwards is not None and options.max_forwards < 1:
        raise ValueError(f"--max-forwards must be at least 1, got {options.max_forwards}")
    try:
        import uvicorn

        from . import serve
    except ImportError as error:
        raise ValueError(f'{error}: in a checkout, pip install "./examples/bindings/python[server]"') from None
    loopback = options.host in ("127.0.0.1", "::1", "localhost")
    level = options.log_level.upper()
    log = logging.getLogger("unmask")
    log.setLevel(level)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    server = serve.Server(
        serve.load(options.model, threads=options.threads),
        policy=options.policy,
        slots=options.slots,
        waiting=options.waiting,
        branches=options.branches,
        threads=options.threads,
        api_key=options.api_key,
        hosts=["127.0.0.1", "[::1]", "localhost"] if loopback else None,  # not the name of another site
        limits=serve.Limits(time=options.time_limit, forwards=options.max_forwards),
    )
    sys.setswitchinterval(0.001)  # between the thread of the passes and the one that reads and writes

    class Said(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                port = self.servers[0].sockets[0].getsockname()[1]
                host = f"[{options.host}]" if ":" in options.host else options.host
                log.info("model %s, policy %s, %d slots, a context of %d tokens, %s. Page http://%s:%d/, API /v1, numbers /metrics",
                         server.model.name, server.policy, options.slots, server.model.context,
                         "a key is needed" if options.api_key is not None else "no key", host, port)

    running = Said(uvicorn.Config(
        server.app, host=options.host, port=options.port, http=serve.http_protocol(server.limits.headers), ws="none",
        log_level=options.log_level, access_log=False, timeout_graceful_shutdown=5))
    with contextlib.suppress(KeyboardInterrupt):
        running.run()
    if not running.started:
        sys.exit(3)


def summary(trace: str) -> Iterator[str]:
    """A trace as text: each step of each sequence, and how it ended."""
    lines = _objects(trace)
    head = next(lines, None)
    if head is None or not str(head.get("format", "")).startswith("unmask-trace/"):
        raise ValueError("the first line of the file is not the head of an unmask-trace")
    mask, texts = head["model"]["mask"], dict(head.get("text", {}))
    yield f"{head['model'].get('name') or 'a model'}: {head['policy'] or 'a policy without a text'}"
    running: dict[int, Any] = {}

    def begin(sequence: dict[str, Any]) -> str:
        shape, slot = sequence["shape"], sequence["slot"]
        tokens = list(sequence["tokens"])
        tokens[shape["prompt_length"]:] = [
            t if p in {*sequence.get("fixed", []), *sequence.get("committed", []), *sequence.get("filled", [])} else mask
            for p, t in enumerate(tokens[shape["prompt_length"]:], shape["prompt_length"])]
        running[slot] = shape["prompt_length"], tokens
        prompt = shown(tokens[: shape["prompt_length"]])
        own = f" under {sequence['policy']}" if "policy" in sequence else ""
        return (f"slot {slot}: {shape['length'] - shape['prompt_length']} positions in blocks of "
                f"{shape['block_length']}{own} after: {prompt}")

    def shown(tokens: list[int]) -> str:
        if not texts:
            return " ".join("_" if t == mask else str(t) for t in tokens)
        return "".join("_" if t == mask else texts.get(str(t), f"<{t}>") for t in tokens)

    for sequence in head["sequences"]:
        yield begin(sequence)
    yield "slot step  new  least probable  answer"
    for line in lines:
        texts.update(line.get("text", {}))
        if "start" in line:
            yield begin(line["start"])
        elif "step" in line:
            first, tokens = running[line["slot"]]
            written, least = 0, 1.0
            for p, token, outcome, confidence in zip(
                    line["position"], line["token"], line["outcome"], line["confidence"]):
                if outcome in "cfew":
                    tokens[p] = token
                    written += 1
                    least = min(least, 0.0 if confidence is None else confidence)
                elif outcome == "r":
                    tokens[p] = mask
            yield f"{line['slot']:4} {line['step']:4} {written:4}  {least:14.3f}  {shown(tokens[first:])}"
        elif "end" in line:
            first, _ = running[line["slot"]]
            yield (f"slot {line['slot']}: {line['end']} after {line['forwards']} forward passes, "
                   f"{line['committed']} tokens: {shown(line['tokens'][first:])}")


def _objects(trace: str) -> Iterator[dict[str, Any]]:
    """The lines up to one that was cut."""
    for line in trace.splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


if __name__ == "__main__":
    sys.exit(main())

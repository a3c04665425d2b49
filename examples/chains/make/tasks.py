# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Problems whose answers fill the canvas: generators, the split into sets, and a checker for each task.

A generator takes a random.Random and returns a Problem. What its canvas shows at the start is `given`, with _ for a
masked position; `answer` is one right answer.
"""
import collections, functools, json, random, sys, zlib

MASK, EOS, BOS = 0, 1, 2
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789+-*=;,:> "
VOCAB = 3 + len(ALPHABET)
CODE = {c: 3 + i for i, c in enumerate(ALPHABET)} | {"_": MASK}
SEEDS = {"test": 2026, "validation": 1979, "training": 7}

Problem = collections.namedtuple("Problem", "task prompt given answer key")   # key: what decides the set

def encode(s): return [CODE[c] for c in s]
def decode(ids): return "".join("_" if i == MASK else "" if i < 3 else ALPHABET[i - 3] for i in ids)

def set_of(key):
    """'test' or 'validation', a sixteenth each, or 'training': by a hash of what the problem asks."""
    return {0: "test", 1: "validation"}.get(zlib.crc32(key.encode()) * 2654435761 % 2 ** 32 >> 28, "training")

def apply(op, x, y): return (x + y if op == "+" else x - y if op == "-" else x * y) % 10

def trace(r):
    """Statements on digits modulo 10, each on the variable before it: a=3;b=a+4:7;c=b*a:1; with the results to fill in."""
    n = r.randint(10, 16); names = "abcdefghijklmnop"[:n]; values = [r.randrange(10)]; given = answer = f"a={values[0]};"
    for i in range(1, n):
        op = r.choice("+-*"); two_back = i > 1 and r.random() < 0.3; y = values[i - 2] if two_back else r.randrange(10)
        values.append(apply(op, values[i - 1], y)); statement = f"{names[i]}={names[i - 1]}{op}{names[i - 2] if two_back else y}:"
        given += statement + "_;"; answer += f"{statement}{values[i]};"
    return Problem("trace", "trace:", given, answer, given)

def waiting(r):
    """A total modulo 100 over 48 statements: 42+7=49-5=44:3=03..., where :3 sets it to 3; the two digits after each = are to fill in."""
    total = r.randrange(100); given = answer = f"{total:02}"
    for _ in range(47):
        op, y = r.choice("+-") if r.randrange(16) else ":", r.randrange(10); total = y if op == ":" else (total + y if op == "+" else total - y) % 100
        given += f"{op}{y}=__"; answer += f"{op}{y}={total:02}"
    return Problem("waiting", "total:", given, answer, given)

def distances(edges, start):
    """Distance from `start` by breadth-first search, and for each node those before it on a shortest path."""
    near = collections.defaultdict(list)
    for a, b in edges: near[a].append(b); near[b].append(a)
    far, before, queue = {start: 0}, collections.defaultdict(list), collections.deque([start])
    while queue:
        a = queue.popleft()
        for b in near[a]:
            if b not in far: far[b] = far[a] + 1; queue.append(b)
            if far[b] == far[a] + 1: before[b].append(a)
    return far, before

def path(r):
    """Shortest paths between pairs of nodes of one undirected graph, the ends given; several may be right."""
    nodes = r.randint(5, 7); names = r.sample("abcdefghij", nodes); edges = {(names[i], names[r.randrange(max(0, i - 3), i)]) for i in range(1, nodes)}
    while len(edges) < nodes + 1:
        a, b = r.sample(names, 2)
        if (b, a) not in edges: edges.add((a, b))
    edges = sorted(edges | {(b, a) for a, b in edges}); r.shuffle(edges); given, answer = [], []
    for a, b in r.sample([(a, b) for a in names for b in names if a != b], nodes * (nodes - 1)):
        far, before = distances(edges, a)
        if far[b] < 2 or len(given) == 8: continue
        route = [b]
        while route[-1] != a: route.append(r.choice(before[route[-1]]))
        answer.append("".join(reversed(route))); given.append(a + "_" * (far[b] - 1) + b)
    p = "path:" + ",".join(a + b for a, b in edges) + ":"; g = ",".join(given)
    return Problem("path", p, g, ",".join(answer), p + g)

@functools.lru_cache(None)
def reachable(numbers):
    """target: ways of three numbers, each used once, by two operations: results are positive and at most 99."""
    found = collections.defaultdict(set)
    def results(x, y):
        yield "+", x, y, x + y; yield "*", x, y, x * y
        if x > y: yield "-", x, y, x - y
    for i in range(3):
        for j in range(3):
            if i != j:
                for op, x, y, v in results(numbers[i], numbers[j]):
                    z = numbers[3 - i - j]
                    for a, b in ((v, z), (z, v)):
                        for op2, x2, y2, w in results(a, b):
                            if v <= 99 and 10 <= w <= 99: found[w].add(f"{x}{op}{y}={v};{x2}{op2}{y2}={w}")
    return {k: sorted(v) for k, v in found.items()}

def reach(r, which="training"):
    """Countdown: two operations that make the target of three numbers, 379>30:3+7=10;... with the = and the target given."""
    given, answer = [], []
    while len(given) < 5:
        numbers = tuple(sorted(r.randint(1, 9) for _ in range(3))); ways = reachable(numbers)
        if not ways: continue
        target = r.choice(sorted(ways))
        if set_of(f"{numbers}>{target}") != which: continue
        shown = list(numbers); r.shuffle(shown); head = "".join(map(str, shown)) + f">{target}:"; way = r.choice(ways[target])
        first, second = way.split(";"); blank = "".join("=" if c == "=" else "_" for c in first) + ";" + "_" * second.index("=") + second[second.index("="):]
        given.append(head + blank); answer.append(head + way)
    g = ",".join(given)
    return Problem("reach", "reach:", g, ",".join(answer), g)

def items(r): return r.sample("abcdefghijklmnopqrstuvwxyz0123456789", r.randint(10, 20))

def listed(name, x, y): p = name + ":" + "".join(x) + ":"; return Problem(name, p, "_" * len(y), "".join(y), "".join(x))

def copy(r): x = items(r); return listed("copy", x, x)
def sort(r): x = items(r); return listed("sort", x, sorted(x))
def shuffle(r): x = items(r); return listed("shuffle", x, r.sample(x, len(x)))

TASKS = dict(trace=trace, path=path, reach=reach, copy=copy, sort=sort, shuffle=shuffle, waiting=waiting)
JUDGED = dict(trace=None, path=(4, 8), reach=(1, 1), copy=None, sort=None, shuffle=None)   # of the chains model, and the pieces that a problem keeps
WAITING = dict(waiting=None)                                                               # of the waiting one
CHECKERS = dict(path="shortest_paths", reach="countdown", shuffle="other_order")            # of the others one answer is right

def problem(r, task, which, pieces):
    """A problem of the test or the validation set: as in the training, or the first pieces of one."""
    while True:
        p = reach(r, which) if task == "reach" else TASKS[task](r)
        if task == "reach" or set_of(p.key) == which: break   # of reach each piece belongs to the set
    if pieces:
        n = r.randint(*pieces); p = p._replace(**{k: ",".join(getattr(p, k).split(",")[:n]) for k in ("given", "answer")})
    return p

def problems(which, count, seed=None, judged=JUDGED):
    """That many different problems of each task and of a set, always the same for a seed; the tasks in turn."""
    found = {task: [] for task in judged}; seen = set()
    for task, kept in found.items():
        r = random.Random(f"{SEEDS[which] if seed is None else seed} {task}")
        while len(kept) < count:
            p = problem(r, task, which, judged[task])
            if (p.prompt, p.given) not in seen: seen.add((p.prompt, p.given)); kept.append(p)
    return [p for group in zip(*found.values()) for p in group]

def write(name, chosen):
    with open(name, "w", encoding="ascii") as file:
        for p in chosen:
            right = dict(checker=CHECKERS[p.task]) if p.task in CHECKERS else dict(answer=p.answer)
            file.write(json.dumps(dict(task=p.task, prompt=p.prompt, given=p.given, **right)) + "\n")

if __name__ == "__main__": write(sys.argv[1], problems(sys.argv[2], int(sys.argv[3]), *map(int, sys.argv[4:])))

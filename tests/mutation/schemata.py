#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rewrites headers so that one program has all mutants of them (Untch, Offutt and Harrold, 1993).

A mutable expression E becomes `(mutants::on(7) ? (mutant of E) : (E))` and a removable statement S
becomes `{ if (!mutants::on(8)) { S } }`. tests/mutation/mutants.hpp selects the number at run time.
"""
import bisect
import os
import re

from clang.cindex import CursorKind as K
from clang.cindex import Index, TypeKind

# Replacements of an operator: boundary and negation of relations, and one other for the rest.
OPERATORS = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="],
    "!=": ["=="], "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"],
    "%": ["*"], "&": ["|"], "|": ["&"], "^": ["&"], "<<": [">>"], ">>": ["<<"], "+=": ["-="],
    "-=": ["+="], "*=": ["/="], "/=": ["*="], "&=": ["|="], "|=": ["&="], "^=": ["&="],
    "<<=": [">>="], ">>=": ["<<="],
}
for unknown in range(1, 700):  # the kinds that the bindings have no name for
    try:
        K.from_id(unknown)
    except ValueError:
        K(unknown)
# Of such a constant the initialiser is a constant expression if it can be one, in which no mutant is
# selected: it is written without `const`.
WHOLE_NUMBERS = {TypeKind.BOOL, TypeKind.UCHAR, TypeKind.USHORT, TypeKind.UINT, TypeKind.ULONG,
                 TypeKind.ULONGLONG, TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.SHORT, TypeKind.INT,
                 TypeKind.LONG, TypeKind.LONGLONG, TypeKind.ENUM}
RELATIONS = {"<", "<=", ">", ">=", "==", "!="}
# What has code of its own below it; everything else outside functions is a constant or a type.
SCOPES = {K.TRANSLATION_UNIT, K.NAMESPACE, K.LINKAGE_SPEC, K.CLASS_DECL, K.STRUCT_DECL,
          K.CLASS_TEMPLATE, K.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION, K.FRIEND_DECL}
FUNCTIONS = {K.FUNCTION_DECL, K.FUNCTION_TEMPLATE, K.CXX_METHOD, K.CONSTRUCTOR, K.DESTRUCTOR,
             K.CONVERSION_FUNCTION, K.LAMBDA_EXPR}
LOOPS_AND_CHOICES = {K.WHILE_STMT, K.IF_STMT, K.CONDITIONAL_OPERATOR}


class Source:
    """One header: its mutants by range, and the text with them."""

    def __init__(self, path, name):
        self.name = name
        with open(path, "rb") as file:
            self.text = file.read()
        self.mutants = {}  # (begin, end) -> [(kind, replacement, None for a removal)]
        self.spans = []    # of the rewritten text: (begin, end, numbers), the inner ones last
        self.constants = []  # (place of `const`, begin, end) of whole numbers and their initialisers

    def add(self, kind, begin, end, replacement):
        if b"\n#" not in self.text[begin:end]:
            entry = (kind, replacement)
            entries = self.mutants.setdefault((begin, end), [])
            if entry not in entries:
                entries.append(entry)

    def line(self, offset):
        return self.text.count(b"\n", 0, offset) + 1


def between(source, left, right):
    """The operator that stands between two operands, or ""."""
    text = source.text[left.extent.end.offset:right.extent.start.offset].decode()
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S).strip(" \n)(")
    return text if text in OPERATORS else ""


def text_of(source, cursor):
    return source.text[cursor.extent.start.offset:cursor.extent.end.offset]


def operands(source, cursor):
    """The operands of an operator; in a template it may be a call, with the operator's name."""
    return [c for c in cursor.get_children() if text_of(source, c).decode() not in OPERATORS]


def stripped(cursor):
    while cursor.kind in (K.PAREN_EXPR, K.UNEXPOSED_EXPR):
        children = list(cursor.get_children())
        if len(children) != 1:
            break
        cursor = children[0]
    return cursor


def operator_of(source, cursor):
    if cursor.kind in (K.BINARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR, K.CALL_EXPR):
        both = operands(source, cursor)
        if len(both) == 2 and both[0].extent.end.offset <= both[1].extent.start.offset:
            return between(source, *both)
    return ""


def is_negatable(source, cursor):
    """False where another mutant is the negation."""
    inner = stripped(cursor)
    return not (operator_of(source, inner) in RELATIONS or inner.kind == K.CXX_BOOL_LITERAL_EXPR or
                text_of(source, inner).startswith(b"!"))


def literal(text):
    number = re.fullmatch(rb"(\d+|\d+\.\d*|0x[\da-f]+)([uUlLzZ]*|[fF])", text)
    if number is None:  # 0x1.8p+0F and the like
        return b"(" + text + b" + 1)"
    value, suffix = number.groups()
    if float(int(value, 0) if value[:2] == b"0x" else float(value)) in (0.0, 1.0):
        one, zero = (b"1.0", b"0.0") if b"." in value else (b"1", b"0")
        return (one if float(value) == 0 else zero) + suffix
    return b"(" + text + b" + 1)"


def mutate(source, cursor, returns_reference):
    """Adds the mutants of one expression or statement."""
    begin, end = cursor.extent.start.offset, cursor.extent.end.offset
    text = text_of(source, cursor)
    children = list(cursor.get_children())
    operator = operator_of(source, cursor)
    if operator:
        left, right = operands(source, cursor)
        for other in OPERATORS[operator]:
            head = source.text[begin:left.extent.end.offset]
            gap = source.text[left.extent.end.offset:right.extent.start.offset]
            tail = source.text[right.extent.start.offset:end]
            changed = gap.replace(operator.encode(), other.encode(), 1)
            source.add(f"{operator} to {other}", begin, end, head + changed + tail)
    elif cursor.kind == K.UNARY_OPERATOR and text[:1] in (b"!", b"-") and text[:2] != b"--":
        source.add(f"without {text[:1].decode()}", begin, end, text[1:])
    elif cursor.kind in (K.INTEGER_LITERAL, K.FLOATING_LITERAL) and text[:1].isdigit():
        source.add("constant", begin, end, literal(text.lower() if b"X" in text else text))
    elif cursor.kind == K.CXX_BOOL_LITERAL_EXPR:
        source.add("constant", begin, end, b"false" if text == b"true" else b"true")
    elif cursor.kind in LOOPS_AND_CHOICES and children[0].kind.is_expression():
        if is_negatable(source, children[0]):
            where = children[0].extent
            source.add("negated condition", where.start.offset, where.end.offset,
                       b"!(" + text_of(source, children[0]) + b")")
    elif cursor.kind == K.RETURN_STMT and children and not returns_reference:
        is_value = not text_of(source, children[0]).startswith((b"{", b"["))
        if is_value and is_negatable(source, children[0]):
            where = children[0].extent
            source.add("other result", where.start.offset, where.end.offset,
                       b"mutants::other(" + text_of(source, children[0]) + b")")
    elif cursor.kind == K.COMPOUND_STMT:
        for child in children:
            first, last = child.extent.start.offset, child.extent.end.offset
            is_exit = child.kind in (K.BREAK_STMT, K.CONTINUE_STMT) or (
                child.kind == K.RETURN_STMT and not list(child.get_children()))
            is_void = re.match(rb"static_cast<void>\(\w+\)$", source.text[first:last])
            is_assert = source.text[first:last].startswith(b"assert(")
            if (is_exit or child.kind.is_expression()) and not is_void and not is_assert:
                semicolon = source.text.index(b";", last - 1) + 1
                source.add("removed", first, semicolon, None)


def walk(source, cursor, returns_reference=False):
    """Adds the mutants of a function's body."""
    if cursor.kind in (K.STATIC_ASSERT, K.DECL_REF_EXPR, K.CLASS_DECL, K.STRUCT_DECL, K.TYPE_ALIAS_DECL):
        return  # constants, template arguments
    begin = cursor.extent.start.offset
    text = text_of(source, cursor)
    children = list(cursor.get_children())
    if text.startswith((b"requires", b"sizeof", b"noexcept(", b"decltype", b"assert(")):
        return
    if cursor.kind == K.VAR_DECL:
        name = cursor.location.offset
        if re.search(rb"\bconst(expr|init)\b", source.text[begin:name]):
            return
        bound = re.match(rb"\w+(\[[^\]]*\])?", source.text[name:])
        if text.startswith(b"const ") and cursor.type.get_canonical().kind in WHOLE_NUMBERS:
            source.constants.append((begin, name, cursor.extent.end.offset))
        children = [c for c in children if c.extent.start.offset >= name + bound.end()]
    elif cursor.kind in FUNCTIONS:
        children = [c for c in children if c.kind == K.COMPOUND_STMT and
                    text_of(source, c).startswith(b"{")]  # not of `= default`
        returns_reference = cursor.result_type.kind == TypeKind.LVALUEREFERENCE
        if b"consteval" in text[:text.find(b"{")]:
            return
    elif cursor.kind == K.IF_STMT and re.match(rb"if\s+constexpr", text):
        cursor, children = None, children[1:]
    elif cursor.kind == K.MEMBER_REF_EXPR:
        children = children[:1]
    if cursor is not None:
        mutate(source, cursor, returns_reference)
    for child in children:
        walk(source, child, returns_reference)


def visit(cursor, sources):
    for child in cursor.get_children():
        file = child.location.file
        if file is None or file.name not in sources:
            continue
        if child.kind in FUNCTIONS:
            walk(sources[file.name], child)
        elif child.kind in SCOPES:
            visit(child, sources)


def read(headers, root, flags):
    """The headers with their mutants; `headers` are paths below `root`/include."""
    unit = "".join(f"#include <{h}>\n" for h in headers)
    tree = Index.create().parse("headers.cpp", ["-std=c++20", f"-I{root}/include", *flags],
                                [("headers.cpp", unit)])
    errors = [d for d in tree.diagnostics if d.severity >= 3]
    if errors:
        raise SystemExit(f"clang: {errors[0]}")
    sources = {f"{root}/include/{h}": Source(f"{root}/include/{h}", h) for h in headers}
    visit(tree.cursor, sources)
    return sources


def numbered(sources):
    """All mutants in order of file and place: (source, begin, end, kind, replacement)."""
    return [(source, *where, *mutant) for source in sources.values()
            for where in sorted(source.mutants) for mutant in source.mutants[where]]


def rewritten(source, mutants, dropped):
    """The text of a header with its mutants, {number: (source, begin, end, kind, replacement)}."""
    ranges = {}
    for number, (_, begin, end, _, replacement) in mutants.items():
        if number not in dropped:
            ranges.setdefault((begin, end, replacement is None), []).append((number, replacement))
    # Outer ranges first; of two that are the same, the statement.
    order = sorted(ranges, key=lambda r: (r[0], -r[1], not r[2]))
    text = bytearray(source.text)
    for place, begin, end in source.constants:
        if any(begin <= r[0] < end for r in order):
            text[place:place + len(b"const")] = b"     "
    out = bytearray()
    source.spans = []

    def emit(begin, end, at):
        """Writes source.text[begin:end] with the ranges from order[at] on; returns the next one."""
        while at < len(order) and order[at][0] < end:
            inner = order[at]
            out.extend(text[begin:inner[0]])
            start = len(out)
            is_negated = False
            out.extend(b"" if inner[2] else b"(")
            for number, replacement in ranges[inner]:
                if replacement is None:
                    out.extend(b"{ if (!mutants::on(%d)) { " % number)
                else:
                    mark = len(out)
                    out.extend(b"mutants::on(%d) ? (%b) : " % (number, replacement))
                    source.spans.append((mark, len(out), [number]))
                    is_negated = is_negated or replacement.startswith(b"!(")
            if not inner[2]:
                out.extend(b"static_cast<bool>(" if is_negated else b"(")
            at = emit(inner[0], inner[1], at + 1)
            out.extend(b" } }" if inner[2] else b"))")
            source.spans.append((start, len(out), [n for n, _ in ranges[inner]]))
            begin = inner[1]
        out.extend(text[begin:end])
        return at

    emit(0, len(source.text), 0)
    once = b"#pragma once\n"
    shift = out.index(once) + len(once)
    include = b"#include <mutants.hpp>\n"
    out[shift:shift] = include
    source.spans = [(b + len(include), e + len(include), n) for b, e, n in source.spans]
    return bytes(out)


def blamed(source, text, line, column):
    """Numbers of the mutants at a place of a rewritten header: of the smallest range around it."""
    starts = [0] + [m.end() for m in re.finditer(b"\n", text)]
    offset = starts[line - 1] + column - 1
    around = [s for s in source.spans if s[0] <= offset < s[1]]
    if not around:  # the construct around it: all that begin on the line
        following = starts[line] if line < len(starts) else len(text)
        around = [s for s in source.spans if starts[line - 1] <= s[0] < following]
        return sorted({n for s in around for n in s[2]})
    return min(around, key=lambda s: s[1] - s[0])[2]


def write(sources, mutants, dropped, folder):
    """Writes the rewritten headers below `folder`; returns the texts by name."""
    texts = {}
    for source in sources.values():
        own = {n: m for n, m in mutants.items() if m[0] is source}
        texts[source.name] = rewritten(source, own, dropped)
        path = os.path.join(folder, source.name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "wb") as file:
            file.write(texts[source.name])
        os.replace(path + ".new", path)  # other compilers may be reading
    return texts

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refuses names and words that the library has given up for those of the field.

usage: vocabulary.py [ROOT]
       vocabulary.py --counts [ROOT]    where the patterns of the house style are
       vocabulary.py --self-test

Names: identifiers of the code, also in strings, comments and documents. Words: those of comments and
documents only; some in pages and in the headers that programs include alone. Also how a comment
opens, and how often patterns that .github/STYLE.md advises against occur: each has a ceiling, which only
falls, to the count that a change leaves. include/unmask/GLOSSARY.md has the words in use, with their meaning
and what others call them.
Prints FILE:LINE, the word and the one in its place.
"""
import pathlib
import re
import subprocess
import sys

# Retired name, the name in its place. A name that came to mean something else (top_k) is none.
NAMES = {
    "UNMASK_END_TOKEN": "UNMASK_EOS_TOKEN",
    "UNMASK_STEP_BUDGET": "UNMASK_MAX_STEPS",
    "add_to_ends": "add_to_eos",
    "admission_expression": "commit_rule_expression",
    "admission_leaf": "commit_rule_family",
    "any_admission": "commit_rule_expression",
    "any_delays": "filter_family",
    "any_revision": "logits_processor_family",
    "any_cache": "cache_family",
    "any_commit_rule": "commit_rule_expression",
    "any_filters": "filter_family",
    "any_layer_rule": "layer_rule_family",
    "any_logits_processor": "logits_processor_family",
    "any_ranking": "ranking_family",
    "any_schedule": "schedule_family",
    "any_stops": "stop_family",
    "asked_behind": "hook_follows_layer",
    "attend_first": "keys_first",
    "attend_last": "keys_last",
    "best_tier": "best_instruction_set",
    "blanked_count": "excluded_count",
    "blanked_logits": "excluded_logits",
    "block_open": "block_masked",
    "block_opened": "block_masked_at_first",
    "call_on_tier": "call_on_instruction_set",
    "check_watched": "check_tracked",
    "confidence_above": "threshold",
    "confidence_above_bf16": "threshold_bf16",
    "confidence_at_least": "threshold(inclusive=true)",
    "confidence_of_kept": "confidence_after_truncation",
    "count_penalty": "presence_frequency_penalty",
    "current_watching": "current_tracking",
    "deciding_team": "deciding_group",
    "delay_at": "filter_at",
    "delay_between": "filter_between",
    "delaying_alone": "filters_alone",
    "delaying_beside": "filters_with_neighbours",
    "delays_any": "filters_any",
    "delays_end": "filters_eos",
    "detail_admission": "detail_commit_rule",
    "dinfer_runs": "dinfer_hierarchical",
    "each_tier": "each_instruction_set",
    "edit_settled": "edit_committed",
    "edits_now": "transforms_now",
    "end_last": "eos_last",
    "end_penalty": "eos_penalty",
    "end_token": "eos_token",
    "feed_first": "query_first",
    "feed_last": "query_last",
    "first_open_in": "first_masked_in",
    "goes_together": "composition_rules",
    "has_unwatched": "has_untracked",
    "hold_end": "eos_gate",
    "holds_end": "holds_eos",
    "hopeless": "worst_record",
    "hopeless_rows": "invalid_rows",
    "inquire": "probe",
    "inquires": "is_probe",
    "inquiries": "probes",
    "inquiries_before": "probes_before",
    "inquiries_of": "probes_of",
    "inquiring": "probing",
    "is_barred": "is_excluded",
    "is_delayed": "is_ranked_last",
    "keep_min_p": "min_p",
    "keep_promise": "ensure_progress",
    "keep_top_k": "top_k",
    "keep_top_p": "top_p",
    "layer_questions": "layer_rule_info",
    "layer_tally": "layer_reduction",
    "layer_tally_of": "layer_reduction_of",
    "leaf_admission": "basic_commit_rule",
    "leaf_count": "part_count",
    "leaf_list": "part_list",
    "leaf_total": "part_total",
    "leaf_type": "part_type",
    "logit_edit": "logits_transform",
    "loosely": "alg_temperature",
    "may_reopen": "may_remask",
    "merge_tallies": "merge_step_reductions",
    "most_watched": "most_tracked",
    "needs_runs": "needs_spans",
    "neighbour_guard": "neighbour_penalty",
    "no_edit": "identity",
    "no_end_before": "min_new_tokens",
    "on_tier": "on_instruction_set",
    "one_reopening": "one_remask_current",
    "open_of_eight": "masked_of_eight",
    "open_request": "pending_request",
    "part_edit": "part_transform",
    "part_watches": "part_tracks",
    "profile_place": "calibrated_place",
    "profile_recorder": "threshold_calibrator",
    "profile_threshold": "calibrated_threshold",
    "ranks_in_runs": "ranks_in_spans",
    "remasking_or_reopening": "remasking_in_one_way",
    "reopen_below": "remask_current_below",
    "revise_row": "process_row",
    "revises_settled": "processes_committed",
    "revising_settled": "processing_committed",
    "revision_list": "logits_processor_list",
    "revisits_now": "edits_tokens_now",
    "row_edit": "row_transform",
    "row_meeting": "row_reduction",
    "row_riders": "row_modifiers",
    "row_shift": "logits_shift",
    "run_aware": "span_aware",
    "run_rank": "span_rank",
    "run_rank_of": "span_rank_of",
    "says_watches": "declares_tracks",
    "sequential_blocks": "semi_autoregressive",
    "session_site": "session_device_view",
    "settle_more_than_open": "commit_more_than_remask",
    "settled_share": "committed_share",
    "shard_site": "shard_device_view",
    "skipping_delayed": "skipping_ranked_last",
    "slot_edit": "slot_transform",
    "standing_for": "rank_info_for",
    "standing_in_run": "rank_info_in_span",
    "step_budget": "max_steps",
    "stop_at_end": "stop_at_eos",
    "surveying": "step_reducing",
    "take_out_unwatched": "take_out_untracked",
    "tallies_of": "step_reductions_of",
    "tally_of": "step_reduction_of",
    "token_list": "allowed_tokens",
    "unwatched_": "untracked_",
    "warp_team": "warp_group",
    "was_settled": "was_committed",
    "watch_capacity": "tracked_capacity",
    "watch_ends": "track_eos",
    "watch_list": "tracked_list",
    "watched_": "tracked_",
    "watched_at": "tracked_at",
    "watched_count": "tracked_count",
    "watched_logit": "tracked_logit",
    "watched_logits": "tracked_logits",
    "watched_of": "tracked_of",
    "watches_current": "tracks_current",
    "watches_current_now": "tracks_current_now",
    "watches_of": "tracks_of",
    "watches_with_memory": "tracks_with_memory",
    "whole_sequence": "single_block",
}

# A word of comments and documents, as a regular expression, and the words in its place.
WORDS = {
    r"admissions?": "commit rule",
    r"(un)?settle[sd]?|settling": "commit, committed; masked",
    r"reopen(s|ed|ing)?": "remask",
    r"open (positions?|rows?|ones|tokens?|candidates?)": "masked",
    r"revisit(s|ed|ing)?": "edit committed tokens",
    r"revis(e|es|ed|ing|ions?)": "process the logits, logits processor",
    r"(un)?watch(es|ed)? (tokens?|logits?)": "tracked",
    r"tall(y|ies)": "step reduction",
    r"riders?": "modifiers",
    r"end tokens?": "EOS token",
    r"fed (positions?|rows?|tokens?)": "positions that are run, that enter the pass",
    r"(instruction )?tiers?": "instruction set",
}

# Words for which plain English has another, in pages and in the headers that programs include.
PLAIN = {
    r"behind": "after, past",
    r"beside": "next to, with, compared with, in addition to",
    r"of (one's|your|my|their|its|his) own": "user-defined, separate, another; 'its own ...'",
    r"(whom|who)(so)?ever|whom|nobody": "which, any, none",
    r"asked for": "requested",
    r"surer|surest": "more confident",
}
PLAIN_PATHS = re.compile(r"^(?!tests/|bench/results/).*\.md$|^include/unmask/[^/]*$")
# A comment opens with what the thing is or does.
OPENERS = "What|Whom?|The same|Those|That of|Of|But for|None of"
OPENING = re.compile(rf"^ *///?<? *({OPENERS})(?= )|///< ({OPENERS})(?= )")

# Patterns that the house style advises against, and how often they may occur in pages, in the comments of
# include/, and in its messages, line by line. Some uses are right, such as "as many as" with a noun, so the ceiling is not 0 for all; it only falls.
CEILINGS = {
    r"of wh(?:ich|ose)": (0, 0, 0),
    r"(?:those|that) of": (7, 85, 22),
    r"(?:so|as|that) (?:many|much)": (2, 8, 3),
    r"(?<!there )(?:is|are|be|was|were) no(?= (?!longer))": (0, 3, 1),
    r"(?<=, )too": (2, 1, 0),
    r"but for": (0, 0, 0),
    r"in place of": (0, 0, 0),
    r"stands?": (3, 1, 0),
    r"go(?:es)? (?:with|together|on)": (1, 0, 0),
    r"the same of": (0, 0, 0),
    r"mended|lent|lends?": (0, 0, 0),
    r"besides": (0, 0, 0),
}
STYLED_PAGES = re.compile(r"\.md$")
OPENING_PATHS = re.compile(r"^(include|examples|bench)/")

# Recorded decisions keep the terms of their papers; the rest is somebody else's text or history.
SKIP = re.compile(r"(^|/)(CHANGELOG|GLOSSARY)\.md$|^tests/data/|^tests/vocabulary\.py$|^bench/results/"
                  r"|^examples/tiny_llada/|^tests/(support/golden|goldens)/|\.(gguf|jsonl|svg|csv|json)$|^LICENSE|/llama_cpp/")
CODE = re.compile(r"\.(hpp|cpp|h|c|cu|cuh)$")
NAME = re.compile(r"(?<![A-Za-z0-9_])(" + "|".join(sorted(NAMES, key=len, reverse=True)) +
                  r")(?![A-Za-z0-9_])")
COMMENT = re.compile(r"//(.*)$")
MESSAGE = re.compile(r'"((?:[^"\\]|\\.)* (?:[^"\\]|\\.)*)"')  # a string with a blank


def words(table):
    return re.compile(r"(?<![\w`-])(?:" + "|".join(f"(?P<w{i}>{w})" for i, w in enumerate(table)) +
                      r")(?![\w`(])", re.IGNORECASE)


WORD, PLAIN_WORD, STYLE = words(WORDS), words(PLAIN), words(CEILINGS)


def complaints(path, text):
    """Of one file: (line, word, the one in its place)."""
    for number, line in enumerate(text.split("\n"), 1):
        for m in NAME.finditer(line):
            yield number, m.group(1), NAMES[m.group(1)]
        comment = COMMENT.search(line) if CODE.search(path) else re.match("(.*)", line) \
            if path.endswith(".md") else None
        text = re.sub(r"`[^`]*`", "``", comment.group(1)) if comment else ""
        for table, pattern in ((WORDS, WORD), (PLAIN, PLAIN_WORD if PLAIN_PATHS.search(path) else None)):
            for m in pattern.finditer(text) if pattern else ():
                yield number, m.group(0), list(table.values())[int(m.lastgroup[1:])]
        opening = OPENING.search(line) if CODE.search(path) and OPENING_PATHS.search(path) else None
        if opening:
            yield number, opening.group(1) or opening.group(2), "a comment opens with what the thing is or does"


def occurrences(path, text):
    """Of one file: (line, index of the pattern in CEILINGS, 0 for a page, 1 for a comment, 2 for a message)."""
    is_page = bool(STYLED_PAGES.search(path))
    if not is_page and not (path.startswith("include/") and CODE.search(path)):
        return
    is_code = False
    for number, line in enumerate(text.split("\n"), 1):
        is_code = is_code != line.startswith("```")
        comment = COMMENT.search(line)
        texts = [(0, line)] if is_page and not is_code else [(1, comment.group(1))] if comment else []
        if not is_page and not comment and not line.startswith("#"):
            texts = [(2, " ".join(MESSAGE.findall(line)))]
        for kind, text in texts if not (is_page and is_code) else ():
            for m in STYLE.finditer(re.sub(r"`[^`]*`", "``", text)):
                yield number, int(m.lastgroup[1:]), kind


def self_test():
    assert [c[1] for c in complaints("a.hpp", "x.row_shift;  // an admission\n")] == ["row_shift", "admission"]
    assert not list(complaints("a.hpp", "int admission;  // commits\n"))
    assert [c[1] for c in complaints("include/unmask/a.hpp", "/// Positions behind it, of its own.\n")] == \
        ["behind", "of its own"]
    assert not list(complaints("include/unmask/core/a.hpp", "int x;  // behind\n"))
    assert not list(complaints("include/unmask/a.hpp", "int behind;  // keeps its own\n"))
    assert [c[1] for c in complaints("bench/a.hpp", "  /// What it did.\nint x;  ///< What. Whatever\n")] == ["What"]
    assert [c[0] for c in complaints("a.md", "fine\nan open position, `open position`\n")] == [2]
    assert [c[1] for c in complaints("bench/a.hpp", "/// The same of it.\nint x;  ///< The sum.\n")] == ["The same"]
    page = "Rows of which one, `of which`, is no row.\n```cpp\n// of which\n```\nbut for this, too\n"
    assert [c[0] for c in occurrences("a.md", page)] == [1, 1, 5, 5]
    assert [c[2] for c in occurrences("include/a.hpp", "x;  // of which\nof_which;\n")] == [1]
    assert not list(occurrences("tests/a.hpp", "x;  // of which\n"))
    assert [c[::2] for c in occurrences("include/a.hpp", 'f("it is no part of it");\ng("of_which");\n')] == [(1, 2)]


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    given = [a for a in sys.argv[1:] if a != "--counts"]
    root = pathlib.Path(given[0] if given else pathlib.Path(__file__).parent.parent)
    files = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True,
                           check=False).stdout.split("\n")
    if not any(files):  # an archive
        files = [str(f.relative_to(root)) for f in root.rglob("*") if f.is_file()]
    found = 0
    counts = [[0, 0, 0] for _ in CEILINGS]
    for path in files:
        if not path or SKIP.search(path):
            continue
        try:
            text = (root / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        for line, word, better in complaints(path, text):
            print(f"{path}:{line}: '{word}' is retired: {better}")
            found += 1
        for line, i, kind in occurrences(path, text) if path != ".github/STYLE.md" else ():
            counts[i][kind] += 1
            if "--counts" in sys.argv:
                print(f"{path}:{line}: {list(CEILINGS)[i]}")
    for (pattern, ceilings), count in zip(CEILINGS.items(), counts):
        for kind, name in enumerate(("pages", "comments of include/", "messages of include/")):
            if count[kind] > ceilings[kind]:
                print(f"'{pattern}' is {count[kind]} times in {name}, at most {ceilings[kind]}: .github/STYLE.md has the"
                      f" words instead, --counts the places")
                found += 1
            elif count[kind] < ceilings[kind]:
                print(f"'{pattern}' is {count[kind]} times in {name}: lower its ceiling of {ceilings[kind]} in CEILINGS")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

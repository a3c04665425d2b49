# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decoding policies for masked diffusion language models, for engines in Python.

An engine computes logits; a policy, composed by name, decides which positions to fill with which
tokens. Three ways in, by who owns the loop:

Session   asks the engine for forward passes: any number of sequences, any schedule, caches.
Block     decides one block of one request in a loop that the host owns.
Decider   (logits, tokens, mask) -> (tokens, transfer), for loops with a `get_transfer_index`.

decide() answers typed questions about a prompt in one forward pass, with a probability for each option: no
policy takes part.

Recorder is a session that keeps rollouts for trainers; read() reads rows of logits alone.
unmask.constraints makes answers obey a JSON Schema, a regular expression or a list of choices.

rule(), ranking(), filter() and stop() make functions of NumPy arrays parts of policies.

TraceView shows a recorded decode in a notebook. tune() searches for a policy; a Calibrator makes the
profile of one. unmask.tiny_llada is a small model to try policies with; `python -m unmask --help` does
so without a program.
"""
from ._unmask import (
    Calibrator,
    Candidate,
    Commit,
    Comparison,
    Constraint,
    Decoded,
    Ending,
    Eviction,
    Field,
    Language,
    LayerRule,
    Model,
    OperatingPoint,
    Outcome,
    Plan,
    Probability,
    Report,
    Request,
    Requirements,
    Segment,
    Session,
    Tuned,
    Vocabulary,
    describe_models,
    describe_parts,
    find_model,
    model_of,
    models,
    policy_parts,
    requirements,
    score_keys,
    tune,
)
from ._unmask import version as __version__
from .block import Block
from .decider import Decider
from .decisions import Decision, decide
from ._parts import FilterResult, Step, filter, ranking, rule, stop
from ._read import Rows, read
from .rollout import Recorder, Rollout
from .trace_view import TraceView

__all__ = [
    "Block",
    "Calibrator",
    "Candidate",
    "Commit",
    "Comparison",
    "Constraint",
    "Decider",
    "Decision",
    "Decoded",
    "Ending",
    "Eviction",
    "Field",
    "FilterResult",
    "Language",
    "LayerRule",
    "Model",
    "OperatingPoint",
    "Outcome",
    "Plan",
    "Probability",
    "Recorder",
    "Report",
    "Request",
    "Requirements",
    "Rollout",
    "Rows",
    "Segment",
    "Session",
    "Step",
    "TraceView",
    "Tuned",
    "Vocabulary",
    "__version__",
    "decide",
    "describe_models",
    "describe_parts",
    "filter",
    "find_model",
    "model_of",
    "models",
    "policy_parts",
    "ranking",
    "read",
    "requirements",
    "rule",
    "score_keys",
    "stop",
    "tune",
]

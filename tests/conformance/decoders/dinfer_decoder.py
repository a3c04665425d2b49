# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parallel decoders of dInfer, from the installed package or the folder `python` of a checkout that DINFER names.

Only dinfer/decoding is imported: dinfer itself imports its models and engines. torch.compile is off.
"""
import importlib
import importlib.machinery
import os
import sys
import types

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # read when torch is imported

import torch  # noqa: E402
from serving import Unsupported, serve, written  # noqa: E402

# Both thresholds, to see which one it is.
RULES = ("threshold", "threshold_inclusive", "steps_per_block", "factor", "hierarchical", "trace_credit")


def decoders():
    """dinfer.decoding.parallel_strategy without the code of the packages around it."""
    sys.path.insert(0, os.environ.get("DINFER", ""))
    path = None
    for name in ("dinfer", "dinfer.decoding"):
        found = importlib.machinery.PathFinder.find_spec(name, path)
        if found is None or found.submodule_search_locations is None:
            raise ImportError(f"no package {name}")
        sys.modules[name] = types.ModuleType(name)
        path = sys.modules[name].__path__ = list(found.submodule_search_locations)
    return importlib.import_module("dinfer.decoding.parallel_strategy")


try:
    dinfer = decoders()
except ImportError as error:
    sys.exit(
        f"dinfer_decoder.py: dInfer cannot be imported: {error}; DINFER must name the folder `python` of a checkout "
        "(the package `dinfer` 0.1.0 of the package index is another project)"
    )


def decoder(rule, settings, tokens):
    if rule in ("threshold", "threshold_inclusive"):
        return dinfer.ThresholdParallelDecoder(0, settings["threshold"], **tokens)
    if rule == "hierarchical":
        limits = {k: settings[k] for k in ("threshold", "low_threshold")}
        return dinfer.HierarchyDecoder(0, **limits, **tokens)
    if rule == "trace_credit":
        return dinfer.CreditThresholdParallelDecoder(
            credit_alpha=settings["alpha"], boost_gamma=settings["gamma"], decay_beta=settings["beta"],
            temperature=0, threshold=settings["threshold"], **tokens,
        )
    return dinfer.FixedParallelDecoder(0, settings["steps"], mask_id=tokens["mask_id"])


def make(request):
    rule, settings, mask_token = request["rule"], request["settings"], request["mask_token"]
    if rule != "factor":
        host = decoder(rule, settings, {"mask_id": mask_token, "eos_id": -1})
        try:
            host.block_init(torch.tensor([request["tokens"]]), 0)
        except NameError as error:
            raise Unsupported(f"{type(host).__name__}.block_init raises NameError: {error}") from None

    def decide(request):
        logits, x = torch.from_numpy(request["logits"])[None], torch.tensor([request["tokens"]])
        if rule == "factor":
            masks = torch.zeros(x.shape, dtype=torch.bool)
            masks[0, request["masked"]] = True
            x0, transfer = dinfer.get_transfer_index_dynamic(
                logits, 0, "low_confidence", masks, x, None, settings["factor"]
            )
            x[transfer] = x0[transfer]
        else:
            host.decode(logits, 0, x.shape[1], x)
        return written(request["tokens"], x[0].tolist())

    return decide


if __name__ == "__main__":
    serve("dInfer", RULES, make)

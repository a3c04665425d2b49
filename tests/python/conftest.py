# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import os
import pathlib

# Kernels of hosts run without a GPU. Read when Triton is imported.
os.environ.setdefault("TRITON_INTERPRET", "0" if os.path.exists("/dev/nvidiactl") else "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of many small matrices; read when NumPy is imported

import pytest  # noqa: E402

try:
    import torch
except ImportError:  # the tests that need NumPy alone run without it
    pass
else:
    torch.set_num_threads(1)  # of many small tensors

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def repository():
    return REPOSITORY


@pytest.fixture(scope="session")
def load_host():
    """Imports examples/hosts/<path> as a module of its own."""
    import importlib.util

    def load(path, name=None):
        file = REPOSITORY / "examples" / "hosts" / path
        spec = importlib.util.spec_from_file_location(name or f"host_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load

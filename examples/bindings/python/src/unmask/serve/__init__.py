# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server that speaks OpenAI's protocol: python -m unmask serve --model tiny

It needs `pip install "unmask[server]"`. Programs make a Server of any object with the protocol Model and
run its `app` under an ASGI server:

    from unmask.serve import Server, Tiny

    uvicorn.run(Server(Tiny()).app, host="127.0.0.1", port=8000)
"""
from .app import Limits, Server
from .models import Model, Tiny, load

__all__ = ["Limits", "Model", "Server", "Tiny", "load"]

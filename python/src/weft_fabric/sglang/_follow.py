"""How who drives an engine of SGLang keeps its weights those of the trainer. No SGLang, no torch."""

from __future__ import annotations

import base64
import contextlib
import json
import pickle
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from .. import _wait
from .._library import failure, lib
from ..errors import CallError
from ._message import LOADER, message

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..engine._core import InitOptions

_POLL_S = 0.02
_ANSWER_S = 600.0  # how long a server may take for an answer: a commit waits for requests that run


class _Server:
    """A server of SGLang, by the one call of an engine that weft makes."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = f"{url.rstrip('/')}/update_weights_from_tensor"
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}

    def update_weights_from_tensor(self, named: Any, load_format: str, flush_cache: bool) -> tuple[bool, str]:
        text = base64.b64encode(pickle.dumps(named)).decode()
        body = {"serialized_named_tensors": [text], "load_format": load_format, "flush_cache": flush_cache}
        call = urllib.request.Request(self.url, json.dumps(body).encode(), self.headers)
        try:
            with urllib.request.urlopen(call, timeout=_ANSWER_S) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 400:  # which SGLang answers with its failure
                raise
            said = json.load(error)
        return said["success"], said["message"]


class Follower:
    """Keeps an engine's weights those of the trainer. `version` is the label of what the engine holds."""

    def __init__(self, engine: Any, site: Any, peer: str, options: Any) -> None:
        self.engine = engine
        self.version = self._send("open", site=str(site), peer=peer, **options)

    def _send(self, verb: str, **body: Any) -> str:
        """Sends a message to each process of the engine. CallError: SGLang or weft refuses, and says why."""
        success, text = self.engine.update_weights_from_tensor(
            message(verb, **body), load_format=LOADER, flush_cache=verb == "commit"
        )
        if not success:
            raise CallError(f"{verb}: {text}", lib.WEFT_E_STATE, "state")
        return str(text)

    def update(self, version: int | None = None, timeout: float = 60.0) -> str:
        """Brings the engine to a version, or to the trainer's newest one, and returns the label of what it holds then.
        While the version comes the engine generates. The commit waits until no request runs, and flushes SGLang's
        cache of keys and values. Whatever fails, `version` is what the engine holds, "" where nobody can say, and the
        error says why."""
        deadline = _wait.Deadline(timeout)
        while not (said := self._send("stage", version=version)).startswith("staged "):
            if deadline.passed():
                which = "of the trainer" if version is None else version
                raise failure(lib.WEFT_E_TIMEOUT, f"version {which} did not come in {timeout} s: {said}")
            time.sleep(_POLL_S)
        number, self.version = int(said.split()[1]), ""
        try:
            self.version = self._send("commit", version=number, timeout=max(1.0, deadline.left() or 0.0))
        except BaseException:  # of SGLang's cache too, which is flushed after the weights moved
            with contextlib.suppress(Exception):
                self.version = self._send("held")
            raise
        return self.version

    def close(self) -> None:
        """Leaves the trainer. The engine keeps its weights."""
        self._send("close")

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def follow(engine: Any, site: Any, peer: str, key: str | None = None, **options: Unpack[InitOptions]) -> Follower:
    """Has an engine of SGLang follow the site's trainer.

    engine   a sglang.Engine with custom_weight_loader=[LOADER], or the URL of a server that was started with that
    site     path or text of the site, which the engine's processes read
    peer     name of the peer, with "{rank}" in it for a tensor-parallel engine
    key      the server's key, where it has one
    options  overrides of the site, empty, known, ignore, sources, timeout, as for vLLM
    """
    return Follower(_Server(engine, key) if isinstance(engine, str) else engine, site, peer, options)

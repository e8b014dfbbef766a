"""Site: who takes part, and how each is reached."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any, Iterator, Mapping

from ._library import NULL, check, ffi, lib, text_of
from .errors import Error


def _is_text(source: Any) -> bool:
    return isinstance(source, str) and ("\n" in source or source.lstrip().startswith("["))


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Site:
    """A site: a path of an INI file, or its text. `overrides` win over the file: `{"trainer.listen": "10.0.0.1:7117"}`.

    Keys are those of conf/weft.ini. Unknown keys and bad values raise CallError with file, line and key.
    """

    def __init__(self, source: str | os.PathLike[str], overrides: Mapping[str, Any] | None = None) -> None:
        self._given = source, dict(overrides or {})
        words = [f"{key}={_word(value)}" for key, value in (overrides or {}).items()]
        self._gone = ""  # path of a file that is no longer there, which errors call the site text
        if _is_text(source):
            self._pointer = self._load_text(str(source), words)
        else:
            self._pointer = _load(os.fspath(source), words)

    def _load_text(self, text: str, words: list[str]) -> Any:
        with tempfile.NamedTemporaryFile("w", suffix=".ini", prefix="weft-", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            self._gone = file.name
            with self.told():
                return _load(file.name, words)

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Around calls whose errors name the site: a site of text has no path that a reader could open."""
        try:
            yield
        except Error as error:
            if self._gone:
                error.args = (str(error).replace(self._gone, "site text"),)
            raise

    @classmethod
    def of(cls, site: Any) -> Site:
        """The site itself, or the one of a path or text."""
        return site if isinstance(site, cls) else cls(site)

    def _with(self, overrides: Mapping[str, Any]) -> Site:
        """This site with more overrides."""
        source, before = self._given
        return Site(source, {**before, **overrides})

    def get(self, key: str, peer: str | None = None) -> str:
        """One resolved value as text, in the unit of conf/weft.ini: `get("peer.provider", "a")`."""
        room = ffi.new("char[]", 4096)
        name = NULL if peer is None else peer.encode()
        with self.told():
            check(lib.weft_site_get(self._pointer, name, key.encode(), room, len(room)))
        return text_of(room)

    @property
    def peers(self) -> list[str]:
        """Names of the peers that the site lists. Patterns are not peers."""
        names: list[str] = []
        out = ffi.new("const char **")
        while lib.weft_site_peer_name(self._pointer, len(names), out) == lib.WEFT_OK:
            names.append(text_of(out[0]))
        return names

    def __reduce__(self) -> Any:
        """A site of text is pickled with its text, one of a file with the path: both hosts have the file."""
        return Site, self._given

    def __repr__(self) -> str:
        return f"<Site of {len(self.peers)} peers, trainer at {self.get('trainer.listen')}>"


def _load(path: str, words: list[str]) -> Any:
    lines = [ffi.new("char[]", word.encode()) for word in words]
    out = ffi.new("weft_site **")
    check(lib.weft_site_load(os.fsencode(path), ffi.new("const char *[]", lines) if lines else NULL, len(lines), out))
    return ffi.gc(out[0], lib.weft_site_free)

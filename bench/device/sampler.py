"""Where the host's time goes: the functions that a process was seen in, by share.

WEFT_SAMPLER names what `cc -O2 -shared -fPIC -D_GNU_SOURCE` makes of sampler.c; without it nothing is sampled.
WEFT_SYMBOLS names what `nm -n --defined-only` says of libweft, because libweft exports few of its functions."""

import bisect
import collections
import contextlib
import ctypes
import os
from pathlib import Path


class Found(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = list(zip(("file", "base", "name", "at"), 2 * (ctypes.c_char_p, ctypes.c_void_p)))


def symbols():
    """Addresses and names of libweft's functions, in order."""
    file = os.environ.get("WEFT_SYMBOLS")
    rows = [line.split() for line in Path(file).read_text().splitlines()] if file else []
    return [(int(row[0], 16), row[2]) for row in rows if len(row) == 3 and row[1] in "tT"]


def name_of(address, known):
    found = Found()
    if not ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(found)) or not found.file:
        return "no library"
    at = bisect.bisect(known, (address - found.base, "~")) - 1
    if b"libweft" in found.file and at >= 0:
        return known[at][1]
    return f"{Path(found.file.decode()).name} {(found.name or b'').decode()}"


@contextlib.contextmanager
def sampled(what):
    """Prints the functions that took most of what ran inside, if that has a name."""
    path = os.environ.get("WEFT_SAMPLER")
    library = ctypes.CDLL(path) if path and what else None
    if library:
        library.sampler_start()
    yield
    if library:
        told(what, library, library.sampler_stop())


def told(what, library, count):
    noted, known = (ctypes.c_uint64 * (2 * count)).in_dll(library, "sampler_noted"), symbols()
    threads = collections.Counter(noted[1::2]).most_common(6)
    print(f"{what}: {count} samples, by thread {[times for _, times in threads]}")
    for name, times in collections.Counter(name_of(address, known) for address in noted[::2]).most_common(14):
        print(f"  {100 * times / count:5.1f} %  {name}", flush=True)

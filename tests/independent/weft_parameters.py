"""Parameters of an update: docs/WIRE_FORMAT.md, "Parameters of an update"."""
import struct

from weft_layout import Refused

KINDS = {(1, 0): 0, (2, 0): 1, (4, 0): 2, (8, 0): 3, (1, 4): 4, (1, 5): 5, (2, 5): 6, (2, 8): 7, (4, 8): 8, (8, 11): 9}
EXPONENTS = {kind: bits for (_, bits), kind in KINDS.items()}


def wrong(why):
    raise Refused("protocol", f"parameters: {why}")


class Parameters:
    """Classes of each kind, as (magnitude base E, thresholds), and the run shift."""

    def __init__(self, data=b""):
        words = [word for word, in struct.iter_unpack("<H", data)]
        self.run_shift, self.rows = words[0] if words else 0, {}
        if len(words) > 171 or self.run_shift > 6 or words == [0]:
            wrong("too many words, or the run shift")
        at, last = 1, -1
        while at < len(words):
            at, last = self.row_read(words, at, last)

    def row_read(self, words, at, last):
        kind, classes = words[at] & 0xFF, words[at] >> 8
        if not last < kind <= 9 or not 1 <= classes <= 16:
            wrong("kind or classes")
        if len(words) - at < 1 + classes:
            wrong("the words end within a row")
        base, *thresholds = words[at + 1 : at + 1 + classes]
        if base > 2111 or any(a >= b for a, b in zip([0, *thresholds], [*thresholds, 1 << EXPONENTS[kind]])):
            wrong("magnitude base or thresholds")
        if (base, thresholds) == (0, []):
            wrong("a row that says what its absence says")
        self.rows[kind] = base, thresholds
        return at + 1 + classes, kind

    def of(self, dtype):
        return self.rows.get(KINDS[dtype.width, dtype.exponent], (0, []))

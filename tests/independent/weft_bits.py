"""Bits of a plane: counted from the least significant of its first byte, numbers least significant bit first."""
from weft_layout import corrupt


class Plane:
    """Reads the bytes of one plane from its first bit on."""

    def __init__(self, data, begin):
        self.data, self.begin, self.bit = data, begin, 0

    def number(self, bits):
        first, last = self.begin + self.bit // 8, self.begin + (self.bit + bits + 7) // 8
        if last > len(self.data):
            corrupt("a plane runs past the payload")
        value = int.from_bytes(self.data[first:last], "little") >> (self.bit % 8)
        self.bit += bits
        return value & ((1 << bits) - 1)

    def unary(self):
        """So many zeros and a one."""
        zeros = 0
        while True:
            at = self.begin + self.bit // 8
            if at >= len(self.data):
                corrupt("a plane lacks a one")
            rest = self.data[at] >> (self.bit % 8)
            if rest:
                skip = (rest & -rest).bit_length() - 1
                self.bit += skip + 1
                return zeros + skip
            zeros += 8 - self.bit % 8
            self.bit += 8 - self.bit % 8

    def end(self):
        """The byte after the plane; what fills its last byte is zero."""
        if self.bit % 8 and self.number(8 - self.bit % 8):
            corrupt("bits that fill a byte are not zero")
        return self.begin + self.bit // 8

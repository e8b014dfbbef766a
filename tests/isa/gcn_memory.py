"""Loads, stores and atomics of gfx9: device memory in regions with known bounds, and a block's own memory."""
import bisect
import re

from gcn_compile import NAMES, Unknown, build, check_modifiers, register, scalar
from gcn_words import M32, signed


class Fault(Exception):
    pass


PAGE = 4096
ZEROS = bytes(PAGE)


class Region:
    """Bytes at a device address, in pages of which only those that were touched are there: `pages` are its own, in front
    of those of `base`, which stay as they are; the others are zero."""

    def __init__(self, address, size, base=None):
        self.address, self.size, self.base, self.pages = address, size, base or {}, {}

    def read(self, at, size):
        index, offset = divmod(at, PAGE)
        page = self.pages.get(index) or self.base.get(index, ZEROS)
        if offset + size <= PAGE:
            return page[offset:offset + size]
        return bytes(page[offset:]) + bytes(self.read(at + PAGE - offset, size - PAGE + offset))

    def write(self, at, data):
        index, offset = divmod(at, PAGE)
        page = self.pages.get(index)
        if page is None:
            page = self.pages[index] = bytearray(self.base.get(index, ZEROS))
        rest = PAGE - offset
        page[offset:offset + min(len(data), rest)] = data[:rest]
        if len(data) > rest:
            self.write(at + rest, data[rest:])


class Memory:
    """Regions of bytes at device addresses. What lies between them is nobody's."""

    def __init__(self, regions=()):
        self.regions = sorted(regions, key=lambda region: region.address)
        self.starts = [region.address for region in self.regions]

    def find(self, address, size):
        at = bisect.bisect(self.starts, address) - 1
        if at >= 0:
            region = self.regions[at]
            if address + size <= region.address + region.size:
                return region, address - region.address
        raise Fault(f"{size} bytes at {address:#x}: outside of all memory")

    def load(self, address, size):
        region, at = self.find(address, size)
        return int.from_bytes(region.read(at, size), "little")

    def store(self, address, size, value):
        region, at = self.find(address, size)
        region.write(at, value.to_bytes(size, "little"))


class Shared:
    """A block's memory; what was not written is random."""

    def __init__(self, data):
        self.data = data

    def load(self, address, size):
        if address + size > len(self.data):
            raise Fault(f"{size} bytes at {address:#x} of shared memory, which has {len(self.data)}")
        return int.from_bytes(self.data[address:address + size], "little")

    def store(self, address, size, value):
        self.load(address, size)
        self.data[address:address + size] = value.to_bytes(size, "little")


SIZES = {"ubyte": 1, "byte": 1, "sbyte": 1, "ushort": 2, "short": 2, "sshort": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12,
         "dwordx4": 16, "b8": 1, "u8": 1, "i8": 1, "b16": 2, "u16": 2, "i16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16}
SIGNED = ("sbyte", "sshort", "i8", "i16")

# of what was there and what is given, cut to the width
ATOMIC = {"add": "old + b", "sub": "old - b", "or": "old | b", "and": "old & b", "xor": "old ^ b", "swap": "b", "wrxchg": "b",
          "umin": "min(old, b)", "umax": "max(old, b)", "min": "min(old, b)", "max": "max(old, b)"}


def memory(instruction):
    if instruction.name.startswith("s_load_"):
        return scalar_load(instruction)
    return shared(instruction) if instruction.name.startswith("ds_") else device(instruction)


def scalar_load(instruction):
    words = {"dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16}[instruction.name[7:]]
    check_modifiers(instruction, ("offset", "glc"))
    offset = int(instruction.modifiers.get("offset", "0"), 0)
    target, base, index = instruction.operands
    first = register(target)[1]
    return build(f"at = ({scalar(base, 2)} + {scalar(index, 1)} + {offset}) & ~3\nr = w.memory.load(at, {4 * words})\n"
                 + "\n".join(f"w.s[{first + i}] = r >> {32 * i} & M32" for i in range(words)))


def words_of(first, size):
    """The expression for a lane's data in registers."""
    said = " | ".join(f"v[{first + i}][lane] << {32 * i}" for i in range((size + 3) // 4))
    return f"({said})" if size >= 4 else f"({said} & {(1 << 8 * size) - 1})"


def keep(first, size, value):
    return [f"v[{first + i}][lane] = {value} >> {32 * i} & M32" for i in range((size + 3) // 4)]


def half(first, upper, value):
    if upper:
        return [f"v[{first}][lane] = v[{first}][lane] & 65535 | {value} << 16"]
    return [f"v[{first}][lane] = v[{first}][lane] & {M32 ^ 65535} | {value}"]


def each_lane(address, body, before=()):
    lines = ["v = w.v"] + list(before) + ["for lane in w.lanes:", f"    at = {address}"]
    return build("\n".join(lines + [f"    {line}" for line in body]))


def loading(where, first, name, size, kind):
    """Statements that load a lane's bytes; half registers keep their other half."""
    value = f"signed(r, {8 * size}) & {M32 if not name else 65535}" if kind in SIGNED else "r"
    done = half(first, name == "_d16_hi", value) if name else keep(first, size, f"({value})")
    return [f"r = {where}.load(at, {size})"] + done


def atomic(where, act, size, given, target):
    if act not in ATOMIC:
        raise Unknown(f"atomic {act}")
    body = [f"old = {where}.load(at, {size})", f"b = {given}",
            f"{where}.store(at, {size}, ({ATOMIC[act]}) & {(1 << 8 * size) - 1})"]
    return body + (keep(register(target)[1], size, "old") if target else [])


def device(instruction):
    """Global instructions, and flat ones on device memory: no region lies where shared memory is seen."""
    name, operands, modifiers = instruction.name, list(instruction.operands), instruction.modifiers
    check_modifiers(instruction, ("offset", "glc", "slc", "nt", "sc0", "sc1"))
    if name.startswith("flat_"):
        name, operands = "global_" + name[5:], operands + ["off"]
    found = re.fullmatch(r"global_(load|store|atomic)_(\w+?)(_x2)?(_d16|_d16_hi)?", name)
    if not found:
        raise Unknown(name)
    act, kind, wide, part = found[1], found[2], found[3], found[4]
    size = (8 if wide else 4) if act == "atomic" else SIZES.get(kind)
    if size is None:
        raise Unknown(name)
    returns = act == "load" or act == "atomic" and ("glc" in modifiers or "sc0" in modifiers)
    target = operands.pop(0) if returns else None
    number, base = register(operands[0])[1], operands[-1]
    offset = int(modifiers.get("offset", "0"), 0)
    if base == "off":
        address, before = f"(v[{number}][lane] | v[{number + 1}][lane] << 32) + {offset}", []
    else:
        address, before = f"base + v[{number}][lane]", [f"base = {scalar(base, 2)} + {offset}"]
    if act == "load":
        return each_lane(address, loading("w.memory", register(target)[1], part or "", size, kind), before)
    data = register(operands[1])[1]
    if act == "store":
        value = f"(v[{data}][lane] >> 16 & {(1 << 8 * size) - 1})" if part == "_d16_hi" else words_of(data, size)
        return each_lane(address, [f"w.memory.store(at, {size}, {value})"], before)
    if kind == "cmpswap":
        body = [f"old = w.memory.load(at, {size})", f"if old == {words_of(data + size // 4, size)}:",
                f"    w.memory.store(at, {size}, {words_of(data, size)})"]
        return each_lane(address, body + (keep(register(target)[1], size, "old") if target else []), before)
    return each_lane(address, atomic("w.memory", kind, size, words_of(data, size), target), before)


def shared(instruction):
    name, operands, modifiers = instruction.name, instruction.operands, instruction.modifiers
    check_modifiers(instruction, ("offset", "offset0", "offset1"))
    number = lambda at: register(operands[at])[1]
    offset = int(modifiers.get("offset", "0"), 0)
    if name in ("ds_bpermute_b32", "ds_permute_b32"):
        return permute(name, number(0), number(1), number(2), offset)
    found = re.fullmatch(r"ds_(read|write)2(st64)?_b(32|64)", name)
    if found:
        size = int(found[3]) // 8
        unit = size * (64 if found[2] else 1)
        return shared_pair(found[1], operands, size, [unit * int(modifiers.get(f"offset{i}", "0")) for i in (0, 1)])
    found = re.fullmatch(r"ds_(read|write)_(\w\d+)(_d16|_d16_hi)?", name)
    if found and found[2] in SIZES:
        size, part = SIZES[found[2]], found[3] or ""
        if found[1] == "read":
            return each_lane(f"v[{number(1)}][lane] + {offset}", loading("w.shared", number(0), part, size, found[2]))
        value = f"(v[{number(1)}][lane] >> 16 & {(1 << 8 * size) - 1})" if part == "_d16_hi" else words_of(number(1), size)
        return each_lane(f"v[{number(0)}][lane] + {offset}", [f"w.shared.store(at, {size}, {value})"])
    found = re.fullmatch(r"ds_([a-z]+)(_rtn)?_[bu](32|64)", name)
    if not found:
        raise Unknown(name)
    size, first = int(found[3]) // 8, 1 if found[2] else 0
    body = atomic("w.shared", found[1], size, words_of(number(first + 1), size), operands[0] if found[2] else None)
    return each_lane(f"v[{number(first)}][lane] + {offset}", body)


def shared_pair(act, operands, size, offsets):
    number = lambda at: register(operands[at])[1]
    if act == "read":
        first, words = number(0), size // 4
        body = [f"r = w.shared.load(at + {offsets[0]}, {size})", f"q = w.shared.load(at + {offsets[1]}, {size})"]
        body += keep(first, size, "r") + keep(first + words, size, "q")
        return each_lane(f"v[{number(1)}][lane]", body)
    body = [f"w.shared.store(at + {offsets[i]}, {size}, {words_of(number(1 + i), size)})" for i in (0, 1)]
    return each_lane(f"v[{number(0)}][lane]", body)


def permute(name, target, address, data, offset):
    """Between lanes, by byte addresses; what a lane that does not act would give is zero."""
    code = ["v = w.v", "given = [0] * 64", "for lane in w.lanes:"]
    if name == "ds_bpermute_b32":
        code += [f"    given[lane] = v[{data}][lane]", f"at = v[{address}]",
                 f"r = [given[(x + {offset}) >> 2 & 63] for x in at]"]
    else:
        code += [f"    given[(v[{address}][lane] + {offset}) >> 2 & 63] = v[{data}][lane]", "r = given"]
    return build("\n".join(code + ["for lane in w.lanes:", f"    v[{target}][lane] = r[lane]"]))

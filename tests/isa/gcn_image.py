"""An AMD code object: its kernels with what they take of a device, and their instructions as llvm-objdump writes them."""
import os
import re
import shutil
import struct
import subprocess

LINE = re.compile(r"^\s+([a-z]\w+)\s*(.*?)\s*// ([0-9A-F]{12}): ((?:[0-9A-F]{8} ?)+)")
OBJDUMPS = ["llvm-objdump-22", "llvm-objdump-21", "llvm-objdump-20", "llvm-objdump-19"]


def objdump():
    """The disassembler, or None: those before LLVM 19 do not know every device."""
    for name in OBJDUMPS + ["/opt/rocm/llvm/bin/llvm-objdump"]:
        if shutil.which(name):
            return name
    return None


class Instruction:
    __slots__ = ("name", "operands", "modifiers", "bytes", "text", "address")

    def __init__(self, name, rest, address, size):
        self.text = f"{name} {rest}".strip()
        self.name = re.sub(r"_(e32|e64|sdwa|dpp)$", "", name)
        self.address, self.bytes = address, size
        self.modifiers, self.operands = {}, []
        if name in ("s_waitcnt", "s_sendmsg", "s_nop", "s_endpgm"):
            return
        rest = re.sub(r"\[([0-9,]+)\]", lambda found: found[1].replace(",", "."), re.sub(r"<.*>", "", rest))
        for token in re.split(r",\s*|\s+", rest.strip()):
            key, colon, value = token.partition(":")
            if colon and re.fullmatch(r"[a-z]\w*", key):
                self.modifiers[key] = value
            elif token in ("glc", "slc", "scc", "dlc", "nt", "sc0", "sc1", "gds", "clamp"):
                self.modifiers[token] = ""
            elif token:
                self.operands.append(token)


class Kernel:
    def __init__(self, name, entry, resources):
        self.name, self.entry, self.resources = name, entry, resources
        self.lds_bytes = resources["group_segment_fixed_size"]
        self.user_words, self.kernarg_word, self.id_words = 0, None, 0

    def read_descriptor(self, words, properties):
        """Which scalar registers hold what at the start: bytes 44.. (rsrc1, rsrc2) and 56 of the descriptor."""
        self.user_words = words[1] >> 1 & 31
        self.id_words = [words[1] >> 7 & 1, words[1] >> 8 & 1, words[1] >> 9 & 1, words[1] >> 10 & 1]
        at = 0
        for bit, size in enumerate((4, 2, 2, 2, 2, 2, 1)):
            if properties >> bit & 1:
                if bit == 3:
                    self.kernarg_word = at
                at += size
        self.preload = properties >> 16


class Image:
    def __init__(self, path):
        self.path, self.kernels, self.code = path, {}, {}
        with open(path, "rb") as file:
            self.bytes = file.read()
        if self.bytes[:4] != b"\x7fELF" or struct.unpack_from("<H", self.bytes, 18)[0] != 224:
            raise ValueError(f"{path} is no code object of an AMD device")
        self.device = os.path.basename(path).split(".")[0].split("_")[-1]
        self.read_sections()
        self.metadata = self.read_metadata()
        symbols = self.read_symbols()
        for entry in self.metadata["amdhsa.kernels"]:
            resources = {key.lstrip("."): value for key, value in entry.items()}
            at = symbols[entry[".symbol"]]
            kernel = Kernel(entry[".name"], at + self.unpack("<q", at + 16)[0], resources)
            kernel.read_descriptor(self.unpack("<II", at + 48), self.unpack("<I", at + 56)[0])
            self.kernels[kernel.name] = kernel

    def read_sections(self):
        at, = struct.unpack_from("<Q", self.bytes, 40)
        size, count, names = struct.unpack_from("<HHH", self.bytes, 58)
        rows = [struct.unpack_from("<IIQQQQIIQQ", self.bytes, at + size * i) for i in range(count)]
        self.sections = {}
        for row in rows:
            start = rows[names][4] + row[0]
            self.sections[self.bytes[start:self.bytes.index(b"\0", start)].decode()] = row

    def unpack(self, form, address):
        """Words at an address of the loaded object."""
        for row in self.sections.values():
            if row[3] and row[1] != 8 and row[3] <= address < row[3] + row[5]:
                return struct.unpack_from(form, self.bytes, row[4] + address - row[3])
        raise ValueError(f"{self.path} has nothing at {address:#x}")

    def read_symbols(self):
        table, names = self.sections[".dynsym"], self.sections[".dynstr"]
        found = {}
        for at in range(table[4], table[4] + table[5], 24):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", self.bytes, at)
            start = names[4] + name
            found[self.bytes[start:self.bytes.index(b"\0", start)].decode()] = value
        return found

    def read_metadata(self):
        row = self.sections[".note"]
        name, size, _ = struct.unpack_from("<III", self.bytes, row[4])
        at = row[4] + 12 + (name + 3) // 4 * 4
        return Packed(self.bytes[at:at + size]).value()

    def disassemble(self):
        done = subprocess.run([objdump(), "-d", self.path], capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            found = LINE.match(line)
            if found:
                address = int(found[3], 16)
                self.code[address] = Instruction(found[1], found[2], address, 4 * len(found[4].split()))

    def code_of(self, kernel):
        """The instructions from a kernel's entry to the next kernel's."""
        starts = sorted(k.entry for k in self.kernels.values()) + [max(self.code) + 1]
        end = starts[starts.index(kernel.entry) + 1]
        return [self.code[a] for a in sorted(self.code) if kernel.entry <= a < end]


class Packed:
    """The part of MessagePack that code object metadata uses."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        found, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return found

    def text(self, size):
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self):
        kind = self.take(">B")
        if kind < 0x80:
            return kind
        if kind >= 0xe0:
            return kind - 256
        if kind < 0x90:
            return self.map(kind & 15)
        if kind < 0xa0:
            return [self.value() for _ in range(kind & 15)]
        if kind < 0xc0:
            return self.text(kind & 31)
        if kind in (0xc0, 0xc2, 0xc3):
            return {0xc0: None, 0xc2: False, 0xc3: True}[kind]
        words = {0xcc: ">B", 0xcd: ">H", 0xce: ">I", 0xcf: ">Q", 0xd0: ">b", 0xd1: ">h", 0xd2: ">i", 0xd3: ">q"}
        if kind in words:
            return self.take(words[kind])
        if kind in (0xd9, 0xda, 0xdb):
            return self.text(self.take({0xd9: ">B", 0xda: ">H", 0xdb: ">I"}[kind]))
        if kind in (0xdc, 0xdd):
            return [self.value() for _ in range(self.take({0xdc: ">H", 0xdd: ">I"}[kind]))]
        if kind in (0xde, 0xdf):
            return self.map(self.take({0xde: ">H", 0xdf: ">I"}[kind]))
        raise ValueError(f"metadata holds an unknown kind {kind:#x}")

    def map(self, count):
        return {self.value(): self.value() for _ in range(count)}

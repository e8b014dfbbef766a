"""The text of a PTX image: its kernels, what they declare, and their instructions."""
import re


class Unknown(Exception):
    """Something of PTX that is not known here."""


class Instruction:
    """`guard` is "" or the C++ of a register's truth; `words` the name's parts; `operands` are as they stand."""

    def __init__(self, text, line):
        self.text, self.line = text, line
        found = re.fullmatch(r"(?:@(!?)%(\w+)\s+)?([a-z][\w.:]*)\s*(.*)", text)
        if not found:
            raise Unknown(f"line {text}")
        self.guard = (found[1] or "") + found[2] if found[2] else ""
        self.words = found[3].split(".")
        self.operands = split(found[4])

    @property
    def leaves(self):
        """Whether what follows is another basic block."""
        return self.words[0] in ("bra", "brx", "ret", "exit")


def split(text):
    """Operands between commas, those in brackets whole."""
    return [one.strip() for one in re.findall(r"(?:\{[^}]*\}|\[[^]]*\]|[^,])+", text) if one.strip()]


class Kernel:
    """registers: (kind, prefix, count); shared: where each array lies; body: labels (str) and instructions."""

    def __init__(self, name, text):
        self.name, self.registers, self.shared, self.shared_bytes = name, [], {}, 0
        self.local_arrays, self.targets, self.body = [], {}, []
        for found in re.finditer(r"(\$?\w+):\s*\.branchtargets\s*([^;]*);", text):
            self.targets[found[1]] = split(found[2])
        text = re.sub(r"\$?\w+:\s*\.branchtargets\s*[^;]*;", lambda found: "\n" * found[0].count("\n"), text)
        for line, raw in enumerate(text.split("\n"), 1):
            said = re.sub(r"//.*", "", raw).strip()
            if not self.declares(said) and said and not re.match(r"[{}().]", said):
                self.take(said, line)

    def declares(self, said):
        found = re.fullmatch(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>;", said)
        if found:
            self.registers.append((found[1], found[2], int(found[3])))
        array = re.fullmatch(r"\.(shared|local) \.align (\d+) \.b8\s+(\S+)\[(\d+)\];", said)
        if array and array[1] == "local":
            self.local_arrays.append(array[3])
        elif array:
            align = int(array[2])
            self.shared_bytes = (self.shared_bytes + align - 1) // align * align
            self.shared[array[3]] = self.shared_bytes
            self.shared_bytes += int(array[4])
        return bool(found or array)

    def take(self, said, line):
        label = re.fullmatch(r"(\$?\w+):", said)
        if label:
            self.body.append(label[1])
        elif said.endswith(";"):
            self.body.append(Instruction(said[:-1], line))
        else:
            raise Unknown(f"{self.name}: line {said}")

    def instructions(self):
        return [one for one in self.body if isinstance(one, Instruction)]


class Image:
    """kernels: by name, without the prefix that all have."""

    def __init__(self, path):
        with open(path, encoding="ascii") as file:
            text = file.read()
        self.version = re.search(r"^\.version (\S+)", text, re.M)[1]
        parts = re.split(r"\.visible \.entry weft_kernel_(\w+)\(", text)
        self.kernels = {name: Kernel(name, code) for name, code in zip(parts[1::2], parts[2::2])}


def kernel_names(path):
    """Those of backends/kernels/list.h, in order."""
    with open(path, encoding="ascii") as file:
        return re.findall(r"^    ROW\((\w+)\)", file.read(), re.M)

"""An instruction of PTX as a statement of C++ over ptx_machine.h. Registers are unsigned words of their own width, so an
assignment cuts off what does not fit."""
import re

from ptx_text import Unknown

SIGNS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
COMPARES = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
SPECIAL = {"%tid.x": "self.thread", "%ctaid.x": "self.block", "%nctaid.x": "self.blocks"}
KINDS = {"pred": "bool", "b16": "uint16_t", "b32": "uint32_t", "b64": "uint64_t"} # of registers
SHARED_AT = 0x1000 # address of the first byte of shared memory


def bits(kind):
    found = re.fullmatch(r"[sub](8|16|32|64)", kind)
    if not found:
        raise Unknown(f"type {kind}")
    return int(found[1])


def unsigned(kind):
    return f"uint{bits(kind)}_t"


def typed(kind):
    return ("int" if kind[0] == "s" else "uint") + f"{bits(kind)}_t"


class Words:
    """Statements for the instructions of one kernel."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.kinds = {prefix: KINDS[kind] for kind, prefix, _ in kernel.registers}

    def value(self, text):
        if text in SPECIAL:
            return SPECIAL[text]
        if re.fullmatch(r"%[a-z]+\d+", text):
            return text[1:]
        if text in self.kernel.shared:
            return f"UINT64_C({SHARED_AT + self.kernel.shared[text]})"
        if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", text) and not re.fullmatch(r"0\d+", text):
            return f"UINT64_C({int(text, 0) & 0xffffffffffffffff})"
        raise Unknown(f"operand {text}")

    def address(self, text):
        found = re.fullmatch(r"\[(%?[\w$]+)(?:\+(-?\d+))?\]", text)
        if not found:
            raise Unknown(f"address {text}")
        return f"(uint64_t)({self.value(found[1])}) + (uint64_t){found[2] or 0}ll"

    def put(self, to, text):
        kind = self.kinds[re.fullmatch(r"%([a-z]+)\d+", to)[1]]
        return f"{self.value(to)} = ({kind})({text});"

    def statement(self, one):
        """C++ of the instruction, without its guard."""
        name = one.words[0]
        try:
            if name in SIGNS:
                return self.binary(one, SIGNS[name])
            return getattr(self, f"of_{name}")(one)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as said:
            raise Unknown(f"{self.kernel.name}: {one.text}: {said}") from said
        except Unknown as said:
            raise Unknown(f"{self.kernel.name}: {one.text}: {said}") from said

    def binary(self, one, sign):
        (_, kind), (to, a, b) = one.words, one.operands
        if kind == "pred":
            return self.put(to, f"{self.value(a)} {sign} {self.value(b)}")
        u = unsigned(kind)
        return self.put(to, f"({u})(({u}){self.value(a)} {sign} ({u}){self.value(b)})")

    def call(self, one, function, kind):
        """A function of ptx_machine.h over operands of one type."""
        to, *given = one.operands
        return self.put(to, f"{function}<{kind}>({', '.join(f'({kind})({self.value(x)})' for x in given)})")

    # ---- memory

    def place(self, one, kinds, count, kind, address):
        spaces = [word for word in one.words[1:-1] if word in ("global", "shared")]
        if len(spaces) != 1 or set(one.words[1:-1]) - {*kinds, spaces[0]}:
            raise Unknown("a generic access, or one that is not known")
        access = {"ld": "READ", "st": "STORE"}.get(one.words[0], "ATOMIC")
        space = "memory" if spaces[0] == "global" else "shared"
        return f"{space}.at<{unsigned(kind)}, {count}, {access}>({address}, {one.line})"

    @staticmethod
    def vector(one, text):
        many = [word for word in one.words if word in ("v2", "v4")]
        parts = [x.strip() for x in text.strip("{}").split(",")]
        if len(parts) != (int(many[0][1]) if many else 1):
            raise Unknown("a vector of another length")
        return parts

    def of_ld(self, one):
        kind, (to, address) = one.words[-1], one.operands
        if one.words[1:-1] == ["param"]:
            return self.put(to, "argument")
        parts = self.vector(one, to)
        at = self.place(one, ("v2", "v4", "cs", "nc"), len(parts), kind, self.address(address))
        reads = " ".join(self.put(part, f"({typed(kind)})from[{i}]") for i, part in enumerate(parts) if part != "_")
        return f"{{ const {unsigned(kind)} *from = {at}; {reads} }}"

    def of_st(self, one):
        kind, (address, what) = one.words[-1], one.operands
        parts = self.vector(one, what)
        at = self.place(one, ("v2", "v4"), len(parts), kind, self.address(address))
        writes = " ".join(f"to[{i}] = ({unsigned(kind)})({self.value(part)});" for i, part in enumerate(parts))
        return f"{{ {unsigned(kind)} *to = {at}; {writes} }}"

    def of_atom(self, one):
        kind, operands = one.words[-1], one.operands
        to, address, what = operands if one.words[0] == "atom" else ["_", *operands]
        acts = [word for word in one.words if word in ("add", "or")]
        at = self.place(one, acts, 1, kind, self.address(address))
        text = f"__atomic_fetch_{acts[0]}({at}, ({unsigned(kind)})({self.value(what)}), __ATOMIC_RELAXED)"
        return "weft_engine::step(); " + (f"{text};" if to == "_" else self.put(to, text))

    of_red = of_atom

    # ---- moves

    def of_mov(self, one):
        (_, kind), (to, what) = one.words, one.operands
        if what.startswith("{"):
            parts = what.strip("{}").split(",")
            each = bits(kind) // len(parts)
            return self.put(to, " | ".join(f"(uint64_t){self.value(x.strip())} << {each * i}" for i, x in enumerate(parts)))
        if to.startswith("{"):
            parts = to.strip("{}").split(",")
            each = bits(kind) // len(parts)
            return " ".join(self.put(x.strip(), f"{self.value(what)} >> {each * i}") for i, x in enumerate(parts)
                            if x.strip() != "_")
        return self.put(to, self.value(what))

    def of_cvta(self, one):
        if one.words[1:] != ["to", "global", "u64"]:
            raise Unknown("a generic address")
        return self.put(one.operands[0], self.value(one.operands[1]))

    def of_cvt(self, one):
        (_, wide, narrow), (to, what) = one.words, one.operands
        return self.put(to, f"({typed(wide)})({typed(narrow)}){self.value(what)}")

    def of_selp(self, one):
        to, yes, no, which = one.operands
        return self.put(to, f"{self.value(which)} ? (uint64_t){self.value(yes)} : (uint64_t){self.value(no)}")

    # ---- arithmetic

    def of_not(self, one):
        (_, kind), (to, what) = one.words, one.operands
        return self.put(to, ("!" if kind == "pred" else "~") + self.value(what))

    def of_neg(self, one):
        return self.put(one.operands[0], f"0 - (uint64_t){self.value(one.operands[1])}")

    def of_abs(self, one):
        return self.call(one, "absolute", typed(one.words[1]))

    def of_min(self, one):
        return self.call(one, "least", typed(one.words[1]))

    def of_max(self, one):
        return self.call(one, "most", typed(one.words[1]))

    def of_popc(self, one):
        return self.call(one, "ones", unsigned(one.words[1]))

    def of_clz(self, one):
        return self.call(one, "zeros_above", unsigned(one.words[1]))

    def of_bfe(self, one):
        return self.call(one, "bits_of", typed(one.words[1]))

    def of_bfi(self, one):
        return self.call(one, "bits_in", unsigned(one.words[1]))

    def of_prmt(self, one):
        if one.words[1:] != ["b32"]:
            raise Unknown("a mode of prmt")
        return self.call(one, "bytes_of", "uint32_t")

    def of_shl(self, one):
        return self.call(one, "left", unsigned(one.words[1]))

    def of_shr(self, one):
        return self.call(one, "right", typed(one.words[1]))

    def of_mul(self, one):
        (_, part, kind), (to, a, b) = one.words, one.operands
        if part == "lo":
            return self.put(to, f"({unsigned(kind)})((uint64_t)({self.value(a)}) * (uint64_t)({self.value(b)}))")
        if part == "hi" and kind == "u32":
            return self.put(to, f"(uint32_t)((uint64_t)({self.value(a)}) * (uint64_t)({self.value(b)}) >> 32)")
        if part != "wide" or bits(kind) == 64:
            raise Unknown("a part of a product")
        wide = ("int64_t" if kind[0] == "s" else "uint64_t") + f")({typed(kind)})("
        return self.put(to, f"({wide}{self.value(a)}) * ({wide}{self.value(b)})")

    def of_mad(self, one):
        (_, part, kind), (to, a, b, c) = one.words, one.operands
        if part != "lo":
            raise Unknown("a part of a product")
        product = f"(uint64_t)({self.value(a)}) * (uint64_t)({self.value(b)})"
        return self.put(to, f"({unsigned(kind)})({product} + (uint64_t)({self.value(c)}))")

    def of_setp(self, one):
        (_, how, kind), (to, a, b) = one.words, one.operands
        return self.put(to, f"({typed(kind)}){self.value(a)} {COMPARES[how]} ({typed(kind)}){self.value(b)}")

    # ---- lanes

    def of_bar(self, one):
        if one.words[1:] != ["sync"] or one.operands != ["0"]:
            raise Unknown("a barrier of some")
        return f"weft_engine::barrier({{KERNEL, {one.line}, \"bar.sync\"}});"

    def all_lanes(self, one, mask, clamp="31"):
        return f"whole({self.value(mask)}, {self.value(clamp)}, {one.line});"

    def of_shfl(self, one):
        to, what, lane, clamp, mask = one.operands
        if one.words[1:] != ["sync", "idx", "b32"]:
            raise Unknown("a kind of shuffle")
        first, *valid = to.split("|")
        text = f"weft_engine::shuffle({{KERNEL, {one.line}, \"shfl\"}}, {self.value(what)}, (uint32_t){self.value(lane)} % 32)"
        return " ".join([self.all_lanes(one, mask, clamp), self.put(first, text), *(self.put(x, "true") for x in valid)])

    def of_vote(self, one):
        to, what, mask = one.operands
        if one.words[1:] != ["sync", "ballot", "b32"]:
            raise Unknown("a kind of vote")
        text = f"(uint32_t)weft_engine::ballot({{KERNEL, {one.line}, \"vote\"}}, {self.value(what)})"
        return f"{self.all_lanes(one, mask)} {self.put(to, text)}"

    # ---- where it goes on

    @staticmethod
    def label(name):
        return "L" + name.replace("$", "_")

    def of_bra(self, one):
        return f"goto {self.label(one.operands[0])};"

    def of_brx(self, one):
        which, table = one.operands
        rows = " ".join(f"case {i}: goto {self.label(to)};" for i, to in enumerate(self.kernel.targets[table]))
        return f"switch ({self.value(which)}) {{ {rows} default: wrong(\"a branch beyond its table\", {self.value(which)}, {one.line}); }}"

    def of_ret(self, _):
        return "goto Lend;"

    of_exit = of_ret

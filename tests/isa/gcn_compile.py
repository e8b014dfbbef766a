"""Makes a Python function of each instruction, as text. It takes the wave and returns the address to go on at, or None
for the next instruction; what cannot be translated exactly raises Unknown.

Registers are 32-bit integers: w.s[] (vcc at 106, m0 at 124), w.v[][lane]; exec is w.x, lanes that it holds are w.lanes."""
import functools
import re
import struct

from gcn_words import *

FULL = M64
BITS = [1 << lane for lane in range(64)]
BARRIER, END = -1, -2


class Unknown(Exception):
    pass


NAMES = {"M32": M32, "FULL": FULL, "BITS": BITS, "LANES": range(64), "ones": ones, "high": high, "low": low, "signed": signed,
         "mirrored": mirrored, "perm": perm, "table3": table3, "median": median}
FIXED = {"vcc_lo": 106, "vcc_hi": 107, "vcc": 106, "m0": 124}


def build(body):
    """The text of a function; made only when it is first called, by `made`."""
    return "def act(w):\n" + "".join(f"    {line}\n" for line in body.splitlines())


@functools.lru_cache(maxsize=None)
def made(text):
    space = dict(NAMES)
    exec(text, space)
    return space["act"]


def literal(text, words):
    if re.fullmatch(r"-?\d+\.\d+", text):
        if words == 1:
            return struct.unpack("<I", struct.pack("<f", float(text)))[0]
        return struct.unpack("<Q", struct.pack("<d", float(text)))[0]
    try:
        return int(text, 0) & (M64 if words == 2 else M32)
    except ValueError:
        raise Unknown(f"operand {text}") from None


def register(text):
    """('s' or 'v', first number, count), or None for what is no register of these files."""
    if text in FIXED:
        return "s", FIXED[text], 2 if text == "vcc" else 1
    found = re.fullmatch(r"([sv])(?:(\d+)|\[(\d+):(\d+)\])", text)
    if not found:
        return None
    first = int(found[2] or found[3])
    return found[1], first, int(found[4] or first) - first + 1


def scalar(text, words):
    """An expression for a scalar operand."""
    if text == "exec":
        return "w.x"
    if text in ("exec_lo", "exec_hi"):
        return "(w.x & M32)" if text == "exec_lo" else "(w.x >> 32)"
    if text == "scc":
        return "w.scc"
    found = register(text)
    if not found:
        return str(literal(text, words))
    kind, first, count = found
    if kind != "s":
        raise Unknown(f"scalar operand {text}")
    if words == 2:
        return f"(w.s[{first}] | w.s[{first + 1}] << 32)"
    return f"w.s[{first}]"


def set_scalar(text, words, value):
    """A statement that stores a cut value."""
    if text == "exec":
        return f"w.x = {value}\nw.lanes = w.held()"
    if text in ("exec_lo", "exec_hi"):
        keep = "w.x & ~M32 | r" if text == "exec_lo" else "w.x & M32 | r << 32"
        return f"r = {value}\nw.x = {keep}\nw.lanes = w.held()"
    found = register(text)
    if not found or found[0] != "s":
        raise Unknown(f"scalar result {text}")
    if words == 2:
        return f"r = {value}\nw.s[{found[1]}] = r & M32\nw.s[{found[1] + 1}] = r >> 32"
    return f"w.s[{found[1]}] = {value}"


SELECT = {"BYTE_0": "& 255", "BYTE_1": ">> 8 & 255", "BYTE_2": ">> 16 & 255", "BYTE_3": ">> 24",
          "WORD_0": "& 65535", "WORD_1": ">> 16", "DWORD": ""}


class Sources:
    """The sources of a vector instruction: names of scalars and of lists over lanes, and each as an expression of a
    lane's values."""

    def __init__(self):
        self.before, self.lists, self.values = [], [], []

    def add(self, text, words=1, select=None):
        found = register(text)
        if found and found[0] == "v":
            parts = []
            for number in range(found[1], found[1] + words):
                name = f"q{len(self.lists)}"
                self.lists.append((name, number))
                parts.append(name)
            value = parts[0] if words == 1 else f"({parts[0]} | {parts[1]} << 32)"
        else:
            name = f"k{len(self.before)}"
            self.before.append(f"{name} = {scalar(text, words)}")
            value = name
        if select and select != "DWORD":
            value = f"({value} {SELECT[select]})"
        self.values.append(value)

    def expression(self, said):
        for name, value in zip("abc", self.values):
            said = re.sub(rf"\b{name}\b", f"\x00{value}\x00", said)
        return said.replace("\x00", "")

    def loops(self, extra=()):
        """(comprehension tail when all lanes act, statements that bind a lane's values when some do)"""
        names = [name for name, _ in extra] + [name for name, _ in self.lists]
        lists = [source for _, source in extra] + [f"v[{number}]" for _, number in self.lists]
        if not names:
            return "for lane in LANES", []
        tail = f"for {', '.join(names)}{',' if len(names) == 1 else ''} in zip({', '.join(lists)})"
        return tail, [f"{name} = {source}[lane]" for name, source in zip(names, lists)]


def vector_result(target, words, sources, said, uses_lane):
    """Code that gives each acting lane of a vector register the value of an expression."""
    found = register(target)
    if not found or found[0] != "v":
        raise Unknown(f"vector result {target}")
    extra = [("lane", "LANES")] if uses_lane else []
    tail, binds = sources.loops(extra)
    first = found[1]
    code = ["v = w.v"] + sources.before + ["if w.x == FULL:"]
    if words == 1:
        code.append(f"    v[{first}] = [({said}) & M32 {tail}]")
    else:
        code.append(f"    r = [{said} {tail}]")
        code += [f"    v[{first + i}] = [x >> {32 * i} & M32 for x in r]" for i in range(words)]
    code += ["else:", "    for lane in w.lanes:"] + [f"        {bind}" for bind in binds if not bind.startswith("lane =")]
    code += [f"        r = {said}"] + [f"        v[{first + i}][lane] = r >> {32 * i} & M32" for i in range(words)]
    return build("\n".join(code))


def mask_result(target, sources, said):
    """Code that stores a mask: the acting lanes for which an expression holds."""
    tail, binds = sources.loops([("bit", "BITS")])
    code = ["v = w.v"] + sources.before + ["if w.x == FULL:", f"    m = sum([bit {tail} if {said}])", "else:", "    m = 0",
                                           "    for lane in w.lanes:"]
    code += [f"        {bind}" for bind in binds] + [f"        if {said}:", "            m |= bit"]
    return "\n".join(code) + "\n" + set_scalar(target, 2, "m")


def check_modifiers(instruction, allowed=()):
    for name, value in instruction.modifiers.items():
        if name not in allowed:
            raise Unknown(f"modifier {name}:{value}")


def vector(instruction):
    name, operands, modifiers = instruction.name, instruction.operands, instruction.modifiers
    sdwa = ("dst_sel", "dst_unused", "src0_sel", "src1_sel")
    sources = Sources()
    if "row_mask" in modifiers:
        return from_lanes(instruction)
    if name in VECTOR or name in VECTOR16:
        clamp = "clamp" in modifiers and name in CLAMPED
        check_modifiers(instruction, sdwa + ("bitop3",) * (name == "v_bitop3_b32") + ("clamp",) * clamp)
        for number, operand in enumerate(operands[1:]):
            sources.add(operand, 1, modifiers.get(f"src{number}_sel"))
        if name in VECTOR16:
            sources.values = [f"({value} & 65535)" for value in sources.values]
        said = CLAMPED[name] if clamp else VECTOR.get(name) or f"({VECTOR16[name]}) & 65535"
        said = sources.expression(said)
        said = said.replace("TABLE", str(int(modifiers.get("bitop3", "0"), 0)))
        return vector_result(operands[0], 1, *placed(sources, said, operands[0], modifiers), "lane" in said)
    if name in WIDE:
        check_modifiers(instruction)
        words, widths, said = WIDE[name]
        for operand, width in zip(operands[1:], widths, strict=True):
            sources.add(operand, width)
        return vector_result(operands[0], words, sources, sources.expression(said), False)
    if name in PACKED16:
        check_modifiers(instruction)
        for operand in operands[1:]:
            sources.add(operand)
        halves = []
        for cut in ("& 65535", ">> 16"):
            half = Sources()
            half.values = [f"({value} {cut})" for value in sources.values]
            halves.append(f"(({half.expression(PACKED16[name])}) & 65535)")
        return vector_result(operands[0], 1, sources, f"{halves[0]} | {halves[1]} << 16", False)
    if name == "v_pk_mov_b32":
        check_modifiers(instruction, ("op_sel",))
        for operand in operands[1:]:
            sources.add(operand, 2)
        first, second = (int(x) for x in modifiers.get("op_sel", "0.0").split("."))
        said = sources.expression(f"a >> {32 * first} & M32 | (b >> {32 * second} & M32) << 32")
        return vector_result(operands[0], 2, sources, said, False)
    return vector_masked(instruction, sources)


def from_lanes(instruction):
    """The first source comes from other lanes (DPP). Of one that does not act, or is not there, it is 0 with bound_ctrl;
    else nothing is done."""
    name, operands, modifiers = instruction.name, instruction.operands, instruction.modifiers
    check_modifiers(instruction, ("row_shr", "row_bcast", "row_mask", "bank_mask", "bound_ctrl"))
    rows = int(modifiers["row_mask"], 0)
    if name not in VECTOR or modifiers["bank_mask"] != "0xf":
        raise Unknown(instruction.text)
    step = int(modifiers.get("row_shr", "0"))
    if step:
        lanes = [lane - step if lane % 16 >= step else -1 for lane in range(64)]
    elif modifiers.get("row_bcast") == "15":
        lanes = [lane // 16 * 16 - 1 for lane in range(64)]
    elif modifiers.get("row_bcast") == "31":
        lanes = [31 if lane >= 32 else -1 for lane in range(64)]
    else:
        raise Unknown(instruction.text)
    sources = Sources()
    sources.values.append("moved[lane]")
    for operand in operands[2:]:
        sources.add(operand)
    code = ["v = w.v", f"q = v[{register(operands[1])[1]}]"] + sources.before
    other = 0 if "bound_ctrl" in modifiers else None
    code += [f"moved = [q[f] if f >= 0 and w.x >> f & 1 else {other} for f in {lanes}]", "for lane in w.lanes:",
             f"    if {rows} >> lane // 16 & 1 and moved[lane] is not None:"] + [f"        {bind}" for bind in sources.loops()[1]]
    code.append(f"        v[{register(operands[0])[1]}][lane] = ({sources.expression(VECTOR[name])}) & M32")
    return build("\n".join(code))


def placed(sources, said, target, modifiers):
    """With dst_sel the result goes to a part of the register; the rest of it becomes zero or stays."""
    part = modifiers.get("dst_sel", "DWORD")
    if part == "DWORD":
        return sources, said
    width, at = (8, 8 * int(part[-1])) if part.startswith("BYTE") else (16, 16 * int(part[-1]))
    mask = (1 << width) - 1
    said = f"((({said}) & {mask}) << {at})"
    if modifiers["dst_unused"] == "UNUSED_PRESERVE":
        sources.lists.append(("old", register(target)[1]))
        said = f"{said} | old & {M32 & ~(mask << at)}"
    elif modifiers["dst_unused"] != "UNUSED_PAD":
        raise Unknown(f"dst_unused:{modifiers['dst_unused']}")
    return sources, said


def vector_masked(instruction, sources):
    """Those that read or make masks of a bit a lane."""
    name, operands, modifiers = instruction.name, instruction.operands, instruction.modifiers
    if name.startswith(("v_cmp_", "v_cmpx_")):
        check_modifiers(instruction, ("src0_sel", "src1_sel"))
        _, act, kind = name.split("_")[-3:] if name.count("_") == 3 else (None, None, None)
        if kind is None or act not in COMPARE or kind[0] not in "ui":
            raise Unknown(name)
        bits = int(kind[1:])
        for number, operand in enumerate(operands[1:]):
            sources.add(operand, max(bits // 32, 1), modifiers.get(f"src{number}_sel"))
        cut = {16: "({} & 65535)", 32: "{}", 64: "{}"}[bits] if kind[0] == "u" else f"signed({{}}, {bits})"
        sources.values = [cut.format(value) for value in sources.values]
        code = mask_result(operands[0], sources, sources.expression(COMPARE[act]))
        if name.startswith("v_cmpx_"):
            code += "\nw.x = m\nw.lanes = w.held()"
        return build(code)
    if name == "v_cndmask_b32":
        check_modifiers(instruction, ("src0_sel", "src1_sel", "dst_sel", "dst_unused"))
        for number, operand in enumerate(operands[1:3]):
            sources.add(operand, 1, modifiers.get(f"src{number}_sel"))
        sources.before.append(f"m = {scalar(operands[3], 2)}")
        said = sources.expression("b if m >> lane & 1 else a")
        return vector_result(operands[0], 1, *placed(sources, said, operands[0], modifiers), True)
    if name in CARRY:
        check_modifiers(instruction, ("src0_sel", "src1_sel", "dst_sel", "dst_unused"))
        if modifiers.get("dst_sel", "DWORD") != "DWORD":
            raise Unknown(instruction.text)
        for number, operand in enumerate(operands[2:4]):
            sources.add(operand, 1, modifiers.get(f"src{number}_sel"))
        said = sources.expression(CARRY[name].replace("carry", "(m >> lane & 1)"))
        return carrying(operands, sources, said, 1, scalar(operands[4], 2) if len(operands) > 4 else "0")
    if name == "v_mad_u64_u32":
        check_modifiers(instruction)
        for operand, width in zip(operands[2:], (1, 1, 2), strict=True):
            sources.add(operand, width)
        return carrying(operands, sources, sources.expression("a * b + c"), 2, "0")
    raise Unknown(name)


def carrying(operands, sources, said, words, mask):
    first = register(operands[0])[1]
    limit = M32 if words == 1 else M64
    code = ["v = w.v", f"m = {mask}", "n = 0"] + sources.before + ["for lane in w.lanes:"]
    code += [f"    {name} = v[{number}][lane]" for name, number in sources.lists]
    code += [f"    r = {said}", f"    if r > {limit} or r < 0:", "        n |= 1 << lane"]
    code += [f"    v[{first + i}][lane] = r >> {32 * i} & M32" for i in range(words)]
    return build("\n".join(code) + "\n" + set_scalar(operands[1], 2, "n"))


def lane_moves(instruction):
    """Between a lane and a scalar register."""
    name, operands = instruction.name, instruction.operands
    check_modifiers(instruction)
    if name == "v_readfirstlane_b32":
        return build(set_scalar(operands[0], 1, f"w.v[{register(operands[1])[1]}][w.lanes[0] if w.lanes else 0]"))
    if name == "v_readlane_b32":
        lane = scalar(operands[2], 1)
        return build(set_scalar(operands[0], 1, f"w.v[{register(operands[1])[1]}][{lane} & 63]"))
    value, lane = scalar(operands[1], 1), scalar(operands[2], 1)
    return build(f"w.v[{register(operands[0])[1]}][{lane} & 63] = {value}")


def scalar_work(instruction):
    name, operands = instruction.name, instruction.operands
    check_modifiers(instruction)
    if name in SCALAR:
        words, widths, said, scc = SCALAR[name]
        given, values = iter(operands[1:]), []
        for width in widths:
            values.append(scalar(operands[0], words) if width == 0 else scalar(next(given), width))
        if next(given, None):
            raise Unknown(instruction.text)
        code = [f"{letter} = {value}" for letter, value in zip("abc", values)]
        code += ["scc = w.scc", f"r = {said}"] + ([f"w.scc = int({scc.replace('M32', str(M32))})"] if scc else [])
        cut = "r & M32" if words == 1 else f"r & {M64}"
        if scc == NOT_ZERO:
            code[-1:] = [f"r = {cut}", "w.scc = int(r != 0)"]
        return build("\n".join(code) + "\n" + set_scalar(operands[0], words, cut))
    found = re.fullmatch(r"s_(\w+)_saveexec_b64", name)
    if found and found[1] in SAVEEXEC:
        code = f"a = {scalar(operands[1], 2)}\nx = w.x\nn = ({SAVEEXEC[found[1]]}) & FULL\n" + set_scalar(operands[0], 2, "x")
        return build(code + "\nw.x = n\nw.lanes = w.held()\nw.scc = int(n != 0)")
    found = re.fullmatch(r"s_cmp(k?)_(\w\w)_([ui])(32|64)", name)
    if found and found[2] in COMPARE:
        words = int(found[4]) // 32
        values = [scalar(operand, words) for operand in operands]
        if found[3] == "i":
            values = [f"signed({values[0]})", f"signed({values[1]}{', 16' if found[1] else ''})"]
        code = f"a, b = {values[0]}, {values[1]}\nw.scc = int({COMPARE[found[2]]})"
        return build(code)
    found = re.fullmatch(r"s_bitcmp([01])_b(32|64)", name)
    if found:
        words = int(found[2]) // 32
        bit = f"{scalar(operands[0], words)} >> ({scalar(operands[1], 1)} & {32 * words - 1}) & 1"
        return build(f"w.scc = int(({bit}) == {found[1]})")
    raise Unknown(name)


BRANCH = {"": "True", "scc0": "not w.scc", "scc1": "w.scc", "vccz": "not (w.s[106] | w.s[107])", "vccnz": "w.s[106] | w.s[107]",
          "execz": "not w.x", "execnz": "w.x"}


def branch(instruction):
    condition = instruction.name[10:] if instruction.name != "s_branch" else ""
    if condition not in BRANCH:
        raise Unknown(instruction.name)
    distance = signed(int(instruction.operands[0]), 16)
    return build(f"if {BRANCH[condition]}:\n    return {instruction.address + 4 + 4 * distance}")


def translate(instruction):
    from gcn_memory import memory

    name = instruction.name
    if name in NOTHING:
        return build("pass")
    if name in ("s_barrier", "s_endpgm"):
        return build(f"return {BARRIER if name == 's_barrier' else END}")
    if name.startswith(("s_cbranch_", "s_branch")):
        return branch(instruction)
    if name in ("v_readfirstlane_b32", "v_readlane_b32", "v_writelane_b32"):
        return lane_moves(instruction)
    if name.startswith(("s_load_", "global_", "flat_", "ds_")):
        return memory(instruction)
    return scalar_work(instruction) if name.startswith("s_") else vector(instruction)

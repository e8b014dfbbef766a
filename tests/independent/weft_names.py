"""Layouts told briefly: docs/WIRE_FORMAT.md, "Update files", Layout."""
import re
import struct

from weft_layout import corrupt

WORDS = """
model. layers. .weight .bias self_attn. q_proj
k_proj v_proj o_proj mlp. gate_proj up_proj
down_proj input_layernorm post_attention_layernorm embed_tokens lm_head norm
experts. shared_expert gate q_norm k_norm feedforward_layernorm
language_model. attn. transformer weight_scale _layernorm _proj
""".split()


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        if self.at >= len(self.data):
            corrupt("ends in the middle")
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if value >> 64 or (byte == 0 and shift > 7):
            corrupt("a number")
        return value

    def name(self, last):
        shared = self.number()
        if shared > len(last):
            corrupt("more shared than there is")
        name = bytearray(last[:shared])
        while byte := self.byte():
            if byte == 31:
                name.append(self.byte())
            elif byte < 31:
                name += WORDS[byte - 1].encode()
            else:
                name.append(byte)
            if len(name) > 511:
                corrupt("a long name")
        return bytes(name)


def moved(name, which, delta):
    numbers = list(re.finditer(rb"[0-9]+", name.split(b"\0")[0]))
    if which >= len(numbers) or len(numbers[which][0]) > 18:
        corrupt("no such number")
    value = int(numbers[which][0]) + (-(delta + 1) // 2 if delta % 2 else delta // 2)
    if not 0 <= value < 10**18:
        corrupt("a number that is none")
    name = name[: numbers[which].start()] + b"%d" % value + name[numbers[which].end() :]
    if len(name) > 511:
        corrupt("a long name")
    return name


def serialised(data):
    """The layout in its serialised form, for Layout to judge."""
    if data[:4] == b"WFLY":
        return data
    reader, tensors, size = Reader(data), [], 16
    while reader.at < len(data):
        first, made = reader.number(), []
        if first:
            if first // 32 > 16:
                corrupt("rank")
            sizes = [reader.number() for _ in range(first // 32)]
            made.append((first % 32, sizes, reader.name(tensors[-1][2] if tensors else b"")))
        else:
            distance, count, which, delta = (reader.number() for _ in range(4))
            if not 1 <= distance <= len(tensors) or not 1 <= count <= (1 << 20) - len(tensors):
                corrupt("copies")
        for number in range(1 if first else count):
            if not first:
                dtype, sizes, name = tensors[-distance]
                made = [(dtype, sizes, moved(name, which, delta))]
            tensors += made
            size += 12 + 8 * len(made[0][1]) + len(made[0][2])
            if len(tensors) > 1 << 20 or size > 1 << 28:
                corrupt("more than a layout has")
    return struct.pack("<IIQ", 0x594C4657, 1, len(tensors)) + b"".join(
        struct.pack(f"<III{len(sizes)}Q", dtype, len(sizes), len(name), *sizes) + name for dtype, sizes, name in tensors)

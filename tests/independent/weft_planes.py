"""Full frames in byte planes: docs/WIRE_FORMAT.md, "full". Planes of zstd are unpacked by the command `zstd`."""
import shutil
import subprocess

from weft_layout import corrupt


class Missing(Exception):
    """What this host lacks to decode a frame."""


def elements(payload, n, dtype, steps):
    w = dtype.width
    if len(payload) >= (n * w + 3) // 4 * 4 or len(payload) < 4 * w:
        corrupt("planes: size of the payload")
    at, planes = 4 * w, []
    for p in range(w):
        entry = int.from_bytes(payload[4 * p : 4 * p + 4], "little")
        length, kind = entry & 0xFFFFFF, entry >> 24
        if length > len(payload) - at:
            corrupt("planes: a plane runs past the payload")
        planes.append(plane(payload[at : at + length], kind, n))
        at += length
    if (at + 3) // 4 * 4 != len(payload) or any(payload[at:]):
        corrupt("planes: do not end, padded, at the payload's last byte")
    turned = [sum(planes[p][i] << 8 * p for p in range(w)) for i in range(n)]
    return [unfolded(word, w) if steps else unrotated(word, dtype) for word in turned]


def unrotated(word, dtype):
    return word >> 1 | (word & 1) << (8 * dtype.width - 1) if dtype.exponent else word


def unfolded(word, width):
    return (1 << 8 * width) - (word + 1) // 2 if word % 2 else word // 2


def plane(data, kind, n):
    if kind == 0 and len(data) == n:
        return data
    if kind == 1 and len(data) == 1:
        return data * n
    if kind == 2 and 1 <= len(data) < n:
        return unpacked(data, n)
    return corrupt("planes: kind or length")


def unpacked(data, n):
    """The n bytes that one zstd frame holds."""
    length, size = zstd_measure(data)
    if (length, size) != (len(data), n):
        corrupt("not one frame of zstd, or of another size")
    command = shutil.which("zstd")
    if not command:
        raise Missing("the command zstd")
    done = subprocess.run([command, "-dcq"], input=data, capture_output=True, check=False)
    if done.returncode or len(done.stdout) != n:
        corrupt("zstd")
    return done.stdout


def zstd_measure(data):
    """Bytes of the frame of RFC 8878 that begins `data`, and of what it holds; None if it has a dictionary or does not
    say, or is none."""
    if len(data) < 6 or data[:4] != bytes.fromhex("28b52ffd") or data[4] & 0x0B:
        return None, None  # magic number, reserved bit, dictionary flag
    single, size_flag = data[4] >> 5 & 1, data[4] >> 6
    size_bytes = (1 if single else 0, 2, 4, 8)[size_flag]
    at = 5 + (not single)
    size = int.from_bytes(data[at : at + size_bytes], "little") + (256 if size_bytes == 2 else 0)
    at += size_bytes
    if not size_bytes:
        return None, None
    while at + 3 <= len(data):
        block = int.from_bytes(data[at : at + 3], "little")
        at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
        if block & 1:
            return at + (4 if data[4] & 4 else 0), size
    return None, None

"""Digests: docs/WIRE_FORMAT.md, "Digest"."""
ALL = (1 << 64) - 1
PHI = 0x9E3779B97F4A7C15


def mix64(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & ALL
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & ALL
    return x ^ (x >> 31)


def term(index, bits):
    return mix64((((index + 1) * PHI) & ALL) ^ bits)


def tensor(words):
    """Digest of a tensor with these coded elements."""
    return sum(term(i, bits) for i, bits in enumerate(words)) & ALL


def root(tensors):
    return sum(term(t, digest) for t, digest in enumerate(tensors)) & ALL


def of_image(layout, image):
    """Digests of all tensors of the dense bytes of a layout."""
    digests = []
    for t in layout.tensors:
        w = t.dtype.width
        digests.append(tensor(int.from_bytes(image[i : i + w], "little") for i in range(t.at, t.at + t.words * w, w)))
    return digests

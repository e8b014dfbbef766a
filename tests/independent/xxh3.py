"""XXH3 of 64 bits with seed 0, as its specification has it."""
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
ALL, LOW = (1 << 64) - 1, (1 << 32) - 1
P32 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MX = 0x165667919E3779F9, 0x9FB21C651E98DF25


def word(data, at, size=8):
    return int.from_bytes(data[at : at + size], "little")


def rotated(x, bits):
    return (x << bits | x >> (64 - bits)) & ALL


def folded(a, b):
    return (a * b & ALL) ^ (a * b >> 64)


def avalanche(h):
    h = (h ^ h >> 37) * MX[0] & ALL
    return h ^ h >> 32


def avalanche64(h):
    h = (h ^ h >> 33) * P64[1] & ALL
    h = (h ^ h >> 29) * P64[2] & ALL
    return h ^ h >> 32


def mix16(data, at, secret):
    return folded(word(data, at) ^ word(SECRET, secret), word(data, at + 8) ^ word(SECRET, secret + 8))


def short(data):
    """At most 16 bytes."""
    n = len(data)
    if n > 8:
        low = word(data, 0) ^ word(SECRET, 24) ^ word(SECRET, 32)
        high = word(data, n - 8) ^ word(SECRET, 40) ^ word(SECRET, 48)
        return avalanche((n + int.from_bytes(low.to_bytes(8, "little"), "big") + high + folded(low, high)) & ALL)
    if n > 3:
        h = (word(data, n - 4, 4) + (word(data, 0, 4) << 32)) ^ word(SECRET, 8) ^ word(SECRET, 16)
        h = (h ^ rotated(h, 49) ^ rotated(h, 24)) * MX[1] & ALL
        h = (h ^ ((h >> 35) + n)) * MX[1] & ALL
        return h ^ h >> 28
    if n:
        h = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return avalanche64(h ^ word(SECRET, 0, 4) ^ word(SECRET, 4, 4))
    return avalanche64(word(SECRET, 56) ^ word(SECRET, 64))


def middle(data):
    """17 to 240 bytes."""
    n = len(data)
    h = n * P64[0]
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            h += mix16(data, 16 * i, 32 * i) + mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(h & ALL)
    h = avalanche((h + sum(mix16(data, 16 * i, 16 * i) for i in range(8))) & ALL)
    h += sum(mix16(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, n // 16))
    return avalanche((h + mix16(data, n - 16, 119)) & ALL)


def stripe(sums, data, at, secret):
    for i in range(8):
        bits = word(data, at + 8 * i)
        key = bits ^ word(SECRET, secret + 8 * i)
        sums[i ^ 1] = (sums[i ^ 1] + bits) & ALL
        sums[i] = (sums[i] + (key & LOW) * (key >> 32)) & ALL


def long(data):
    n = len(data)
    sums = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]
    for number in range((n - 1) // 64):
        stripe(sums, data, 64 * number, 8 * (number % 16))
        if number % 16 == 15:
            sums = [((s ^ s >> 47) ^ word(SECRET, 128 + 8 * i)) * P32[0] & ALL for i, s in enumerate(sums)]
    stripe(sums, data, n - 64, 121)
    h = n * P64[0]
    for i in range(4):
        h += folded(sums[2 * i] ^ word(SECRET, 11 + 16 * i), sums[2 * i + 1] ^ word(SECRET, 19 + 16 * i))
    return avalanche(h & ALL)


def xxh3(data):
    return short(data) if len(data) <= 16 else middle(data) if len(data) <= 240 else long(data)

"""What each instruction of gfx9 (gfx908 to gfx950) computes, as Python expressions: a, b, c are its sources in the order
in which the disassembler writes them, r its result before it is cut to its width. Integer instructions only; one that is
not here is an error when a kernel holds it, whether or not it is reached."""

M32, M64 = 0xffffffff, 0xffffffffffffffff


def ones(x):
    return x.bit_count()


def high(x, width):
    """Zeros above the highest one; all ones where there is none."""
    return width - x.bit_length() if x else M32


def low(x):
    return (x & -x).bit_length() - 1 if x else M32


def signed(x, width=32):
    x &= (1 << width) - 1
    return x - (1 << width) if x >> (width - 1) else x


def mirrored(x, width=32):
    return int(f"{x:0{width}b}"[::-1], 2)


def perm(a, b, selectors):
    """Four bytes chosen out of eight: those of b are 0 to 3, those of a 4 to 7."""
    both, out = a << 32 | b, 0
    for at in range(4):
        chosen = selectors >> 8 * at & 255
        if chosen >= 13:
            byte = 255
        elif chosen == 12:
            byte = 0
        elif chosen >= 8:
            byte = 255 * (both >> (16 * (chosen - 8) + 15) & 1)
        else:
            byte = both >> 8 * chosen & 255
        out |= byte << 8 * at
    return out


def table3(a, b, c, table):
    """Each bit of the result is the bit of the table that the three source bits number."""
    out = 0
    for number in range(8):
        if table >> number & 1:
            out |= (a if number & 4 else ~a) & (b if number & 2 else ~b) & (c if number & 1 else ~c)
    return out


def median(a, b, c):
    return sorted((a, b, c))[1]


# name: expression of 32-bit sources and result
VECTOR = {
    "v_mov_b32": "a", "v_not_b32": "~a", "v_bfrev_b32": "mirrored(a)", "v_ffbh_u32": "high(a, 32)", "v_ffbl_b32": "low(a)",
    "v_add_u32": "a + b", "v_sub_u32": "a - b", "v_subrev_u32": "b - a",
    "v_add_i32": "a + b", "v_sub_i32": "a - b",
    "v_and_b32": "a & b", "v_or_b32": "a | b", "v_xor_b32": "a ^ b", "v_xnor_b32": "~(a ^ b)",
    "v_lshlrev_b32": "b << (a & 31)", "v_lshrrev_b32": "b >> (a & 31)", "v_ashrrev_i32": "signed(b) >> (a & 31)",
    "v_min_u32": "min(a, b)", "v_max_u32": "max(a, b)",
    "v_min_i32": "min(signed(a), signed(b))", "v_max_i32": "max(signed(a), signed(b))",
    "v_bcnt_u32_b32": "ones(a) + b", "v_bfm_b32": "((1 << (a & 31)) - 1) << (b & 31)",
    "v_mul_lo_u32": "a * b", "v_mul_hi_u32": "a * b >> 32", "v_mul_hi_i32": "signed(a) * signed(b) >> 32",
    "v_mul_u32_u24": "(a & 0xffffff) * (b & 0xffffff)", "v_mul_hi_u32_u24": "(a & 0xffffff) * (b & 0xffffff) >> 32",
    "v_mul_i32_i24": "signed(a, 24) * signed(b, 24)",
    "v_mad_u32_u24": "(a & 0xffffff) * (b & 0xffffff) + c", "v_mad_i32_i24": "signed(a, 24) * signed(b, 24) + c",
    "v_add3_u32": "a + b + c", "v_lshl_add_u32": "(a << (b & 31)) + c", "v_add_lshl_u32": "(a + b) << (c & 31)",
    "v_lshl_or_b32": "(a << (b & 31)) | c", "v_and_or_b32": "(a & b) | c", "v_or3_b32": "a | b | c",
    "v_xad_u32": "(a ^ b) + c", "v_bfi_b32": "(a & b) | (~a & c)",
    "v_bfe_u32": "(a >> (b & 31)) & ((1 << (c & 31)) - 1)",
    "v_bfe_i32": "signed(a >> (b & 31), c & 31) if c & 31 else 0",
    "v_alignbit_b32": "(a << 32 | b) >> (c & 31)", "v_alignbyte_b32": "(a << 32 | b) >> 8 * (c & 3)",
    "v_perm_b32": "perm(a, b, c)", "v_sad_u32": "abs(a - b) + c",
    "v_min3_u32": "min(a, b, c)", "v_max3_u32": "max(a, b, c)", "v_med3_u32": "median(a, b, c)",
    "v_min3_i32": "min(signed(a), signed(b), signed(c))", "v_max3_i32": "max(signed(a), signed(b), signed(c))",
    "v_med3_i32": "median(signed(a), signed(b), signed(c))",
    "v_mbcnt_lo_u32_b32": "ones(a & ((1 << min(lane, 32)) - 1)) + b",
    "v_mbcnt_hi_u32_b32": "ones(a & ((1 << max(lane - 32, 0)) - 1)) + b",
    "v_bitop3_b32": "table3(a, b, c, TABLE)",
}

# With the modifier clamp: what does not fit becomes the nearest that does.
CLAMPED = {"v_add_u32": "min(a + b, 4294967295)", "v_sub_u32": "max(a - b, 0)", "v_subrev_u32": "max(b - a, 0)",
           "v_add_u16": "min(a + b, 65535)", "v_sub_u16": "max(a - b, 0)", "v_subrev_u16": "max(b - a, 0)"}

# The same with sources and result of 16 bits; the upper half of the result is zero.
VECTOR16 = {
    "v_add_u16": "a + b", "v_sub_u16": "a - b", "v_subrev_u16": "b - a", "v_mul_lo_u16": "a * b",
    "v_lshlrev_b16": "b << (a & 15)", "v_lshrrev_b16": "b >> (a & 15)", "v_ashrrev_i16": "signed(b, 16) >> (a & 15)",
    "v_min_u16": "min(a, b)", "v_max_u16": "max(a, b)", "v_mad_u16": "a * b + c", "v_mad_legacy_u16": "a * b + c",
    "v_min_i16": "min(signed(a, 16), signed(b, 16))", "v_max_i16": "max(signed(a, 16), signed(b, 16))",
}

# The same on both halves of a word.
PACKED16 = {"v_pk_add_u16": "a + b", "v_pk_sub_u16": "a - b", "v_pk_sub_i16": "a - b", "v_pk_add_i16": "a + b",
            "v_pk_mul_lo_u16": "a * b", "v_pk_mad_u16": "a * b + c",
            "v_pk_lshlrev_b16": "b << (a & 15)", "v_pk_lshrrev_b16": "b >> (a & 15)",
            "v_pk_min_u16": "min(a, b)", "v_pk_max_u16": "max(a, b)"}

# name: widths of result and sources in words, expression
WIDE = {
    "v_mov_b64": (2, (2,), "a"),
    "v_lshlrev_b64": (2, (1, 2), "b << (a & 63)"), "v_lshrrev_b64": (2, (1, 2), "b >> (a & 63)"),
    "v_ashrrev_i64": (2, (1, 2), "signed(b, 64) >> (a & 63)"),
    "v_lshl_add_u64": (2, (2, 1, 2), "(a << (b & 7)) + c"),
}

# The last source and the second result are masks of a bit a lane. The expression may be negative or beyond 32 bits: that
# is the carry.
CARRY = {
    "v_add_co_u32": "a + b", "v_sub_co_u32": "a - b", "v_subrev_co_u32": "b - a",
    "v_addc_co_u32": "a + b + carry", "v_subb_co_u32": "a - b - carry", "v_subbrev_co_u32": "b - a - carry",
}

COMPARE = {"eq": "a == b", "ne": "a != b", "lg": "a != b", "lt": "a < b", "le": "a <= b", "gt": "a > b", "ge": "a >= b"}

SAVEEXEC = {"and": "a & x", "or": "a | x", "xor": "a ^ x", "andn2": "a & ~x", "orn2": "a | ~x", "nand": "~(a & x)",
            "nor": "~(a | x)", "xnor": "~(a ^ x)", "andn1": "~a & x", "orn1": "~a | x"}

NOT_ZERO, CARRIES, BORROWS, OVERFLOWS = "r != 0", "r > M32", "r < 0", "not -2147483648 <= r < 2147483648"

# name: widths of result and sources in words, expression, what becomes of SCC (None: stays)
SCALAR = {
    "s_mov_b32": (1, (1,), "a", None), "s_mov_b64": (2, (2,), "a", None), "s_movk_i32": (1, (1,), "signed(a, 16)", None),
    "s_add_u32": (1, (1, 1), "a + b", CARRIES), "s_addc_u32": (1, (1, 1), "a + b + scc", CARRIES),
    "s_sub_u32": (1, (1, 1), "a - b", BORROWS), "s_subb_u32": (1, (1, 1), "a - b - scc", BORROWS),
    "s_add_i32": (1, (1, 1), "signed(a) + signed(b)", OVERFLOWS),
    "s_sub_i32": (1, (1, 1), "signed(a) - signed(b)", OVERFLOWS),
    "s_addk_i32": (1, (0, 1), "signed(a) + signed(b, 16)", OVERFLOWS),
    "s_mulk_i32": (1, (0, 1), "signed(a) * signed(b, 16)", None),
    "s_mul_i32": (1, (1, 1), "a * b", None), "s_mul_hi_u32": (1, (1, 1), "a * b >> 32", None),
    "s_mul_hi_i32": (1, (1, 1), "signed(a) * signed(b) >> 32", None),
    "s_min_u32": (1, (1, 1), "min(a, b)", "a < b"), "s_max_u32": (1, (1, 1), "max(a, b)", "a > b"),
    "s_min_i32": (1, (1, 1), "min(signed(a), signed(b))", "signed(a) < signed(b)"),
    "s_max_i32": (1, (1, 1), "max(signed(a), signed(b))", "signed(a) > signed(b)"),
    "s_abs_i32": (1, (1,), "abs(signed(a))", NOT_ZERO),
    "s_lshl_b32": (1, (1, 1), "a << (b & 31)", NOT_ZERO), "s_lshl_b64": (2, (2, 1), "a << (b & 63)", NOT_ZERO),
    "s_lshr_b32": (1, (1, 1), "a >> (b & 31)", NOT_ZERO), "s_lshr_b64": (2, (2, 1), "a >> (b & 63)", NOT_ZERO),
    "s_ashr_i32": (1, (1, 1), "signed(a) >> (b & 31)", NOT_ZERO),
    "s_ashr_i64": (2, (2, 1), "signed(a, 64) >> (b & 63)", NOT_ZERO),
    "s_bfm_b32": (1, (1, 1), "((1 << (a & 31)) - 1) << (b & 31)", None),
    "s_bfm_b64": (2, (1, 1), "((1 << (a & 63)) - 1) << (b & 63)", None),
    "s_bfe_u32": (1, (1, 1), "a >> (b & 31) & ((1 << (b >> 16 & 127)) - 1)", NOT_ZERO),
    "s_bfe_u64": (2, (2, 1), "a >> (b & 63) & ((1 << (b >> 16 & 127)) - 1)", NOT_ZERO),
    "s_bfe_i32": (1, (1, 1), "signed(a >> (b & 31), b >> 16 & 127) if b >> 16 & 127 else 0", NOT_ZERO),
    "s_not_b32": (1, (1,), "~a", NOT_ZERO), "s_not_b64": (2, (2,), "~a", NOT_ZERO),
    "s_brev_b32": (1, (1,), "mirrored(a)", None), "s_brev_b64": (2, (2,), "mirrored(a, 64)", None),
    "s_bcnt1_i32_b32": (1, (1,), "ones(a)", NOT_ZERO), "s_bcnt1_i32_b64": (1, (2,), "ones(a)", NOT_ZERO),
    "s_bcnt0_i32_b32": (1, (1,), "32 - ones(a)", NOT_ZERO), "s_bcnt0_i32_b64": (1, (2,), "64 - ones(a)", NOT_ZERO),
    "s_ff1_i32_b32": (1, (1,), "low(a)", None), "s_ff1_i32_b64": (1, (2,), "low(a)", None),
    "s_flbit_i32_b32": (1, (1,), "high(a, 32)", None), "s_flbit_i32_b64": (1, (2,), "high(a, 64)", None),
    "s_sext_i32_i8": (1, (1,), "signed(a, 8)", None), "s_sext_i32_i16": (1, (1,), "signed(a, 16)", None),
    "s_pack_ll_b32_b16": (1, (1, 1), "(a & 0xffff) | b << 16", None),
    "s_pack_lh_b32_b16": (1, (1, 1), "(a & 0xffff) | (b & 0xffff0000)", None),
    "s_pack_hh_b32_b16": (1, (1, 1), "a >> 16 | (b & 0xffff0000)", None),
    "s_cselect_b32": (1, (1, 1), "a if scc else b", None), "s_cselect_b64": (2, (2, 2), "a if scc else b", None),
    "s_cmov_b32": (1, (1, 0), "a if scc else b", None), "s_cmov_b64": (2, (2, 0), "a if scc else b", None),
    "s_bitset0_b32": (1, (1, 0), "b & ~(1 << (a & 31))", None), "s_bitset1_b32": (1, (1, 0), "b | 1 << (a & 31)", None),
    "s_bitset0_b64": (2, (1, 0), "b & ~(1 << (a & 63))", None), "s_bitset1_b64": (2, (1, 0), "b | 1 << (a & 63)", None),
}
for shift in range(1, 5):
    SCALAR[f"s_lshl{shift}_add_u32"] = (1, (1, 1), f"(a << {shift}) + b", CARRIES)
for act, said in (("and", "a & b"), ("or", "a | b"), ("xor", "a ^ b"), ("andn2", "a & ~b"), ("orn2", "a | ~b"),
                  ("nand", "~(a & b)"), ("nor", "~(a | b)"), ("xnor", "~(a ^ b)")):
    SCALAR[f"s_{act}_b32"] = (1, (1, 1), said, NOT_ZERO)
    SCALAR[f"s_{act}_b64"] = (2, (2, 2), said, NOT_ZERO)

# Those that have no effect here: memory is in order, all waves run.
NOTHING = {"s_waitcnt", "s_nop", "s_sleep", "s_setprio", "s_inst_prefetch", "buffer_wbl2", "buffer_inv",
           "buffer_wbinvl1", "buffer_wbinvl1_vol", "s_dcache_wb", "s_icache_inv"}

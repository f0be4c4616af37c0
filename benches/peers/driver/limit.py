"""The hardware limit of one rotation: counts of work times micro-benchmarks of the same run."""

MICRO_OPS = ("limit_ntt", "limit_convert", "limit_inner", "limit_read")


def counts(info):
    """Work of one hybrid key switch.

    `info` has "limbs" (l), "special" (k) and "digits" (limbs of each digit d of the ciphertext).
    Transforms: l inverse of c1, l + k - |d| forward for each digit, 2 k inverse and 2 l forward of the division
    by P. Base conversions, in (source, target) limb pairs: |d| (l + k - |d|) for each digit and 2 k l for the
    division. Inner product: 2 (l + k) limbs, each a sum of one product for each digit.
    """
    limbs, special = info["limbs"], info["special"]
    raised = [limbs + special - d for d in info["digits"]]
    return {
        "ntt": limbs + sum(raised) + 2 * special + 2 * limbs,
        "convert": sum(d * r for d, r in zip(info["digits"], raised)) + 2 * special * limbs,
        "inner": 2 * (limbs + special),
    }


def limit_ms(info, micro):
    """The limit in milliseconds from `micro`, the milliseconds of each micro-benchmark.

    The inner product takes the longer of its arithmetic and of reading the key from memory once.
    """
    n = counts(info)
    return (
        n["ntt"] * micro["limit_ntt"]
        + n["convert"] * micro["limit_convert"]
        + max(n["inner"] * micro["limit_inner"], micro["limit_read"])
    )

"""The hardware limit of rotations: counts of work times micro-benchmarks of the same run."""

MICRO_OPS = ("limit_ntt", "limit_convert", "limit_inner", "limit_read")


# Rotations of one ciphertext in one operation, which share the raising of its digits.
ROTATIONS = {"rotate": 1, "hoisted8": 8}


def counts(info, rotations=1):
    """Work of hybrid key switches of one polynomial.

    `info` has "limbs" (l), "special" (k) and "digits" (limbs of each digit d of the ciphertext).
    Transforms: l inverse of c1, l + k - |d| forward for each digit, 2 k inverse and 2 l forward of the division
    by P. Base conversions, in (source, target) limb pairs: |d| (l + k - |d|) for each digit and 2 k l for the
    division. Inner product: 2 (l + k) limbs, each a sum of one product for each digit. The digits are raised once for
    all rotations.
    """
    limbs, special = info["limbs"], info["special"]
    raised = [limbs + special - d for d in info["digits"]]
    return {
        "ntt": limbs + sum(raised) + rotations * (2 * special + 2 * limbs),
        "convert": sum(d * r for d, r in zip(info["digits"], raised)) + rotations * 2 * special * limbs,
        "inner": rotations * 2 * (limbs + special),
    }


def limit_ms(info, micro, op="rotate"):
    """The limit in milliseconds from `micro`, the milliseconds of each micro-benchmark.

    The inner product takes the longer of its arithmetic and of reading the key of each rotation from memory once.
    """
    rotations = ROTATIONS[op]
    n = counts(info, rotations)
    return (
        n["ntt"] * micro["limit_ntt"]
        + n["convert"] * micro["limit_convert"]
        + max(n["inner"] * micro["limit_inner"], rotations * micro["limit_read"])
    )

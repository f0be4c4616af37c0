"""Which rows there are: operating point, operation, peer, and the bar that the ratio must reach."""

import json
import os

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

LIMIT = "hardware limit"

CKKS_POINTS = ("A", "B2", "C", "Cmid")
NTT_POINTS = ("N13", "N14", "N15", "N16")

# peer_ms / ours_ms must be at least this.
OPENFHE_BARS = {
    "mul_relin_rescale": 6.0,
    "rotate": 6.0,
    "hoisted8": 8.0,
    "plain_multiply_accumulate": 3.0,
    "encode": 3.0,
    "encrypt": 3.0,
    "decrypt": 3.0,
}
POULPY_BARS = {
    "mul_relin_rescale": {"A": 2.5, "B2": 3.2, "C": 3.2, "Cmid": 3.2},
    "rotate": {"A": None, "B2": 1.6, "C": 1.8, "Cmid": 1.8},
}
TENSEAL_OPS = ("mul_relin_rescale", "rotate", "encode_encrypt", "decrypt_decode")
NTT_BAR = 1.0
# ours_ms / limit_ms may be at most this.
LIMIT_BAR = 1.5


def points():
    """The operating points by name: title, group (points that share keys), parameters of each worker."""
    with open(os.path.join(HERE, "points.json"), encoding="utf-8") as f:
        return json.load(f)


def all_rows():
    """Every row in the order of measurement: points of a group, then peers, then operations."""
    rows = []

    def add(point, op, peer, bar, bar_is="at least"):
        rows.append({"point": point, "op": op, "peer": peer, "bar": bar, "bar_is": bar_is})

    for point in NTT_POINTS:
        for op in ("ntt_forward", "ntt_inverse"):
            add(point, op, "tfhe-ntt", NTT_BAR)
    for point in CKKS_POINTS:
        add(point, "rotate", LIMIT, LIMIT_BAR, "at most")
        add(point, "hoisted8", LIMIT, None, "at most")
        for op, bar in OPENFHE_BARS.items():
            add(point, op, "openfhe", bar)
        if point == "A":
            for op in ("mul_relin_rescale", "rotate", "hoisted8"):
                add(point, op, "openfhe-dnum4", None)
        for op, bars in POULPY_BARS.items():
            add(point, op, "poulpy", bars[point])
        if point == "A":
            for op in TENSEAL_OPS:
                add(point, op, "tenseal", None)
    return rows


def select(rows, points=None, ops=None, peers=None):
    """The rows that match all given lists. Raises ValueError for a name that no row has."""
    for field, wanted in (("point", points), ("op", ops), ("peer", peers)):
        if wanted is None:
            continue
        known = {row[field] for row in rows}
        unknown = [w for w in wanted if w not in known]
        if unknown:
            raise ValueError(f"no {field} {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [
        row
        for row in rows
        if (points is None or row["point"] in points)
        and (ops is None or row["op"] in ops)
        and (peers is None or row["peer"] in peers)
    ]

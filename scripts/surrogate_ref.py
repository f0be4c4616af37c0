"""The surrogate network in numpy, written independently of the Rust code, as a reference for it.

Reads models/mamba2-moviedoc (weights, config, calibration.json: only the ranges of the norms) and
documents/documents.jsonl; writes documents/surrogate_logits.json with the logits of every stack at the last
128 and the last 512 tokens, and of the exact network in the same code.

    python3 -m venv /tmp/surrogate && /tmp/surrogate/bin/pip install numpy safetensors tokenizers
    /tmp/surrogate/bin/python scripts/surrogate_ref.py
"""
import json
import pathlib

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "mamba2-moviedoc"
LENGTHS = (128, 512)
CUT = 8.0

# (tau, coefficients in x^2): x/2 + polynomial inside [-tau, tau), x above, 0 below.
SILU_D4 = (4.0, (0.0348171326882073828, 0.193108211964754248, -0.00480980662758144127))
SILU_D8 = (6.0, (0.01413565039109039, 0.2202483463275159, -0.009968636046575791, 0.0002766191686625504, -2.952245706322331e-6))
SOFTPLUS_D4 = (4.0, (0.702285548801861473, 0.111448544190654504, -0.00186113553193921858))
SOFTPLUS_D8 = (6.0, (0.6960582841146777, 0.1193511569672855, -0.003337065564758964, 7.718231177933895e-5, -7.55718164034623e-7))
# (division of the argument, coefficients): the fourth power of a polynomial in z/4, or a polynomial in z.
EXP_GD = (4, (1.0, 0.9994142017285575, 0.49381676439348915, 0.14866109646482964, 0.022110383608065987))
EXP_D4 = (1, (0.979672060420294988, 0.830917198136501611, 0.265791077491415943, 0.0366022939990386857, 0.00181105334349035941))

# name: SiLU, softplus, exponential, Newton steps
STACKS = {
    "paper": (SILU_D4, SOFTPLUS_D4, EXP_D4, 1),
    "d4": (SILU_D4, SOFTPLUS_D4, EXP_GD, 1),
    "mid": (SILU_D4, SOFTPLUS_D8, EXP_GD, 2),
    "tight": (SILU_D8, SOFTPLUS_D8, EXP_GD, 2),
}


def power_sum(coefficients, x):
    return sum(c * x**k for k, c in enumerate(coefficients))


def even_residual(table, x):
    tau, coefficients = table
    inside = x / 2 + power_sum(coefficients, x * x)
    return np.where(x >= tau, x, np.where(x < -tau, 0.0, inside))


def decay(table, z):
    division, coefficients = table
    return np.where(z < -CUT, 0.0, power_sum(coefficients, z / division) ** division)


def inverse_root(v_min, v_max, newton, v):
    """Eight buckets of equal ratio and Newton steps, centred by a factor on the first value only."""
    rho = (v_max / v_min) ** 0.125
    s = np.sqrt(rho)
    z0 = np.sqrt(3.0 / (1.0 + s + s * s))  # z(3 - z^2)/2 is equal at z0 and at z0*s
    scale = 2.0 / (1.0 + z0 * (3.0 - z0 * z0) / 2.0)
    v = np.clip(v, v_min, v_max)
    bucket = np.zeros(v.shape, dtype=int)
    for j in range(1, 8):
        bucket += v >= v_min * rho**j
    first = z0 / np.sqrt(v_min * rho**bucket)
    y = scale * first * (1.5 - 0.5 * v * first**2)
    for _ in range(newton - 1):
        y = y * (1.5 - 0.5 * v * y * y)
    return y


class Functions:
    """The exact functions, or those of a stack with the calibrated ranges of the norms."""

    def __init__(self, stack=None, norms=None):
        self.stack = STACKS[stack] if stack else None
        self.norms = norms

    def silu(self, x):
        return even_residual(self.stack[0], x) if self.stack else x / (1.0 + np.exp(-x))

    def softplus(self, x):
        return even_residual(self.stack[1], x) if self.stack else np.logaddexp(0.0, x)

    def exp(self, z):
        return decay(self.stack[2], z) if self.stack else np.exp(z)

    def inverse_root(self, norm, v):
        if not self.stack:
            return 1.0 / np.sqrt(v)
        kind, layer = norm
        table = self.norms["last"] if kind == "last" else self.norms[kind][layer]
        return inverse_root(table["v_min"], table["v_max"], self.stack[3], v)


def rms_norm(f, norm, weight, epsilon, x):
    v = (x * x).mean(-1, keepdims=True) + epsilon
    return x * f.inverse_root(norm, v) * weight


def mixer(f, config, get, layer, u):
    heads, width, state = config["num_heads"], config["head_dim"], config["state_size"]
    inner = heads * width
    length = len(u)
    p = f"backbone.layers.{layer}.mixer."
    z, xbc, dt = np.split(u @ get(p + "in_proj.weight").T, [inner, 2 * inner + 2 * state], axis=1)
    taps = get(p + "conv1d.weight")[:, 0, :]
    padded = np.vstack([np.zeros((taps.shape[1] - 1, xbc.shape[1])), xbc])
    xbc = sum(padded[k : k + length] * taps[:, k] for k in range(taps.shape[1])) + get(p + "conv1d.bias")
    x, b, c = np.split(f.silu(xbc), [inner, inner + state], axis=1)
    x = x.reshape(length, heads, width)
    step = f.softplus(dt + get(p + "dt_bias"))
    keep = f.exp(step * -np.exp(get(p + "A_log")))
    s = np.zeros((heads, width, state))
    y = np.empty_like(x)
    for t in range(length):
        s = keep[t][:, None, None] * s + (step[t][:, None] * x[t])[:, :, None] * b[t]
        y[t] = s @ c[t] + get(p + "D")[:, None] * x[t]
    gated = y.reshape(length, inner) * f.silu(z)
    normed = rms_norm(f, ("gated", layer), get(p + "norm.weight"), config["layer_norm_epsilon"], gated)
    return normed @ get(p + "out_proj.weight").T


def forward(f, config, weights, ids):
    get = lambda name: weights[name]
    h = get("backbone.embeddings.weight")[ids]
    epsilon = config["layer_norm_epsilon"]
    for layer in range(config["num_hidden_layers"]):
        u = rms_norm(f, ("pre", layer), get(f"backbone.layers.{layer}.norm.weight"), epsilon, h)
        h = h + mixer(f, config, get, layer, u)
    h = rms_norm(f, ("last", None), get("backbone.norm_f.weight"), epsilon, h)
    return h.mean(0) @ get("classifier.weight").T + get("classifier.bias")


def main():
    config = json.loads((MODEL / "config.json").read_text())
    norms = json.loads((MODEL / "calibration.json").read_text())["norms"]
    weights = {k: v.astype(np.float64) for k, v in load_file(str(MODEL / "model.safetensors")).items()}
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    functions = {"exact": Functions()}
    functions.update({stack: Functions(stack, norms) for stack in STACKS})
    rows = []
    worst = {name: 0.0 for name in functions}
    for line in open(ROOT / "documents" / "documents.jsonl", encoding="utf-8"):
        document = json.loads(line)
        ids = tokenizer.encode(document["text"]).ids
        row = {"id": document["id"], "tokens": len(ids)}
        for length in LENGTHS:
            got = {n: forward(f, config, weights, ids[-length:]) for n, f in functions.items()}
            row[f"tail{length}"] = {n: v.tolist() for n, v in got.items()}
            for n, v in got.items():
                worst[n] = max(worst[n], float(abs(v - got["exact"]).max()))
        rows.append(row)
    out = {"made_by": "scripts/surrogate_ref.py", "model": "models/mamba2-moviedoc", "norms": norms, "documents": rows}
    (ROOT / "documents" / "surrogate_logits.json").write_text(json.dumps(out, indent=1) + "\n")
    print("largest logit difference from the exact network:", worst)


if __name__ == "__main__":
    main()

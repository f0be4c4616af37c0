"""Worker for OpenFHE's Python wheel: CKKS with FIXEDMANUAL rescaling and HYBRID key switching."""

import sys
from importlib.metadata import version

import numpy
import openfhe

from worker_loop import Failure, Operation, max_error, serve, test_values

ROTATIONS = list(range(1, 9))
# FIXEDMANUAL takes every prime for the scale itself: at 2^16 they differ from it by up to about 2^-15.
TOLERANCE = 1e-4


class Prepared:
    """One context with its keys; kept while only the number of limbs changes."""

    def __init__(self, params):
        self.params = params
        p = openfhe.CCParamsCKKSRNS()
        p.SetMultiplicativeDepth(params["limbs"] - 1)
        p.SetFirstModSize(params["first_bits"])
        p.SetScalingModSize(params["scale_bits"])
        p.SetScalingTechnique(openfhe.ScalingTechnique.FIXEDMANUAL)
        p.SetKeySwitchTechnique(openfhe.KeySwitchTechnique.HYBRID)
        p.SetNumLargeDigits(params["dnum"])
        p.SetSecretKeyDist(openfhe.SecretKeyDist.UNIFORM_TERNARY)
        p.SetSecurityLevel(getattr(openfhe.SecurityLevel, params["security"]))
        p.SetRingDim(1 << params["log_n"])
        p.SetBatchSize(1 << (params["log_n"] - 1))
        self.cc = cc = openfhe.GenCryptoContext(p)
        for feature in ("PKE", "KEYSWITCH", "LEVELEDSHE"):
            cc.Enable(getattr(openfhe.PKESchemeFeature, feature))
        if cc.GetRingDimension() != 1 << params["log_n"]:
            raise Failure(f"ring dimension {cc.GetRingDimension()} instead of {1 << params['log_n']}")
        self.keys = cc.KeyGen()
        cc.EvalMultKeyGen(self.keys.secretKey)
        cc.EvalRotateKeyGen(self.keys.secretKey, ROTATIONS)


def operations(prepared, limbs):
    """The operations with ciphertexts and plaintexts of `limbs` towers."""
    cc, keys = prepared.cc, prepared.keys
    total = prepared.params["limbs"]
    level = total - limbs
    slots = cc.GetRingDimension() // 2
    # The array is the wheel's fast path: it does not convert a list element by element.
    a, b = (numpy.array(test_values(slots, seed)) for seed in (1, 2))

    def encode(values):
        return cc.MakeCKKSPackedPlaintext(values, 1, level)

    def decrypt(ct):
        return cc.Decrypt(keys.secretKey, ct)

    def values_of(plain):
        plain.SetLength(slots)
        return plain.GetRealPackedValue()

    def decrypted_error(want):
        return lambda ct: max_error(values_of(decrypt(ct)), want)

    pt_b = encode(b)
    ct_a, ct_b = (cc.Encrypt(keys.publicKey, encode(v)) for v in (a, b))
    if ct_a.GetLevel() != level:
        raise Failure(f"a fresh ciphertext is at level {ct_a.GetLevel()} instead of {level}")
    pt_a = encode(a)
    acc = [cc.EvalMult(ct_b, pt_b)]
    m = 2 * cc.GetRingDimension()

    def accumulate():
        cc.EvalAddInPlace(acc[0], cc.EvalMult(ct_a, pt_b))
        return acc[0]

    def hoisted():
        digits = cc.EvalFastRotationPrecompute(ct_a)
        return [cc.EvalFastRotation(ct_a, k, m, digits) for k in ROTATIONS]

    def hoisted_error(cts):
        return max(decrypted_error(numpy.roll(a, -k))(ct) for k, ct in zip(ROTATIONS, cts))

    def encode_error(plain):
        return decrypted_error(a)(cc.Encrypt(keys.publicKey, plain))

    return {
        "mul_relin_rescale": Operation(
            lambda: cc.Rescale(cc.EvalMult(ct_a, ct_b)), decrypted_error(a * b), TOLERANCE,
            "EvalMult (with relinearisation), then Rescale"),
        "rotate": Operation(lambda: cc.EvalRotate(ct_a, 1), decrypted_error(numpy.roll(a, -1)), TOLERANCE),
        "hoisted8": Operation(hoisted, hoisted_error, TOLERANCE,
                              "EvalFastRotationPrecompute, then 8 EvalFastRotation"),
        "plain_multiply_accumulate": Operation(
            accumulate, decrypted_error(a * b + b * b), TOLERANCE, "EvalMult, then EvalAddInPlace"),
        "encode": Operation(lambda: encode(a), encode_error, TOLERANCE, "from a numpy array of N/2 reals"),
        "encrypt": Operation(lambda: cc.Encrypt(keys.publicKey, pt_a), decrypted_error(a), TOLERANCE),
        "decrypt": Operation(lambda: decrypt(ct_a), lambda p: max_error(values_of(p), a), TOLERANCE,
                             "Decrypt, which decodes; values stay in C++"),
    }


def main():
    state = {}

    def prepare(params):
        key = {k: v for k, v in params.items() if k != "ct_limbs"}
        if state.get("key") != key:
            state.clear()
            # The library keeps contexts and keys in static maps; free the last point's first.
            openfhe.CryptoContext.ClearStaticMapsAndVectors()
            openfhe.ReleaseAllContexts()
            state.update(key=key, prepared=Prepared(params))
        prepared = state["prepared"]
        limbs = params.get("ct_limbs", params["limbs"])
        info = {
            "library": "openfhe " + version("openfhe"),
            "security": params["security"],
            "key_switching": str(prepared.cc.GetKeySwitchTechnique()),
        }
        return info, operations(prepared, limbs)

    serve(prepare)


if __name__ == "__main__":
    sys.exit(main())

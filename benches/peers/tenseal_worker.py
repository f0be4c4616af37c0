"""Worker for TenSEAL's wheel: SEAL's own calls for products and rotations, TenSEAL's vectors for the rest."""

import sys
from importlib.metadata import version

import tenseal
from tenseal import sealapi

from worker_loop import Operation, max_error, serve, test_values

# SEAL's rotation leaves an error near 2^-18 with these primes.
TOLERANCE = 1e-4


def prepare(params):
    """The context with its keys, and the operations."""
    degree = 1 << params["log_n"]
    slots = degree // 2
    scale = float(1 << params["scale_bits"])
    a, b = test_values(slots, 1), test_values(slots, 2)
    product = [x * y for x, y in zip(a, b)]
    rotated = a[1:] + a[:1]

    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, poly_modulus_degree=degree,
                              coeff_mod_bit_sizes=params["coeff_bits"], n_threads=1)
    context.global_scale = scale
    vector = tenseal.ckks_vector(context, a)

    parameters = sealapi.EncryptionParameters(sealapi.SCHEME_TYPE.CKKS)
    parameters.set_poly_modulus_degree(degree)
    parameters.set_coeff_modulus(sealapi.CoeffModulus.Create(degree, params["coeff_bits"]))
    seal = sealapi.SEALContext(parameters, True, sealapi.SEC_LEVEL_TYPE.TC128)
    keygen = sealapi.KeyGenerator(seal)
    public, relin, galois = sealapi.PublicKey(), sealapi.RelinKeys(), sealapi.GaloisKeys()
    keygen.create_public_key(public)
    keygen.create_relin_keys(relin)
    # The wheel takes Galois elements here: 3 is the one of a rotation by one slot.
    keygen.create_galois_keys([3], galois)
    encoder = sealapi.CKKSEncoder(seal)
    encryptor = sealapi.Encryptor(seal, public)
    decryptor = sealapi.Decryptor(seal, keygen.secret_key())
    evaluator = sealapi.Evaluator(seal)

    def encrypt(values):
        plain, out = sealapi.Plaintext(), sealapi.Ciphertext()
        encoder.encode(values, scale, plain)
        encryptor.encrypt(plain, out)
        return out

    def decrypted_error(want):
        def error(ct):
            plain = sealapi.Plaintext()
            decryptor.decrypt(ct, plain)
            return max_error(encoder.decode_double(plain), want)
        return error

    ct_a, ct_b = encrypt(a), encrypt(b)

    def multiply():
        out = sealapi.Ciphertext()
        evaluator.multiply(ct_a, ct_b, out)
        evaluator.relinearize_inplace(out, relin)
        evaluator.rescale_to_next_inplace(out)
        return out

    def rotate():
        out = sealapi.Ciphertext()
        evaluator.rotate_vector(ct_a, 1, galois, out)
        return out

    operations = {
        "mul_relin_rescale": Operation(multiply, decrypted_error(product), TOLERANCE, "SEAL's calls"),
        "rotate": Operation(rotate, decrypted_error(rotated), TOLERANCE, "SEAL's call"),
        "encode_encrypt": Operation(
            lambda: tenseal.ckks_vector(context, a), lambda v: max_error(v.decrypt(), a), TOLERANCE,
            "ckks_vector of a Python list"),
        "decrypt_decode": Operation(
            lambda: vector.decrypt(), lambda got: max_error(got, a), TOLERANCE,
            "CKKSVector.decrypt to a Python list"),
    }
    return {"library": "tenseal " + version("tenseal"), "security": "TC128"}, operations


if __name__ == "__main__":
    sys.exit(serve(prepare))

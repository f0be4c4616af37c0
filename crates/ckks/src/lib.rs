//! Leveled CKKS: encoder, keys, encryption, evaluator, key switching.

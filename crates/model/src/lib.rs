//! Checkpoints, tokenizer, plaintext reference forward, calibration.

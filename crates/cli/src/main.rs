//! The `cipherloom` command.
fn main() {}

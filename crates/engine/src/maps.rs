//! Index maps between row-major tensors of shares and the slots of ciphertexts. Public, from the plan.

use crate::EngineError;
use cipherloom_bridge::{arrange, SlotWords, NO_VALUE};
use cipherloom_kernels::projection::{input_index, output_place};
use cipherloom_spec::layout::{SlotMap, ZERO_SLOT};
use cipherloom_spec::projection::MatrixLayout;

/// Words of all input ciphertexts of a projection, `[pair][group]` flattened, from a row-major `[tokens][inputs]` tensor.
///
/// # Errors
/// An index outside the tensor: the tensor has the wrong length.
pub fn projection_inputs(l: &MatrixLayout, words: &[i128]) -> Result<Vec<SlotWords>, EngineError> {
    let mut out = Vec::with_capacity(l.tokens.pairs() * l.groups());
    for pair in 0..l.tokens.pairs() {
        for group in 0..l.groups() {
            let lane = |lane: usize| -> Vec<u32> {
                (0..l.tokens.slots)
                    .map(|s| input_index(l, pair, group, lane, s).map_or(NO_VALUE, |i| i as u32))
                    .collect()
            };
            out.push(SlotWords::new(
                arrange(words, &lane(0))?,
                arrange(words, &lane(1))?,
            )?);
        }
    }
    Ok(out)
}

/// Gathers columns `from..from+width` of a projection's outputs into a row-major `[tokens][width]` tensor modulo 2^64. `words` are
/// the ciphertexts `[pair][block]` flattened, `blocks` a pair.
#[must_use]
pub fn projection_outputs(
    l: &MatrixLayout,
    words: &[SlotWords],
    blocks: usize,
    from: usize,
    width: usize,
) -> Vec<u64> {
    let rings: Vec<(Vec<u64>, Vec<u64>)> = words.iter().map(SlotWords::to_ring64).collect();
    let mut out = Vec::with_capacity(l.tokens.tokens * width);
    for t in 0..l.tokens.tokens {
        for o in from..from + width {
            let (pair, block, lane, slot) = output_place(l, t, o);
            let w = rings.get(pair * blocks + block).map_or(0, |(re, im)| {
                if lane == 0 {
                    re[slot]
                } else {
                    im[slot]
                }
            });
            out.push(w);
        }
    }
    out
}

/// Words of one scan packet ciphertext.
///
/// # Errors
/// An index outside the tensor.
pub fn packet_words(map: &SlotMap, words: &[i128]) -> Result<SlotWords, EngineError> {
    let pairs = map.gather(words, 0, |v: i128| -v)?;
    let (re, im): (Vec<i128>, Vec<i128>) = pairs.into_iter().unzip();
    Ok(SlotWords::new(re, im)?)
}

/// Scatters the real lane of one scan output ciphertext into a row-major tensor modulo 2^64.
///
/// # Errors
/// A map that does not fit.
pub fn scatter_output(
    map: &SlotMap,
    words: &SlotWords,
    tensor: &mut [u64],
) -> Result<(), EngineError> {
    let (re, _) = words.to_ring64();
    Ok(map.scatter_re(&re, tensor)?)
}

/// Whether a map entry is a value (for tests and counts).
#[must_use]
pub fn is_value(index: u32) -> bool {
    index != ZERO_SLOT
}

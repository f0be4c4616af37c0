//! Causal depthwise convolution on segment-column ciphertexts (protocols 9.5), after a projection.
//!
//! `y[t] = b + sum_tau w[c][taps-1-tau] x[t-tau]`. Within a tile a rotation by `-tau` brings row `r-tau` to row `r`; rows below `tau`
//! take from the tile before, which is in the same lane of the ciphertext before. The first ciphertext takes its imaginary
//! lane's tail from the real lane of the last one: `i (x + conj x)` with half the weights. One level.

use crate::projection::count;
use crate::{KernelError, SlotDomain};
use cipherloom_ckks::Complex64;
use cipherloom_spec::projection::{convolution_steps, MatrixLayout};
use cipherloom_spec::SpecError;

/// The encoded taps of one convolution over the output blocks of a projection.
pub struct EncodedConvolution<P> {
    layout: MatrixLayout,
    taps: usize,
    blocks: Vec<EncodedBlock<P>>,
}

struct EncodedBlock<P> {
    own: Vec<P>,
    tail: Vec<P>,
    /// Half weights for the first ciphertext; empty when lanes are not paired.
    first: Vec<P>,
    bias: P,
}

impl<P> EncodedConvolution<P> {
    /// Encodes `weight(channel, tap)` (tap `taps-1` meets the current token, as in the checkpoint) and `bias(channel)` for the
    /// outputs of the projection `layout` at `level`.
    ///
    /// # Errors
    /// `Spec` for fewer than 2 taps or more than the rows of a tile; encoding errors.
    pub fn encode<D: SlotDomain<Plain = P>>(
        dom: &D,
        layout: MatrixLayout,
        taps: usize,
        level: usize,
        weight: impl Fn(usize, usize) -> f64,
        bias: impl Fn(usize) -> f64,
    ) -> Result<Self, KernelError> {
        let (rows, seg) = (layout.tokens.rows, layout.tokens.segments());
        if taps < 2 || taps > rows {
            return Err(SpecError::Shape {
                what: "convolution",
                detail: format!("{taps} taps on tiles of {rows} rows; use 2 to {rows} taps"),
            }
            .into());
        }
        let paired = layout.tokens.paired();
        let encode_tap = |b: usize, tau: usize, own: bool, factor: f64| {
            let values: Vec<f64> = (0..layout.tokens.slots)
                .map(|s| {
                    let (c, r) = (b * seg + s / rows, s % rows);
                    if c < layout.outputs && (r >= tau) == own {
                        factor * weight(c, taps - 1 - tau)
                    } else {
                        0.0
                    }
                })
                .collect();
            dom.encode_real_factor(&values, level)
        };
        let mut blocks = Vec::with_capacity(layout.blocks());
        for b in 0..layout.blocks() {
            let own = (0..taps)
                .map(|t| encode_tap(b, t, true, 1.0))
                .collect::<Result<_, _>>()?;
            let tails = |f: f64| {
                (1..taps)
                    .map(|t| encode_tap(b, t, false, f))
                    .collect::<Result<Vec<_>, _>>()
            };
            let tail = if layout.tokens.pairs() > 1 {
                tails(1.0)?
            } else {
                Vec::new()
            };
            let first = if paired { tails(0.5)? } else { Vec::new() };
            let values: Vec<Complex64> = (0..layout.tokens.slots)
                .map(|s| {
                    let c = b * seg + s / rows;
                    let v = if c < layout.outputs { bias(c) } else { 0.0 };
                    Complex64 {
                        re: v,
                        im: if paired { v } else { 0.0 },
                    }
                })
                .collect();
            blocks.push(EncodedBlock {
                own,
                tail,
                first,
                bias: dom.encode_term(&values, level - 1)?,
            });
        }
        Ok(Self {
            layout,
            taps,
            blocks,
        })
    }

    /// The projection whose outputs are convolved.
    #[must_use]
    pub fn layout(&self) -> &MatrixLayout {
        &self.layout
    }
}

/// Convolves. `inputs[pair][block]` as a projection leaves them; result in the same order, one level lower.
///
/// Cost a block, with `k` taps and `p` ciphertexts along the tokens: `(k-1)(2p-1)` rotations, and if lanes are paired `k-1` more and
/// one conjugation; `k` plaintext products a ciphertext and `k-1` more where there is a tile before; one rescale a ciphertext.
///
/// # Errors
/// `Count` for another number of ciphertexts; `LevelMismatch`; missing keys.
pub fn convolve<D: SlotDomain>(
    dom: &D,
    conv: &EncodedConvolution<D::Plain>,
    inputs: Vec<Vec<D::Ct>>,
) -> Result<Vec<Vec<D::Ct>>, KernelError> {
    let l = conv.layout;
    let pairs = l.tokens.pairs();
    count("convolution input pairs", inputs.len(), pairs)?;
    for blocks in &inputs {
        count("convolution input blocks", blocks.len(), l.blocks())?;
    }
    let (own_steps, tail_steps) = convolution_steps(l.tokens.rows, conv.taps);
    let both: Vec<i64> = own_steps.iter().chain(&tail_steps).copied().collect();
    let mut out: Vec<Vec<D::Ct>> = (0..pairs).map(|_| Vec::with_capacity(l.blocks())).collect();
    for (b, w) in conv.blocks.iter().enumerate() {
        let mut before: Vec<D::Ct> = Vec::new();
        if l.tokens.paired() {
            let last = &inputs[pairs - 1][b];
            let mut real = dom.conjugate(last)?;
            dom.add_assign(&mut real, last)?;
            let lifted = dom.mul_by_i(&real)?;
            drop(real);
            before = dom.rotate_many(&lifted, &tail_steps)?;
        }
        for (j, blocks) in inputs.iter().enumerate() {
            let x = &blocks[b];
            let more = j + 1 < pairs;
            let mut rotated = dom.rotate_many(x, if more { &both } else { &own_steps })?;
            let next = rotated.split_off(own_steps.len());
            let tail = if j == 0 { &w.first } else { &w.tail };
            let mut acc = None;
            for (ct, plain) in std::iter::once(x).chain(&rotated).zip(&w.own) {
                dom.accumulate(&mut acc, ct, plain)?;
            }
            for (ct, plain) in before.iter().zip(tail) {
                dom.accumulate(&mut acc, ct, plain)?;
            }
            let mut y = dom.finish(acc.ok_or(KernelError::Empty { op: "convolution" })?)?;
            dom.add_plain_assign(&mut y, &w.bias)?;
            out[j].push(y);
            before = next;
        }
    }
    Ok(out)
}

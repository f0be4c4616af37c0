//! The stages of a block on shares, the same code at both parties.

use crate::configs::Configs;
use crate::face::{Face, Kernel, Slot};
use crate::maps::{packet_words, projection_inputs, projection_outputs, scatter_output};
use crate::EngineError;
use cipherloom_bridge::{extend, SlotWords};
use cipherloom_model::forward::label;
use cipherloom_mpc::{index_bits, MpcError, Party, Shares};
use cipherloom_net::FrameKind;
use cipherloom_nonlinear::{
    factors, gate, mosilu, pool_and_classify, rms_norm, NonlinearError, PoolKnown,
};
use cipherloom_plan::{Answer, Plan, Ring, Stage, StageKind};
use cipherloom_spec::fixed::{DEFAULT_FRAC, OUTPUT_BITS, OUTPUT_FRAC};
use cipherloom_spec::layout::ScanTensors;
use std::collections::BTreeMap;
use zeroize::{Zeroize, Zeroizing};

/// Tensors of shares by name.
#[derive(Default)]
pub struct Tensors {
    map: BTreeMap<&'static str, Shares>,
}

impl Drop for Tensors {
    fn drop(&mut self) {
        for s in self.map.values_mut() {
            s.v.zeroize();
        }
    }
}

impl Tensors {
    fn put(&mut self, name: &'static str, s: Shares) {
        if let Some(mut old) = self.map.insert(name, s) {
            old.v.zeroize();
        }
    }
    fn get(&self, stage: &Stage, name: &'static str, need: usize) -> Result<&Shares, EngineError> {
        match self.map.get(name) {
            Some(s) if s.len() == need => Ok(s),
            other => Err(EngineError::Tensor {
                stage: stage.name.clone(),
                tensor: name,
                have: other.map_or(0, Shares::len),
                need,
            }),
        }
    }
    /// All tensors, for the dump of a demo.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &Shares)> {
        self.map.iter().map(|(k, v)| (*k, v))
    }
}

fn shares(v: Vec<u64>) -> Shares {
    Shares {
        v,
        frac: DEFAULT_FRAC,
    }
}

/// What the client reads at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// Index of the largest logit, the lowest among equals.
    pub label: usize,
    /// The logits, if the plan opens them.
    pub logits: Option<Vec<f64>>,
}

/// What all stages opened to the client.
///
/// # Errors
/// `Tensor` for a plan without an output stage.
pub(crate) fn answered(opened: Option<Opened>) -> Result<Opened, EngineError> {
    opened.ok_or_else(|| EngineError::Tensor {
        stage: "output".into(),
        tensor: "answer",
        have: 0,
        need: 1,
    })
}

/// Runs one stage. Returns the answer at the client after the last one.
///
/// # Errors
/// Whatever the stage's protocols raise.
pub fn run_stage<F: Face>(
    face: &mut F,
    plan: &Plan,
    cfg: &Configs,
    stage: &Stage,
    t: &mut Tensors,
) -> Result<Option<Opened>, EngineError> {
    let shape = &plan.request().shape;
    let tokens = plan.request().length;
    let (hidden, inner, conv_dim, heads) =
        (shape.hidden, shape.inner(), shape.conv_dim(), shape.heads);
    let bc = shape.groups * shape.state;
    let layer = stage.layer.unwrap_or(0);
    let block = || {
        cfg.blocks.get(layer).ok_or_else(|| EngineError::Tensor {
            stage: stage.name.clone(),
            tensor: "block formats",
            have: cfg.blocks.len(),
            need: layer + 1,
        })
    };
    let linear = plan.linear();
    let projection = plan.chain(Ring::Projection);
    let (top, base) = (projection.top_level(), projection.base_level());
    match stage.kind {
        StageKind::Embed => {
            let h = embed(face, tokens * hidden)?;
            t.put("h", h);
        }
        StageKind::PreNorm => {
            let h = t.get(stage, "h", tokens * hidden)?;
            let u = rms_norm(face.two(), h, tokens, &block()?.pre_norm)?;
            t.put("u", u);
        }
        StageKind::ToCkks => {
            let u = t.get(stage, "u", tokens * hidden)?;
            let words = extend(face.two(), &u.v)?;
            let slots = projection_inputs(&linear.input, &words)?;
            face.to_ckks(Ring::Projection, top, Slot::ProjectionIn, slots)?;
        }
        StageKind::InProjection => face.kernel(layer, Kernel::Input)?,
        StageKind::Convolution => face.kernel(layer, Kernel::Convolution)?,
        StageKind::ToShares => {
            let pairs = linear.tokens.pairs();
            let (zb, cb) = (linear.z_blocks, linear.convolved.blocks());
            let got = face.to_shares(
                Ring::Projection,
                &[
                    (Slot::Z, top - 1, pairs * zb),
                    (Slot::Convolved, top - 2, pairs * cb),
                ],
            )?;
            let [z, conv] = &got[..] else {
                return Err(EngineError::Tensor {
                    stage: stage.name.clone(),
                    tensor: "exports",
                    have: got.len(),
                    need: 2,
                });
            };
            t.put(
                "z",
                shares(projection_outputs(&linear.input, z, zb, 0, inner)),
            );
            t.put(
                "xbc",
                shares(projection_outputs(&linear.convolved, conv, cb, 0, conv_dim)),
            );
            t.put(
                "dt",
                shares(projection_outputs(
                    &linear.convolved,
                    conv,
                    cb,
                    conv_dim,
                    heads,
                )),
            );
        }
        StageKind::Factors => {
            let cfg_block = block()?;
            let xbc = t.get(stage, "xbc", tokens * conv_dim)?;
            let active = mosilu(face.two(), xbc, &cfg_block.silu_conv)?;
            let column = |from: usize, width: usize| -> Shares {
                shares(
                    active
                        .v
                        .chunks_exact(conv_dim)
                        .flat_map(|r| r[from..from + width].iter().copied())
                        .collect(),
                )
            };
            let (x, b, c) = (column(0, inner), column(inner, bc), column(inner + bc, bc));
            let dt = t.get(stage, "dt", tokens * heads)?;
            let rates = face.known(layer).rates.map(<[f64]>::to_vec);
            let f = factors(face.two(), dt, &x, rates.as_deref(), cfg.heads, cfg_block)?;
            t.put("x", x);
            t.put("b", b);
            t.put("c", c);
            t.put("delta", f.delta);
            t.put("decay", f.decay);
            t.put("dtx", f.scaled);
        }
        StageKind::Packet => {
            let parts = [
                t.get(stage, "dtx", tokens * inner)?,
                t.get(stage, "decay", tokens * heads)?,
                t.get(stage, "b", tokens * bc)?,
                t.get(stage, "c", tokens * bc)?,
            ];
            let all = Shares::concat(&parts)?;
            let words = extend(face.two(), &all.v)?;
            let slots = packet(plan.scan().tensors, &words, parts.map(Shares::len))?;
            let level = plan.chain(Ring::Scan).top_level();
            face.to_ckks(Ring::Scan, level, Slot::Packet, slots)?;
        }
        StageKind::ScanContract => face.kernel(layer, Kernel::Scan)?,
        StageKind::ScanToShares => {
            let s = plan.scan().tensors;
            let level = plan.chain(Ring::Scan).base_level();
            let got = face.to_shares(
                Ring::Scan,
                &[(Slot::ScanOut, level, s.chunks() * s.tiles())],
            )?;
            let mut m = vec![0u64; tokens * inner];
            let all = got.first().map_or(&[][..], Vec::as_slice);
            for (i, words) in all.iter().enumerate() {
                scatter_output(&s.output(i / s.tiles(), i % s.tiles())?, words, &mut m)?;
            }
            t.put("m", shares(m));
        }
        StageKind::Post => {
            let cfg_block = block()?;
            let (m, x, z) = (
                t.get(stage, "m", tokens * inner)?,
                t.get(stage, "x", tokens * inner)?,
                t.get(stage, "z", tokens * inner)?,
            );
            let skip = face.known(layer).skip.map(<[f64]>::to_vec);
            let y = gate(face.two(), m, x, z, skip.as_deref(), cfg.heads, cfg_block)?;
            let n = rms_norm(face.two(), &y, tokens, &cfg_block.gated_norm)?;
            t.put("gated", y);
            t.put("y", n);
        }
        StageKind::PostToCkks => {
            let y = t.get(stage, "y", tokens * inner)?;
            let words = extend(face.two(), &y.v)?;
            let slots = projection_inputs(&linear.output, &words)?;
            face.to_ckks(Ring::Projection, top - 1, Slot::ProjectionIn, slots)?;
        }
        StageKind::OutProjection => face.kernel(layer, Kernel::Output)?,
        StageKind::Residual => {
            let blocks = linear.output.blocks();
            let got = face.to_shares(
                Ring::Projection,
                &[(Slot::ProjectionOut, base, linear.tokens.pairs() * blocks)],
            )?;
            let all = got.first().map_or(&[][..], Vec::as_slice);
            let out = shares(projection_outputs(&linear.output, all, blocks, 0, hidden));
            let h = t.get(stage, "h", tokens * hidden)?.plus(&out)?;
            t.put("h", h);
        }
        StageKind::Classify => {
            let h = t.get(stage, "h", tokens * hidden)?;
            let n = rms_norm(face.two(), h, tokens, &cfg.final_norm)?;
            let weights: Option<Zeroizing<Vec<u64>>> = face.pooling().map(|w| {
                Zeroizing::new(
                    w.iter()
                        .map(|&v| cfg.pool.weight_frac().encode(v))
                        .collect::<Vec<u64>>(),
                )
            });
            let classifier = face.classifier().map(|(m, b)| (m.to_vec(), b.to_vec()));
            let known = PoolKnown {
                weights: weights.as_ref().map(|w| &w[..]),
                matrix: classifier.as_ref().map(|c| &c.0[..]),
                bias: classifier.as_ref().map(|c| &c.1[..]),
            };
            let logits = pool_and_classify(face.two(), &n, known, &cfg.pool)?;
            t.put("logits", logits);
        }
        StageKind::Output => {
            let logits = t.get(stage, "logits", shape.labels)?;
            return output(face, plan.request().answer, cfg, logits);
        }
    }
    Ok(None)
}

/// The client's embedded tokens, re-shared at entry (R14): the server's share is a uniform vector that the client draws.
fn embed<F: Face>(face: &mut F, n: usize) -> Result<Shares, EngineError> {
    let words: Zeroizing<Vec<u64>> = Zeroizing::new(
        face.embedded()
            .map(|e| e.iter().map(|&v| DEFAULT_FRAC.encode(v)).collect())
            .unwrap_or_default(),
    );
    let session = face.two().session();
    if session.party() == Party::Client {
        let mut bytes = Zeroizing::new(vec![0u8; 8 * n]);
        session.prg().fork("input shares").fill_bytes(&mut bytes);
        session.channel().send(FrameKind::Input, &bytes)?;
        let v = words
            .iter()
            .zip(bytes.chunks_exact(8))
            .map(|(w, b)| w.wrapping_sub(word(b)))
            .collect();
        return Ok(shares(v));
    }
    let bytes = session.channel().recv(FrameKind::Input, 8 * n)?;
    Ok(shares(bytes.chunks_exact(8).map(word).collect()))
}

fn word(b: &[u8]) -> u64 {
    b.iter().rev().fold(0, |w, &v| w << 8 | u64::from(v))
}

/// The packet of all chunks in the order x and decay a chunk, then B and C a group.
fn packet(s: ScanTensors, words: &[i128], lens: [usize; 4]) -> Result<Vec<SlotWords>, EngineError> {
    let [nx, na, nb, _] = lens;
    let (x, rest) = words.split_at(nx);
    let (a, rest) = rest.split_at(na);
    let (b, c) = rest.split_at(nb);
    let mut out = Vec::new();
    for chunk in 0..s.chunks() {
        for tile in 0..s.tiles() {
            out.push(packet_words(&s.x(chunk, tile)?, x)?);
        }
        for tile in 0..s.tiles() {
            out.push(packet_words(&s.decay(chunk, tile)?, a)?);
        }
    }
    for group in 0..s.groups() {
        for tile in 0..s.tiles() {
            out.push(packet_words(&s.b(group, tile)?, b)?);
        }
        for tile in 0..s.tiles() {
            out.push(packet_words(&s.c(group, tile)?, c)?);
        }
    }
    Ok(out)
}

/// Opens the answer to the client: the rounded logits, or the index of the largest one.
fn output<F: Face>(
    face: &mut F,
    answer: Answer,
    cfg: &Configs,
    logits: &Shares,
) -> Result<Option<Opened>, EngineError> {
    match answer {
        Answer::Logits => {
            let words = face.two().open_to_client(logits, OUTPUT_BITS)?;
            Ok(words.map(|w| {
                let logits = logits_from_words(&w);
                Opened {
                    label: label(&logits),
                    logits: Some(logits),
                }
            }))
        }
        Answer::Label => {
            let format = cfg.pool.label_format().map_err(NonlinearError::from)?;
            let index = face.two().argmax(logits, format.int_bits)?;
            let words = face
                .two()
                .open_to_client(&index, index_bits(logits.len()))?;
            words
                .map(|w| label_from_words(&w, logits.len()))
                .transpose()
        }
    }
}

/// The label that the client reads: one index below `labels`. Only a peer that deviates makes another one.
fn label_from_words(words: &[u64], labels: usize) -> Result<Opened, EngineError> {
    match words {
        [w] if *w < labels as u64 => Ok(Opened {
            label: *w as usize,
            logits: None,
        }),
        other => Err(MpcError::Malformed {
            op: "answer",
            detail: format!("{} numbers instead of one label of {labels}", other.len()),
        }
        .into()),
    }
}

/// The real logits of the words that the client reads.
fn logits_from_words(words: &[u64]) -> Vec<f64> {
    words
        .iter()
        .map(|&w| f64::from(w as u32 as i32) / OUTPUT_FRAC.unit())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_signed_and_their_label_is_the_first_of_the_largest() {
        let words = [0xffff_f000, 0x1800, 0x1800, 0];
        assert_eq!(logits_from_words(&words), [-1.0, 1.5, 1.5, 0.0]);
        assert_eq!(label(&logits_from_words(&words)), 1);
    }

    #[test]
    fn a_label_that_no_class_has_is_the_peers_fault() {
        let good = label_from_words(&[4], 5).ok();
        assert_eq!(good.map(|o| (o.label, o.logits)), Some((4, None)));
        for bad in [&[5u64][..], &[7], &[], &[0, 1]] {
            assert!(
                label_from_words(bad, 5).is_err_and(|e| e.is_peer()),
                "{bad:?}"
            );
        }
    }
}

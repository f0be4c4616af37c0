//! The real protocols behind [`Domain`].

use crate::bits::mask64;
use crate::compare::{greater_than, Words, MAX_THRESHOLDS};
use crate::{
    mux, truncate, Bits, CompareFormat, Domain, MpcError, Party, ProductSource, Session, Shares,
};
use cipherloom_spec::cost::MpcCounts;
use cipherloom_spec::FracBits;

/// One party's evaluator: a session and a source of products. Both parties call the same methods in the same order
/// with vectors of the same lengths.
pub struct TwoParty {
    session: Session,
    products: Box<dyn ProductSource>,
    counts: MpcCounts,
}

/// Checks a comparison format against the fraction bits; returns the number of dropped bits.
pub(crate) fn check_format(
    frac: FracBits,
    thresholds: usize,
    format: CompareFormat,
) -> Result<u32, MpcError> {
    let fail = |detail: String| {
        Err(MpcError::Format {
            op: "less_than",
            detail,
        })
    };
    if format.kept_frac > frac.0 {
        return fail(format!(
            "{} fraction bits to keep of {}; keep fewer",
            format.kept_frac, frac.0
        ));
    }
    let bits = 1 + u64::from(format.int_bits) + u64::from(frac.0);
    if bits > 64 {
        return fail(format!(
            "1 + {} integer + {} fraction bits exceed 64",
            format.int_bits, frac.0
        ));
    }
    if thresholds > MAX_THRESHOLDS {
        return fail(format!(
            "{thresholds} thresholds exceed {MAX_THRESHOLDS}; use several batches"
        ));
    }
    Ok(frac.0 - format.kept_frac)
}

/// Checks the widths of a truncation within one unit.
pub(crate) fn check_truncate(frac: FracBits, bits: u32) -> Result<FracBits, MpcError> {
    if bits > truncate::MAX_ONE_UNIT || bits > frac.0 {
        return Err(MpcError::Format {
            op: "truncate",
            detail: format!(
                "{bits} bits of {} fraction bits; at most {} and no more than there are",
                frac.0,
                truncate::MAX_ONE_UNIT
            ),
        });
    }
    Ok(FracBits(frac.0 - bits))
}

/// Checks the widths of a faithful truncation.
pub(crate) fn check_faithful(
    frac: FracBits,
    bits: u32,
    out_bits: u32,
) -> Result<FracBits, MpcError> {
    if bits > frac.0 || bits > 62 || out_bits == 0 || out_bits > 64 {
        return Err(MpcError::Format {
            op: "truncate_reduce_faithful",
            detail: format!(
                "{bits} bits of {} fraction bits into {out_bits} bits; drop at most 62 and no more \
                 than there are, keep 1 to 64",
                frac.0
            ),
        });
    }
    Ok(FracBits(frac.0 - bits))
}

fn same_len(op: &'static str, left: usize, right: usize) -> Result<(), MpcError> {
    if left == right {
        return Ok(());
    }
    Err(MpcError::Length { op, left, right })
}

impl TwoParty {
    /// Joins a session and a source of products.
    #[must_use]
    pub fn new(session: Session, products: Box<dyn ProductSource>) -> Self {
        Self {
            session,
            products,
            counts: MpcCounts::default(),
        }
    }

    /// Which party this is.
    #[must_use]
    pub fn party(&self) -> Party {
        self.session.party()
    }

    /// The session: channel, counts, generator of secrets.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The session, read only.
    #[must_use]
    pub fn session_ref(&self) -> &Session {
        &self.session
    }

    /// Gives the session back.
    #[must_use]
    pub fn into_session(self) -> Session {
        self.session
    }

    /// Makes and discards `n` COTs in the direction from client to server, to measure them.
    ///
    /// # Errors
    /// Transport errors.
    pub fn skip_cots(&mut self, n: usize) -> Result<(), MpcError> {
        const PIECE: usize = 1 << 16;
        let mut left = n;
        while left > 0 {
            let m = left.min(PIECE);
            if self.session.is_client() {
                self.session.take_sender(m)?;
            } else {
                self.session.take_receiver(m)?;
            }
            left -= m;
        }
        Ok(())
    }

    /// Shares modulo 2^88 of the same signed values, for `|word| < 2^62` (protocols.md R14, 6.5). The shares centred
    /// by [`crate::centred_88`] add up to the value as integers except with probability `|value| / 2^88` each.
    ///
    /// Cost of `n`: `n` COTs, flights server then client, `ceil(n/8)` bytes up and `3 n` bytes back.
    ///
    /// # Errors
    /// Transport errors.
    pub fn extend_64_88(&mut self, words: &[u64]) -> Result<Vec<u128>, MpcError> {
        let out = truncate::extend_64_88(&mut self.session, words)?;
        self.counts.extensions += words.len() as u64;
        Ok(out)
    }

    /// Opens words modulo `2^bits` to the client: the server sends its share as the final answer, the client adds.
    /// Returns the values at the client, nothing at the server. The only way out of the shares (protocols.md R4); call it
    /// on values that do not depend on how something was shared: after a faithful truncate-and-reduce, or on the index of
    /// [`TwoParty::argmax`] with [`crate::index_bits`]. Higher bits of the server's share do not leave.
    ///
    /// # Errors
    /// `Format` when `bits` is not in 1..=64; transport errors.
    pub fn open_to_client(&mut self, x: &Shares, bits: u32) -> Result<Option<Vec<u64>>, MpcError> {
        use crate::bits::{packed_len, BitReader, BitWriter};
        let op = "open_to_client";
        if bits == 0 || bits > 64 {
            return Err(MpcError::Format {
                op,
                detail: format!("{bits} bits; choose 1 to 64"),
            });
        }
        let total = u64::from(bits) * x.len() as u64;
        let mask = mask64(bits);
        if self.session.is_client() {
            let got = self
                .session
                .channel()
                .recv(cipherloom_net::FrameKind::Output, packed_len(total))?;
            let mut r = BitReader::new(&got, total, op)?;
            return Ok(Some(
                x.v.iter()
                    .map(|w| w.wrapping_add(r.pull(bits)) & mask)
                    .collect(),
            ));
        }
        let mut w = BitWriter::with_bits(total);
        for v in &x.v {
            w.push(v & mask, bits);
        }
        self.session
            .channel()
            .send(cipherloom_net::FrameKind::Output, &w.finish())?;
        Ok(None)
    }
}

impl Domain for TwoParty {
    fn add_const(&self, x: &Shares, c: f64) -> Shares {
        let k = if self.session.is_client() {
            x.frac.encode(c)
        } else {
            0
        };
        Shares {
            v: x.v.iter().map(|w| w.wrapping_add(k)).collect(),
            frac: x.frac,
        }
    }

    fn add_public(&self, x: &Shares, c: &[u64]) -> Result<Shares, MpcError> {
        same_len("add_public", x.len(), c.len())?;
        if !self.session.is_client() {
            return Ok(x.clone());
        }
        Ok(Shares {
            v: x.v.iter().zip(c).map(|(w, c)| w.wrapping_add(*c)).collect(),
            frac: x.frac,
        })
    }

    fn add_known(&self, owner: Party, x: &Shares, c: Option<&[u64]>) -> Result<Shares, MpcError> {
        let op = "add_known";
        match (self.party() == owner, c) {
            (true, Some(c)) => {
                same_len(op, x.len(), c.len())?;
                Ok(Shares {
                    v: x.v.iter().zip(c).map(|(w, c)| w.wrapping_add(*c)).collect(),
                    frac: x.frac,
                })
            }
            (false, None) => Ok(x.clone()),
            _ => Err(MpcError::Owner { op }),
        }
    }

    fn not(&self, b: &Bits) -> Bits {
        let flip = u8::from(self.session.is_client());
        Bits {
            v: b.v.iter().map(|b| b ^ flip).collect(),
        }
    }

    fn product(&mut self, x: &Shares, y: &Shares) -> Result<Shares, MpcError> {
        same_len("product", x.len(), y.len())?;
        let v = self.products.product(&mut self.session, &x.v, &y.v)?;
        self.counts.products += x.len() as u64;
        Ok(Shares {
            v,
            frac: FracBits(x.frac.0 + y.frac.0),
        })
    }

    fn square(&mut self, x: &Shares) -> Result<Shares, MpcError> {
        let v = self.products.square(&mut self.session, &x.v)?;
        self.counts.squares += x.len() as u64;
        Ok(Shares {
            v,
            frac: FracBits(2 * x.frac.0),
        })
    }

    fn product_known(
        &mut self,
        owner: Party,
        x: &Shares,
        c: Option<&[u64]>,
        frac: FracBits,
    ) -> Result<Shares, MpcError> {
        let op = "product_known";
        if (self.party() == owner) != c.is_some() {
            return Err(MpcError::Owner { op });
        }
        if let Some(c) = c {
            same_len(op, x.len(), c.len())?;
        }
        let v = self
            .products
            .product_known(&mut self.session, owner, &x.v, c)?;
        self.counts.known_products += x.len() as u64;
        Ok(Shares {
            v,
            frac: FracBits(x.frac.0 + frac.0),
        })
    }

    fn truncate(&mut self, x: &Shares, bits: u32) -> Result<Shares, MpcError> {
        let frac = check_truncate(x.frac, bits)?;
        if bits == 0 {
            return Ok(x.clone());
        }
        let v = truncate::one_unit(&mut self.session, &x.v, bits)?;
        self.counts.truncations += x.len() as u64;
        Ok(Shares { v, frac })
    }

    fn truncate_reduce_faithful(
        &mut self,
        x: &Shares,
        bits: u32,
        out_bits: u32,
    ) -> Result<Shares, MpcError> {
        let frac = check_faithful(x.frac, bits, out_bits)?;
        let v = truncate::faithful(&mut self.session, &x.v, bits, out_bits)?;
        self.counts.faithful_truncations += x.len() as u64;
        Ok(Shares { v, frac })
    }

    fn less_than(
        &mut self,
        x: &Shares,
        taus: &[f64],
        format: CompareFormat,
    ) -> Result<Vec<Bits>, MpcError> {
        let dropped = check_format(x.frac, taus.len(), format)?;
        let n = x.len();
        if taus.is_empty() {
            return Ok(Vec::new());
        }
        // R16: u = ((x - tau + half) mod 2^(1+r+F)) >> f at the client, (x mod 2^(1+r+F)) >> f at the server; the sign of
        // the sum is the exclusive or of both top bits and the carry of the bits below.
        let ring = mask64(1 + format.int_bits + x.frac.0);
        let low_bits = format.int_bits + format.kept_frac;
        let low = mask64(low_bits);
        let half = if dropped == 0 {
            0
        } else {
            1u64 << (dropped - 1)
        };
        let (own_top, carries) = if self.session.is_client() {
            let u: Vec<Vec<u64>> = taus
                .iter()
                .map(|&tau| {
                    let offset = half.wrapping_sub(x.frac.encode(tau));
                    x.v.iter()
                        .map(|w| (w.wrapping_add(offset) & ring) >> dropped)
                        .collect()
                })
                .collect();
            let lows: Vec<Vec<u64>> = u
                .iter()
                .map(|u| u.iter().map(|u| u & low).collect())
                .collect();
            let c = greater_than(
                &mut self.session,
                Words::Client(&lows),
                n,
                taus.len(),
                low_bits,
            )?;
            let top = |u: &Vec<u64>| u.iter().map(|u| (u >> low_bits) as u8 & 1).collect();
            (u.iter().map(top).collect::<Vec<Vec<u8>>>(), c)
        } else {
            let u: Vec<u64> = x.v.iter().map(|w| (w & ring) >> dropped).collect();
            let y: Vec<u64> = u.iter().map(|u| low - (u & low)).collect();
            let c = greater_than(
                &mut self.session,
                Words::Server(&y),
                n,
                taus.len(),
                low_bits,
            )?;
            let top: Vec<u8> = u.iter().map(|u| (u >> low_bits) as u8 & 1).collect();
            (vec![top; taus.len()], c)
        };
        self.counts.comparisons += (n * taus.len()) as u64;
        Ok(own_top
            .into_iter()
            .zip(carries)
            .map(|(top, carry)| Bits {
                v: top.iter().zip(carry).map(|(a, b)| a ^ b).collect(),
            })
            .collect())
    }

    fn mux(&mut self, items: &[(&Bits, &Shares)]) -> Result<Vec<Shares>, MpcError> {
        let n = items.iter().map(|i| i.1.len()).sum();
        let (mut bits, mut words) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for (b, x) in items {
            same_len("mux", b.v.len(), x.len())?;
            bits.extend_from_slice(&b.v);
            words.extend_from_slice(&x.v);
        }
        let out = mux::mux(&mut self.session, &bits, &words)?;
        self.counts.muxes += n as u64;
        let mut rest = &out[..];
        Ok(items
            .iter()
            .map(|(_, x)| {
                let (v, tail) = rest.split_at(x.len());
                rest = tail;
                Shares {
                    v: v.to_vec(),
                    frac: x.frac,
                }
            })
            .collect())
    }

    fn b2a(&mut self, items: &[&Bits]) -> Result<Vec<Shares>, MpcError> {
        let bits: Vec<u8> = items.iter().flat_map(|b| b.v.iter().copied()).collect();
        let out = mux::bits_to_words(&mut self.session, &bits, 64)?;
        self.counts.b2a += bits.len() as u64;
        let mut rest = &out[..];
        Ok(items
            .iter()
            .map(|b| {
                let (v, tail) = rest.split_at(b.v.len());
                rest = tail;
                Shares {
                    v: v.to_vec(),
                    frac: FracBits(0),
                }
            })
            .collect())
    }

    fn counts(&self) -> MpcCounts {
        MpcCounts {
            cots: self.session.cots_used(),
            ..self.counts
        }
    }
}

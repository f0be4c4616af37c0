//! Both parties' sides of sums of one-sided products modulo every plaintext prime.
//!
//! For vectors `x_1 ... x_m` at the client and `w_1 ... w_m` at the server, both of `n` words, the parties obtain
//! additive shares of `sum_k x_k w_k` modulo each `t_i`, element by element; words are reduced modulo `t_i` first.
//! One upload flight, one answer flight; sizes are [`RlweParameters::sum_bytes`], functions of `n` and `m` only. A last
//! slot vector that is not full is padded with zeros.
//!
//! The keys outlive a session, the randomness does not. Uploads draw seed and error, exports draw zeros and masks, from
//! a seed that each party takes fresh for the session from its own generator, at a counter that only grows; neither
//! [`ProductKey`] nor [`ProductPublicKey`] holds any of it, and no side is `Clone`. So two sessions with one key never
//! encrypt or mask with the same randomness, whatever they compute.

use cipherloom_net::{Channel, FrameKind};
use cipherloom_ring::SecretSeed;
use rayon::prelude::*;

use crate::export::{Exported, PreparedExport, ReceivedExport};
use crate::rlwe::cipher::{answer, client_share, encrypt, operand, Uploaded};
use crate::rlwe::{ProductKey, ProductPublicKey, RlweParameters};
use crate::MpcError;

/// Slot vectors that travel in one message, so that the parties work at the same time.
pub const CHUNKS_A_MESSAGE: usize = 4;

const UPLOAD_LABEL: &str = "rlwe product upload";
const EXPORT_LABEL: &str = "rlwe product export";

fn check_terms(terms: &[&[u64]]) -> Result<usize, MpcError> {
    let n = terms.first().map_or(0, |t| t.len());
    for t in terms {
        if t.len() != n {
            return Err(MpcError::Length {
                op: "sum of products",
                left: n,
                right: t.len(),
            });
        }
    }
    Ok(n)
}

/// Where element `chunk * N ..` of a vector of `n` lies.
fn span(params: &RlweParameters, chunk: usize, n: usize) -> std::ops::Range<usize> {
    let slots = params.slots();
    (chunk * slots).min(n)..((chunk + 1) * slots).min(n)
}

/// Appends per-chunk, per-prime slot shares to one vector a prime.
fn collect(params: &RlweParameters, n: usize, parts: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
    let k = params.plain().len();
    let mut out: Vec<Vec<u64>> = (0..k).map(|_| Vec::with_capacity(n)).collect();
    for (i, mut part) in parts.into_iter().enumerate() {
        let len = span(params, i / k, n).len();
        out[i % k].extend_from_slice(&part[..len]);
        zeroize::Zeroize::zeroize(&mut part);
    }
    out
}

/// The groups of chunks that share a message.
fn messages(params: &RlweParameters, n: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let chunks = params.chunks(n);
    (0..chunks.div_ceil(CHUNKS_A_MESSAGE))
        .map(move |g| g * CHUNKS_A_MESSAGE..((g + 1) * CHUNKS_A_MESSAGE).min(chunks))
}

/// The client's side.
pub struct ClientSums {
    params: RlweParameters,
    key: ProductKey,
    /// Errors and seeds of this session. Never the key's seed.
    session: SecretSeed,
    counter: u64,
}

impl ClientSums {
    /// `session` is fresh randomness of this session; the same one must never be used twice (R6).
    #[must_use]
    pub fn new(params: RlweParameters, key: ProductKey, session: SecretSeed) -> Self {
        Self {
            params,
            key,
            session,
            counter: 0,
        }
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &RlweParameters {
        &self.params
    }

    /// The client's shares of `sum_k x_k w_k`, one vector for each plaintext prime, reduced.
    ///
    /// # Errors
    /// `Length` when the vectors differ; transport errors; `Malformed` answers.
    pub fn sums(
        &mut self,
        channel: &mut Channel,
        terms: &[&[u64]],
    ) -> Result<Vec<Vec<u64>>, MpcError> {
        let n = check_terms(terms)?;
        self.upload(channel, terms)?;
        self.receive(channel, n)
    }

    /// Encrypts and sends `m` vectors of equal length: chunk, prime, vector, innermost last.
    fn upload(&mut self, channel: &mut Channel, terms: &[&[u64]]) -> Result<(), MpcError> {
        let n = check_terms(terms)?;
        let (k, m) = (self.params.plain().len(), terms.len());
        for chunks in messages(&self.params, n) {
            let jobs = chunks.len() * k * m;
            let first = self.counter;
            self.counter += jobs as u64;
            let (params, key, session) = (&self.params, &self.key, &self.session);
            let parts = (0..jobs)
                .into_par_iter()
                .map(|j| {
                    let (chunk, prime, term) = (chunks.start + j / (k * m), j / m % k, j % m);
                    let mut prg = session.derive(UPLOAD_LABEL, first + j as u64);
                    let mut out = Vec::with_capacity(params.upload_ciphertext_bytes());
                    let words = &terms[term][span(params, chunk, n)];
                    encrypt(
                        params,
                        &params.plain()[prime],
                        key,
                        words,
                        &mut prg,
                        &mut out,
                    )?;
                    Ok(out)
                })
                .collect::<Result<Vec<_>, MpcError>>()?;
            channel.send(FrameKind::Ciphertext, &parts.concat())?;
        }
        Ok(())
    }

    fn receive(&mut self, channel: &mut Channel, n: usize) -> Result<Vec<Vec<u64>>, MpcError> {
        let k = self.params.plain().len();
        let mut shares = Vec::with_capacity(self.params.chunks(n) * k);
        for chunks in messages(&self.params, n) {
            let received =
                ReceivedExport::recv_all(channel, self.params.export_basis(), 1, chunks.len() * k)?;
            let (params, key) = (&self.params, &self.key);
            let part = received
                .par_iter()
                .enumerate()
                .map(|(j, r)| client_share(&params.plain()[j % k], key, r))
                .collect::<Result<Vec<_>, MpcError>>()?;
            shares.extend(part);
        }
        Ok(collect(&self.params, n, shares))
    }
}

/// The server's side.
pub struct ServerSums {
    params: RlweParameters,
    key: ProductPublicKey,
    session: SecretSeed,
    counter: u64,
    prepared: Vec<PreparedExport>,
}

impl ServerSums {
    /// With the client's public key, from this session or an earlier one. `session` is fresh randomness of this session;
    /// the same one must never be used twice (R6).
    #[must_use]
    pub fn new(params: RlweParameters, key: ProductPublicKey, session: SecretSeed) -> Self {
        Self {
            params,
            key,
            session,
            counter: 0,
            prepared: vec![],
        }
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &RlweParameters {
        &self.params
    }

    /// Offline: makes zeros and masks for `count` answered ciphertexts. Memory: `4 limbs N` words each. Answers beyond
    /// the stock are prepared when needed.
    ///
    /// # Errors
    /// `Ring` in practice never.
    pub fn prepare(&mut self, count: usize) -> Result<(), MpcError> {
        let fresh = self.draw(count)?;
        self.prepared.extend(fresh);
        Ok(())
    }

    /// Answers that are prepared.
    #[must_use]
    pub fn prepared(&self) -> usize {
        self.prepared.len()
    }

    fn draw(&mut self, count: usize) -> Result<Vec<PreparedExport>, MpcError> {
        let first = self.counter;
        self.counter += count as u64;
        let (params, key, session) = (&self.params, &self.key, &self.session);
        (0..count)
            .into_par_iter()
            .map(|i| {
                let mut prg = session.derive(EXPORT_LABEL, first + i as u64);
                PreparedExport::new(key.export_key(), params.export_basis(), 1, &mut prg)
            })
            .collect()
    }

    fn take(&mut self, count: usize) -> Result<Vec<PreparedExport>, MpcError> {
        let have = self.prepared.len().min(count);
        let mut out = self.prepared.split_off(self.prepared.len() - have);
        out.extend(self.draw(count - have)?);
        Ok(out)
    }

    /// The server's shares of `sum_k x_k w_k`, one vector for each plaintext prime, reduced. All uploads are read before
    /// the first answer leaves.
    ///
    /// # Errors
    /// `Length` when the vectors differ; transport errors; `Malformed` uploads.
    pub fn sums(
        &mut self,
        channel: &mut Channel,
        terms: &[&[u64]],
    ) -> Result<Vec<Vec<u64>>, MpcError> {
        let n = check_terms(terms)?;
        let (k, m) = (self.params.plain().len(), terms.len());
        let one = self.params.upload_ciphertext_bytes();
        let mut answers: Vec<Vec<Exported>> = vec![];
        let mut shares = Vec::with_capacity(self.params.chunks(n) * k);
        for chunks in messages(&self.params, n) {
            let bytes = channel.recv(FrameKind::Ciphertext, chunks.len() * k * m * one)?;
            let prepared = self.take(chunks.len() * k)?;
            let params = &self.params;
            let done = prepared
                .into_par_iter()
                .enumerate()
                .map(|(j, prepared)| {
                    let (chunk, plain) = (chunks.start + j / k, &params.plain()[j % k]);
                    let mut uploads = Vec::with_capacity(m);
                    let mut operands = Vec::with_capacity(m);
                    for (term, words) in terms.iter().enumerate() {
                        let at = (j * m + term) * one;
                        uploads.push(Uploaded::from_bytes(params, &bytes[at..at + one])?);
                        operands.push(operand(plain, &words[span(params, chunk, n)])?);
                    }
                    let pairs: Vec<_> = uploads.iter().zip(&operands).collect();
                    answer(params, plain, &pairs, prepared)
                })
                .collect::<Result<Vec<_>, MpcError>>()?;
            let (exported, part): (Vec<_>, Vec<_>) = done.into_iter().unzip();
            answers.push(exported);
            shares.extend(part);
        }
        for exported in answers {
            Exported::send_all(&exported, channel)?;
        }
        Ok(collect(&self.params, n, shares))
    }
}

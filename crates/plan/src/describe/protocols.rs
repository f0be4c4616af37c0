//! The messages of every protocol of `mpc`, in the order of its code. Each method adds what `mpc::TwoParty` counts.

use super::ledger::{packed, Ledger, ProductShape, RlweShape, Side};
use cipherloom_spec::cost::MpcCounts;
use cipherloom_spec::formats::CompareFormat;

/// Mirrors `mpc::session::NONCE_BYTES`.
pub const NONCE_BYTES: u64 = 32;
/// Base OTs of one direction and bytes of both their messages. Mirrors `mpc::base_ot`.
pub const BASE_OT_BYTES: u64 = 32 + 128 * 64;
/// Mirrors `mpc::softspoken::PPRF_BYTES`.
pub const PPRF_BYTES: u64 = 128 * 32;
/// Mirrors `mpc::rlwe::params::SEED_BYTES`.
pub const RLWE_SEED_BYTES: u64 = 32;
/// Mirrors `mpc::rlwe::sums::CHUNKS_A_MESSAGE`.
pub const RLWE_CHUNKS_A_MESSAGE: u64 = 4;
/// Bits that the extension adds: 64 to 88 (`mpc::truncate::extend_64_88`).
pub const EXTENSION_BITS: u64 = 24;

/// Mirrors `mpc::index_bits`: `ceil(log2 n)`, and one for a single word.
fn index_bits(n: usize) -> u32 {
    n.saturating_sub(1).checked_ilog2().map_or(1, |k| k + 1)
}

/// Bits of one digit table of a comparison and of its choice.
struct Digits {
    /// Number of digits.
    count: u64,
    /// Choice bits an element: the width of the words. One COT each.
    choice: u64,
    /// Answer bits an element.
    answer: u64,
}

/// Mirrors `mpc::compare::shapes`: digits from the lowest, of which the top one may be narrower; two bits a threshold but for
/// the lowest, which has no equality.
fn digits(bits: u32, digit_bits: u32, thresholds: u64) -> Digits {
    let mut d = Digits {
        count: 0,
        choice: u64::from(bits),
        answer: 0,
    };
    let mut left = bits;
    while left > 0 {
        let width = left.min(digit_bits.max(1));
        let message = thresholds * if d.count == 0 { 1 } else { 2 };
        d.answer += ((1 << width) - 1) * message;
        d.count += 1;
        left -= width;
    }
    d
}

impl RlweShape {
    fn poly(&self, bits: &mut dyn Iterator<Item = &u32>) -> u64 {
        bits.map(|&b| packed(u64::from(b) << self.log_n)).sum()
    }
    /// Slots of a ciphertext.
    #[must_use]
    pub fn slots(&self) -> u64 {
        1 << self.log_n
    }
    /// Bytes of one uploaded ciphertext. Mirrors `RlweParameters::upload_ciphertext_bytes`.
    #[must_use]
    pub fn upload_bytes(&self) -> u64 {
        RLWE_SEED_BYTES + self.poly(&mut self.export_bits.iter().chain(&self.dropped_bits))
    }
    /// Bytes of one answered ciphertext. Mirrors `RlweParameters::export_ciphertext_bytes`.
    #[must_use]
    pub fn answer_bytes(&self) -> u64 {
        2 * self.poly(&mut self.export_bits.iter())
    }
    /// Bytes of the public key. Mirrors `ProductPublicKey::encoded_bytes`.
    #[must_use]
    pub fn public_key_bytes(&self) -> u64 {
        RLWE_SEED_BYTES + self.poly(&mut self.export_bits.iter())
    }
    /// Slot vectors that `n` elements fill.
    #[must_use]
    pub fn chunks(&self, n: usize) -> u64 {
        (n as u64).div_ceil(self.slots())
    }
    /// Answered ciphertexts of one batch of `n` products; failure bounds count their coefficients.
    #[must_use]
    pub fn answers(&self, n: usize) -> u64 {
        self.chunks(n) * self.plain_count as u64
    }
}

impl Ledger {
    /// `Session::open`: nonces, base OTs, trees, all at once both ways.
    pub fn open_session(&mut self) {
        for payload in [NONCE_BYTES, BASE_OT_BYTES, PPRF_BYTES] {
            self.exchange(payload, payload);
        }
    }

    /// One batch of OTs of any kind (`mpc::cot`, `mpc::one_of_n`): the COT receiver sends its masked choices, the sender
    /// answers.
    fn ot(&mut self, sender: Side, cots: u64, choice_bits: u64, answer_bits: u64) {
        let receiver = sender.other();
        let refills = self.reserve(sender, cots);
        self.send_refills(receiver, refills);
        self.send(receiver, packed(choice_bits));
        self.recv_refills(sender, refills);
        self.recv(sender);
        self.message(sender, packed(answer_bits));
    }

    /// Two opposite batches at once: each party begins as receiver, serves the other, then finishes.
    fn ot_both_ways(&mut self, cots: u64, choice_bits: u64, answer_bits: u64) {
        // Refills of the pool in which the other party is the COT sender.
        let refills = [Side::Client, Side::Server].map(|p| (p, self.reserve(p.other(), cots)));
        for (party, sent) in refills {
            self.send_refills(party, sent);
            self.send(party, packed(choice_bits));
        }
        for (party, sent) in refills {
            self.recv_refills(party.other(), sent);
            self.recv(party.other());
        }
        self.exchange(packed(answer_bits), packed(answer_bits));
    }

    /// One layer of AND gates (`mpc::boolean`): pairs of gates with a common input, and single gates.
    pub fn and_layer(&mut self, pairs: usize, singles: usize) {
        let n = (pairs + singles) as u64;
        if n == 0 {
            return;
        }
        let refills = [Side::Client, Side::Server].map(|p| (p, self.reserve(p.other(), n)));
        for (party, sent) in refills {
            self.send_refills(party, sent);
        }
        for (party, sent) in refills {
            self.recv_refills(party.other(), sent);
        }
        let opening = packed(3 * pairs as u64 + 2 * singles as u64);
        self.exchange(opening, opening);
    }

    /// `mpc::compare::greater_than` on `bits`-bit words.
    fn greater_than(&mut self, n: usize, thresholds: usize, bits: u32) {
        if bits == 0 || n == 0 {
            return;
        }
        let d = digits(bits, self.mpc_shape().digit_bits, thresholds as u64);
        let n64 = n as u64;
        self.ot(Side::Client, n64 * d.choice, n64 * d.choice, n64 * d.answer);
        // The lowest column has no equality, so its join is one gate; a last odd column moves up unchanged.
        let gates = n * thresholds;
        let mut columns = d.count;
        while columns > 1 {
            let joins = (columns / 2) as usize;
            self.and_layer((joins - 1) * gates, gates);
            columns = columns.div_ceil(2);
        }
    }

    /// `less_than` of `n` elements with `thresholds` thresholds.
    pub fn less_than(&mut self, n: usize, thresholds: usize, format: CompareFormat) {
        if thresholds == 0 {
            return;
        }
        self.greater_than(n, thresholds, format.int_bits + format.kept_frac);
        self.count(MpcCounts {
            comparisons: (n * thresholds) as u64,
            ..MpcCounts::default()
        });
    }

    /// `mux` of `n` elements in one batch, over all items.
    pub fn mux(&mut self, n: usize) {
        let n = n as u64;
        if n > 0 {
            self.ot_both_ways(n, n, 64 * n);
        }
        self.count(MpcCounts {
            muxes: n,
            ..MpcCounts::default()
        });
    }

    /// One COT an element, client to server, of `width` bits: `mpc::mux::one_sided`.
    fn one_sided(&mut self, n: usize, width: u64) {
        let n = n as u64;
        if n > 0 {
            self.ot(Side::Client, n, n, width * n);
        }
    }

    /// `b2a` of `n` bits in one batch, over all items.
    pub fn b2a(&mut self, n: usize) {
        self.one_sided(n, 64);
        self.count(MpcCounts {
            b2a: n as u64,
            ..MpcCounts::default()
        });
    }

    /// `truncate` of `n` elements by `bits` bits; nothing for 0 bits.
    pub fn truncate(&mut self, n: usize, bits: u32) {
        if bits == 0 {
            return;
        }
        self.one_sided(n, u64::from(bits));
        self.count(MpcCounts {
            truncations: n as u64,
            ..MpcCounts::default()
        });
    }

    /// `truncate_reduce_faithful` of `n` elements by `bits` bits into `out_bits` bits.
    pub fn truncate_reduce_faithful(&mut self, n: usize, bits: u32, out_bits: u32) {
        self.greater_than(n, 1, bits);
        if bits > 0 {
            self.one_sided(n, u64::from(out_bits));
            let wide = (out_bits + bits).saturating_sub(64);
            if wide > 0 {
                self.one_sided(n, u64::from(wide));
            }
        }
        self.count(MpcCounts {
            faithful_truncations: n as u64,
            ..MpcCounts::default()
        });
    }

    /// `TwoParty::extend_64_88` of `n` words.
    pub fn extend_64_88(&mut self, n: usize) {
        self.one_sided(n, EXTENSION_BITS);
        self.count(MpcCounts {
            extensions: n as u64,
            ..MpcCounts::default()
        });
    }

    /// `TwoParty::open_to_client` of `n` words of `bits` bits.
    pub fn open_to_client(&mut self, n: usize, bits: u32) {
        self.message(Side::Server, packed(u64::from(bits) * n as u64));
    }

    /// `TwoParty::argmax` of `n` words: rounds of pairs of neighbours; the last round selects an index only.
    pub fn argmax(&mut self, n: usize, format: CompareFormat) {
        let mut left = n;
        while left > 1 {
            let pairs = left / 2;
            self.less_than(pairs, 1, format);
            self.mux(if left == 2 { 1 } else { 2 * pairs });
            left -= pairs;
        }
    }

    /// The answer by label: the argmax of `n` words, and the opening of its index.
    pub fn open_label(&mut self, n: usize, format: CompareFormat) {
        self.argmax(n, format);
        self.open_to_client(1, index_bits(n));
    }

    /// `mpc::rlwe`: sums of `terms` one-sided products of `n` elements, and the OT that resolves the wrap.
    fn rlwe_sum(&mut self, r: &RlweShape, n: usize, terms: u64) {
        let chunks = r.chunks(n);
        let (full, last) = (
            chunks / RLWE_CHUNKS_A_MESSAGE,
            chunks % RLWE_CHUNKS_A_MESSAGE,
        );
        let primes = r.plain_count as u64;
        for (from, bytes) in [
            (Side::Client, primes * terms * r.upload_bytes()),
            (Side::Server, primes * r.answer_bytes()),
        ] {
            self.messages(from, RLWE_CHUNKS_A_MESSAGE * bytes, full);
            self.messages(from, last * bytes, u64::from(last > 0));
        }
        self.one_sided(n, 64);
    }

    /// `product` of `n` pairs.
    pub fn product(&mut self, n: usize) {
        match self.product_shape().clone() {
            ProductShape::Rlwe(r) => self.rlwe_sum(&r, n, 2),
            // 64 COTs a word of widths 64, 63, ..., 1.
            ProductShape::Cot if n > 0 => {
                let n = n as u64;
                self.ot_both_ways(64 * n, 64 * n, 2080 * n);
            }
            ProductShape::Cot => {}
        }
        self.count(MpcCounts {
            products: n as u64,
            ..MpcCounts::default()
        });
    }

    /// `square` of `n` elements.
    pub fn square(&mut self, n: usize) {
        match self.product_shape().clone() {
            ProductShape::Rlwe(r) => self.rlwe_sum(&r, n, 1),
            ProductShape::Cot if n > 0 => {
                let n = n as u64;
                self.ot(Side::Client, 63 * n, 63 * n, 2016 * n);
            }
            ProductShape::Cot => {}
        }
        self.count(MpcCounts {
            squares: n as u64,
            ..MpcCounts::default()
        });
    }

    /// `product_known` of `n` elements with words that `owner` knows.
    pub fn product_known(&mut self, owner: Side, n: usize) {
        match self.product_shape().clone() {
            // The same messages for both owners.
            ProductShape::Rlwe(r) => self.rlwe_sum(&r, n, 1),
            ProductShape::Cot if n > 0 => {
                let n = n as u64;
                self.ot(owner, 64 * n, 64 * n, 2080 * n);
            }
            ProductShape::Cot => {}
        }
        self.count(MpcCounts {
            known_products: n as u64,
            ..MpcCounts::default()
        });
    }
}

//! Exact traffic of the protocols, as arithmetic on lengths. Calls no protocol; a planner replays these steps.
//!
//! A step is one-way (one party sends, the other reads) or an exchange (both send, then both read). A flight opens when
//! a party sends for the first time or after a read (the rule of `cipherloom_net`). A COT pool refills by whole batches
//! when it runs empty, so the refills of a run depend on the order of its operations: keep one model for the whole run.

use crate::compare::shapes;
use crate::one_of_n::{answer_bits, choice_bits};
use crate::session::OPEN_PAYLOADS;
use crate::softspoken::refill_bytes;
use crate::{boolean, CompareFormat, MpcConfig, Party};
use cipherloom_net::message_bytes;
use cipherloom_spec::cost::Traffic;

fn bytes(bits: u64) -> u64 {
    bits.div_ceil(8)
}

fn of(party: Party) -> usize {
    match party {
        Party::Client => 0,
        Party::Server => 1,
    }
}

/// Traffic of a run so far, pool states included.
#[derive(Debug, Clone)]
pub struct CostModel {
    config: MpcConfig,
    fresh: [bool; 2],
    /// COTs left, by COT sender.
    available: [u64; 2],
    traffic: Traffic,
    cots: u64,
}

impl CostModel {
    /// A new channel, nothing sent.
    #[must_use]
    pub fn new(config: MpcConfig) -> Self {
        Self {
            config,
            fresh: [true; 2],
            available: [0; 2],
            traffic: Traffic::default(),
            cots: 0,
        }
    }

    /// Everything so far. Take differences for a stage.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// COTs used so far, both directions.
    #[must_use]
    pub fn cots(&self) -> u64 {
        self.cots
    }

    /// Messages of the given payloads from one party, read by the other.
    pub fn one_way(&mut self, from: Party, payloads: &[u64]) {
        self.sends(from, payloads);
        if !payloads.is_empty() {
            self.fresh[1 - of(from)] = true;
        }
    }

    /// Messages of both parties, sent before either reads.
    pub fn exchange(&mut self, client: &[u64], server: &[u64]) {
        self.sends(Party::Client, client);
        self.sends(Party::Server, server);
        for (reader, read) in [(1, client), (0, server)] {
            if !read.is_empty() {
                self.fresh[reader] = true;
            }
        }
    }

    fn sends(&mut self, from: Party, payloads: &[u64]) {
        if payloads.is_empty() {
            return;
        }
        let sum: u64 = payloads.iter().map(|p| message_bytes(*p)).sum();
        match from {
            Party::Client => self.traffic.client_to_server += sum,
            Party::Server => self.traffic.server_to_client += sum,
        }
        if self.fresh[of(from)] {
            self.traffic.flights += 1;
            self.fresh[of(from)] = false;
        }
    }

    /// Refill messages that taking `n` COTs causes; the COT receiver sends them.
    fn take(&mut self, sender: Party, n: u64) -> Vec<u64> {
        self.cots += n;
        let batch = self.config.cot_batch as u64;
        let missing = n.saturating_sub(self.available[of(sender)]);
        let refills = missing.div_ceil(batch);
        self.available[of(sender)] += refills * batch;
        self.available[of(sender)] -= n;
        let payload = refill_bytes(self.config.cot_k, self.config.cot_batch) as u64;
        vec![payload; refills as usize]
    }

    /// `Session::open`.
    pub fn open(&mut self) {
        for p in OPEN_PAYLOADS {
            self.exchange(&[p as u64], &[p as u64]);
        }
    }

    /// `Channel::finish`.
    pub fn finish(&mut self) {
        self.exchange(&[0], &[0]);
    }

    fn correlated(&mut self, sender: Party, n: u64, answer_bits: u64) {
        let mut up = self.take(sender, n);
        up.push(bytes(n));
        self.one_way(sender.other(), &up);
        self.one_way(sender, &[bytes(answer_bits)]);
    }

    fn correlated_both(&mut self, n: u64, answer_bits: u64) {
        let mut client = self.take(Party::Server, n);
        let mut server = self.take(Party::Client, n);
        client.push(bytes(n));
        server.push(bytes(n));
        self.exchange(&client, &server);
        self.exchange(&[bytes(answer_bits)], &[bytes(answer_bits)]);
    }

    /// Digit comparison of `n` words of `bits` bits with `thresholds` words of the client each.
    pub fn greater_than(&mut self, n: usize, thresholds: usize, bits: u32) {
        if n == 0 || bits == 0 || thresholds == 0 {
            return;
        }
        let shapes = shapes(bits, self.config.digit_bits, thresholds);
        let mut up = self.take(Party::Client, u64::from(bits) * n as u64);
        up.push(bytes(choice_bits(&shapes, n)));
        self.one_way(Party::Server, &up);
        self.one_way(Party::Client, &[bytes(answer_bits(&shapes, n))]);
        let mut columns = shapes.len();
        while columns > 1 {
            let joins = columns / 2;
            let (singles, pairs) = (n * thresholds, (joins - 1) * n * thresholds);
            let gates = (singles + pairs) as u64;
            let client = self.take(Party::Server, gates);
            let server = self.take(Party::Client, gates);
            self.exchange(&client, &server);
            let opening = bytes(boolean::opening_bits(pairs, singles));
            self.exchange(&[opening], &[opening]);
            columns = columns.div_ceil(2);
        }
    }

    /// `Domain::less_than` on `n` elements.
    pub fn less_than(&mut self, n: usize, thresholds: usize, format: CompareFormat) {
        self.greater_than(n, thresholds, format.int_bits + format.kept_frac);
    }

    /// `Domain::mux` of `n` elements in all.
    pub fn mux(&mut self, n: usize) {
        if n > 0 {
            self.correlated_both(n as u64, 64 * n as u64);
        }
    }

    /// `Domain::b2a` of `n` bits in all, into `Z_2^width` (64 in the trait's method).
    pub fn b2a(&mut self, n: usize, width: u32) {
        if n > 0 {
            self.correlated(Party::Client, n as u64, u64::from(width) * n as u64);
        }
    }

    /// `Domain::truncate`.
    pub fn truncate(&mut self, n: usize, bits: u32) {
        if bits > 0 {
            self.b2a(n, bits);
        }
    }

    /// `Domain::truncate_reduce_faithful`.
    pub fn truncate_reduce_faithful(&mut self, n: usize, bits: u32, out_bits: u32) {
        if bits == 0 {
            return;
        }
        self.greater_than(n, 1, bits);
        self.b2a(n, out_bits);
        if out_bits + bits > 64 {
            self.b2a(n, out_bits + bits - 64);
        }
    }

    /// `TwoParty::extend_64_88`.
    pub fn extend_64_88(&mut self, n: usize) {
        self.b2a(n, 24);
    }

    /// `TwoParty::argmax` of `n` words, compared on `bits` bits (integer and fraction bits, without the sign).
    pub fn argmax(&mut self, n: usize, bits: u32) {
        let mut left = n;
        while left > 1 {
            let pairs = left / 2;
            self.greater_than(pairs, 1, bits);
            self.mux(if left == 2 { 1 } else { 2 * pairs });
            left -= pairs;
        }
    }

    /// `TwoParty::open_to_client`.
    pub fn open_to_client(&mut self, n: usize, bits: u32) {
        self.one_way(Party::Server, &[bytes(u64::from(bits) * n as u64)]);
    }

    /// `CotProducts::product`.
    pub fn cot_product(&mut self, n: usize) {
        if n > 0 {
            self.correlated_both(64 * n as u64, 2080 * n as u64);
        }
    }

    /// `CotProducts::square`.
    pub fn cot_square(&mut self, n: usize) {
        if n > 0 {
            self.correlated(Party::Client, 63 * n as u64, 2016 * n as u64);
        }
    }

    /// `CotProducts::product_known`.
    pub fn cot_product_known(&mut self, owner: Party, n: usize) {
        if n > 0 {
            self.correlated(owner, 64 * n as u64, 2080 * n as u64);
        }
    }
}

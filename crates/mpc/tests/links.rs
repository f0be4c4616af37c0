//! The protocols over TCP and over an emulated link.

#![allow(clippy::unwrap_used, clippy::panic)]

use cipherloom_mpc::harness::{join_bits, run_channels, share_words};
use cipherloom_mpc::{
    CompareFormat, CostModel, CotProducts, Domain, MpcConfig, ProductSource, Session, Shares,
    TwoParty,
};
use cipherloom_net::{
    Channel, ChannelConfig, EmulatedLink, LinkProfile, TcpAcceptor, TcpTransport, Transport,
};
use cipherloom_ring::SecretSeed;
use cipherloom_spec::FracBits;
use std::time::{Duration, Instant};

#[test]
fn a_comparison_over_tcp_with_latency_waits_for_its_flights_and_is_right() {
    const RTT: Duration = Duration::from_millis(20);
    let wait = Duration::from_secs(20);
    let acceptor = TcpAcceptor::bind("127.0.0.1:0").unwrap();
    let addr = acceptor.local_addr().unwrap();
    let connecting = std::thread::spawn(move || TcpTransport::connect(addr, wait).unwrap());
    let server = acceptor.accept(wait, wait).unwrap();
    let client = connecting.join().unwrap();
    let profile = LinkProfile::new("test", 1e9, RTT.as_micros() as u64);
    let open = |t: TcpTransport| {
        let link: Box<dyn Transport> = Box::new(EmulatedLink::new(Box::new(t), profile, wait));
        Channel::new(link, ChannelConfig::default()).unwrap()
    };
    let config = MpcConfig {
        cot_batch: 8192,
        ..MpcConfig::default()
    };
    let format = CompareFormat {
        kept_frac: 12,
        int_bits: 5,
    };
    let frac = FracBits(19);
    let x: Vec<u64> = (0..200)
        .map(|j| frac.encode(f64::from(j - 100) / 16.0 + 0.01))
        .collect();
    let (a, b) = share_words(&x, &mut SecretSeed::from_bytes([5; 32]).derive("test", 0));
    let run = |v: Vec<u64>| {
        move |p: &mut TwoParty| {
            let start = Instant::now();
            let bits = p.less_than(&Shares { v, frac }, &[0.0], format)?;
            Ok((bits, start.elapsed()))
        }
    };
    let cot = |_: &mut Session| Ok(Box::new(CotProducts) as Box<dyn ProductSource>);
    let ((p, t0), (q, t1)) =
        run_channels(config, open(client), open(server), &cot, run(a), run(b)).unwrap();
    for (w, bit) in x.iter().zip(join_bits(&p[0].v, &q[0].v)) {
        assert_eq!(bit == 1, (*w as i64) < 0);
    }
    let mut model = CostModel::new(config);
    model.open();
    let before = model.traffic();
    model.less_than(200, 1, format);
    let flights = model.traffic().since(&before).flights;
    // At most two flights are under way at once, so half of them follow one another, each half a round trip long.
    let least = RTT / 2 * (flights as u32).div_ceil(2);
    assert!(t0.max(t1) >= least, "{t0:?} {t1:?} {least:?}");
}

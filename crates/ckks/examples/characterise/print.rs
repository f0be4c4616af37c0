//! Tables.

use cipherloom_spec::cost::HeCounts;

use crate::trace::Step;
use crate::Report;

fn counts(c: &HeCounts) -> String {
    format!(
        "pt-ct {:4}  ct-ct {:4}  rotations {:4}  relinearisations {:3}  rescales {:4}  aligns {:2}",
        c.pt_ct, c.ct_ct, c.rotations, c.relinearizations, c.rescales, c.aligns
    )
}

fn steps(steps: &[Step]) {
    for s in steps {
        println!(
            "    {:27} level {:2} -> {:2} {:8.1} ms  {}",
            s.name,
            s.from,
            s.to,
            s.ms,
            counts(&s.counts)
        );
    }
}

/// Prints everything.
pub fn tables(r: &Report) {
    println!(
        "Figures of the paper (TenSEAL on SEAL, N = 2^14, scale 2^40) in brackets. {} threads.",
        r.threads
    );
    println!("\n1. Usable depth, N = 2^14");
    for d in &r.depth {
        println!(
            "  {} primes ({} special, {} base), {:.0} bits: {} products = L - {}; error {:.1e}",
            d.primes,
            d.special,
            d.base,
            d.log_qp,
            d.products,
            d.primes - d.products,
            d.fidelity.largest_error
        );
        println!("    then: {}", d.refusal);
    }
    println!("  one level more: {}", r.refused_chain);
    println!("  [9 primes, 400 bits: 7 products = L - 2; 440 bits are refused]");
    println!("  The rule is L - special primes - base primes. With one of each it is L - 2 in any library; here a chain may");
    println!("  have more special primes (smaller keys), and a base of 50 bits where SEAL takes 60 leaves room for one level.");

    println!("\n2. Softmax over 8 scores, ring without security");
    for s in &r.softmax {
        println!(
            "  {}: {} levels, error {:.1e}",
            s.name, s.levels, s.fidelity.largest_error
        );
        steps(&s.steps);
    }
    println!("  [11 levels]");
    println!("  On a secure chain of seven levels, N = 2^14:");
    for w in &r.wall {
        let at = w.done.last().map_or("the start", |s| s.name.as_str());
        println!("  {}: after \"{at}\": {}", w.name, w.refusal);
    }
    println!("  [aborts with scale overflow at the operation that the trace names]");

    println!("\n3. Attention, 8 tokens, dimension 16");
    for a in &r.attention {
        println!(
            "  {}, N = 2^{}: {} levels, {:.0} ms, model {:.0} ms ({:+.0} %); error {:.1e}, cosine {:.12}",
            a.name,
            a.log_n,
            a.levels,
            a.measured_ms,
            a.predicted_ms,
            100.0 * (a.predicted_ms / a.measured_ms - 1.0),
            a.fidelity.largest_error,
            a.fidelity.cosine
        );
        println!("    {}", counts(&a.counts));
        steps(&a.steps);
    }
    println!("  [pt-ct 384, ct-ct 2048, rotations 1536; error 3.2e-6, cosine 0.9999999993]");
    if let [scalar, packed, ..] = r.attention.as_slice() {
        println!(
            "  packing: {:.0} times less time, and 8 such heads fit in the slots [38 times, a projection]",
            scalar.measured_ms / packed.measured_ms
        );
    }
    let c = &r.copies;
    println!(
        "  a copy of a ciphertext {:.2} ms, a level dropped {:.2} ms, a rescale {:.2} ms, a product {:.2} ms",
        c.copy_ms, c.drop_one_level_ms, c.rescale_ms, c.product_ms
    );
    println!("  [the copy costs several times the reduction beside it; packing takes a level: here none is taken silently]");

    println!("\n4. Encoder layer, ring without security");
    for l in &r.layer {
        println!(
            "  {}: {} levels; error {:.1e}, cosine {:.9}",
            l.name, l.levels, l.fidelity.largest_error, l.fidelity.cosine
        );
        println!("    {}", counts(&l.counts));
        steps(&l.steps);
        if let Some(s) = l.seconds_at_2_16 {
            println!(
                "    priced at N = 2^16, secure, {} levels: {s:.1} s",
                l.levels
            );
        }
    }
    println!("  [33 levels; 268.7 s with one value a ciphertext, 7.0 s with diagonal packing, both projections]");
}

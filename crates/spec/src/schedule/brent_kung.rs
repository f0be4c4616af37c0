//! The Brent-Kung prefix in streaming order (protocols 3.2).
//!
//! The textbook form sweeps up and down in place over all elements. Every operation reads elements to its left
//! only, so the same operations can run while the elements arrive: element `k` first absorbs the finished nodes to its
//! left (up), then, unless it covers the range from 0, one earlier prefix (down). Counts and depth are those
//! of the in-place form; only about `2 log2 len` elements are alive at a time.

/// Distances of the up-sweep compositions of element `k`, in order: `T[k] = T[k] after T[k - d]` for `d = 1, 2, 4, ..`.
pub fn up_distances(k: usize) -> impl Iterator<Item = usize> {
    (0..(k + 1).trailing_zeros()).map(|j| 1usize << j)
}

/// Whether the node of element `k`, complete after its up-sweep, is absorbed by a later element of a sequence of `len`.
#[must_use]
pub fn node_is_absorbed(k: usize, len: usize) -> bool {
    k + span(k) < len
}

/// The element whose prefix completes the prefix of `k`; `None` when the node of `k` covers the range from 0.
#[must_use]
pub fn down_source(k: usize) -> Option<usize> {
    let d = span(k);
    (k + 1 != d).then(|| k - d)
}

/// The last element that reads the prefix of `k` in a sequence of `len`; `None` when none does.
#[must_use]
pub fn prefix_last_use(k: usize, len: usize) -> Option<usize> {
    let mut d = span(k) / 2;
    while d > 0 {
        if k + d < len {
            return Some(k + d);
        }
        d /= 2;
    }
    None
}

/// Number of elements that the node of `k` covers after the up-sweep: the largest power of two dividing `k + 1`.
#[must_use]
pub fn span(k: usize) -> usize {
    1 << (k + 1).trailing_zeros()
}

/// The up-sweep nodes that together cover `0..len`, from the left, as the element that holds each.
#[must_use]
pub fn roots(len: usize) -> Vec<usize> {
    let mut at = 0;
    (0..usize::BITS)
        .rev()
        .map(|b| 1usize << b)
        .filter(|&size| len & size != 0)
        .map(|size| {
            at += size;
            at - 1
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The in-place form of protocols 3.2: pairs (target, source).
    fn in_place(len: usize) -> [Vec<(usize, usize)>; 2] {
        let (mut up, mut down) = (vec![], vec![]);
        let mut d = 1;
        while d < len {
            up.extend((2 * d - 1..len).step_by(2 * d).map(|k| (k, k - d)));
            d *= 2;
        }
        while d >= 1 {
            down.extend((3 * d - 1..len).step_by(2 * d).map(|k| (k, k - d)));
            d /= 2;
        }
        [up, down]
    }

    #[test]
    fn streaming_order_has_the_same_compositions_as_the_sweeps() {
        for len in 1..70 {
            let [mut up, mut down] = in_place(len);
            up.sort_unstable();
            down.sort_unstable();
            let mut got_up: Vec<_> = (0..len)
                .flat_map(|k| up_distances(k).map(move |d| (k, k - d)))
                .collect();
            got_up.sort_unstable();
            let got_down: Vec<_> = (0..len)
                .filter_map(|k| down_source(k).map(|s| (k, s)))
                .collect();
            assert_eq!((up, down), (got_up, got_down), "length {len}");
            if len.is_power_of_two() {
                let p = len.trailing_zeros() as usize;
                let n: usize = (0..len).map(|k| up_distances(k).count()).sum();
                let m = (0..len).filter_map(down_source).count();
                assert_eq!(n + m, (2 * len).saturating_sub(2 + p));
            }
        }
    }

    #[test]
    fn last_uses_are_exact() {
        for len in 1..70 {
            for k in 0..len {
                let last = (0..len).filter(|&p| down_source(p) == Some(k)).max();
                assert_eq!(prefix_last_use(k, len), last, "{k} of {len}");
                let absorbed = (0..len).any(|p| up_distances(p).any(|d| p - d == k));
                assert_eq!(node_is_absorbed(k, len), absorbed, "{k} of {len}");
            }
        }
    }

    #[test]
    fn roots_tile_the_range() {
        assert_eq!(roots(8), [7]);
        assert_eq!(roots(11), [7, 9, 10]);
        for len in 1..70 {
            let mut at = 0;
            for r in roots(len) {
                assert_eq!(r + 1 - span(r).min(r + 1), at);
                at = r + 1;
            }
            assert_eq!(at, len);
        }
    }
}

//! Which value of a row-major tensor each slot holds.

use crate::SpecError;

/// Marks a slot lane that holds zero.
pub const ZERO_SLOT: u32 = u32::MAX;

/// For every slot the index of its real and its imaginary value in a row-major tensor, or [`ZERO_SLOT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotMap {
    /// Index of the real lane's value, one a slot.
    pub re: Vec<u32>,
    /// Index of the imaginary lane's value, one a slot; empty when the lane is zero everywhere.
    pub im: Vec<u32>,
    /// Whether the imaginary lane holds the negated value.
    pub negate_im: bool,
}

impl SlotMap {
    /// The lanes of every slot, gathered from a tensor; `negate` gives the additive inverse (wrapping for shares).
    ///
    /// # Errors
    /// `Shape` when the tensor is shorter than an index of the map.
    pub fn gather<T: Copy>(
        &self,
        values: &[T],
        zero: T,
        negate: impl Fn(T) -> T,
    ) -> Result<Vec<(T, T)>, SpecError> {
        let get = |index: Option<&u32>| match index {
            None | Some(&ZERO_SLOT) => Ok(zero),
            Some(&i) => values.get(i as usize).copied().ok_or(SpecError::Shape {
                what: "slot map",
                detail: format!("index {i} is outside a tensor of {} values", values.len()),
            }),
        };
        (0..self.re.len())
            .map(|k| {
                let im = get(self.im.get(k))?;
                let im = if self.negate_im && !self.im.is_empty() {
                    negate(im)
                } else {
                    im
                };
                Ok((get(self.re.get(k))?, im))
            })
            .collect()
    }

    /// Writes the real lanes of a ciphertext's slots to their places in a tensor; lanes marked [`ZERO_SLOT`] are skipped.
    ///
    /// # Errors
    /// `Shape` when there are not as many slots as the map has, or the tensor is too short.
    pub fn scatter_re<T: Copy>(&self, slots: &[T], tensor: &mut [T]) -> Result<(), SpecError> {
        if slots.len() != self.re.len() {
            return Err(SpecError::Shape {
                what: "slot map",
                detail: format!("{} slots given to a map of {}", slots.len(), self.re.len()),
            });
        }
        let len = tensor.len();
        for (&v, &i) in slots.iter().zip(&self.re) {
            if i != ZERO_SLOT {
                *tensor.get_mut(i as usize).ok_or(SpecError::Shape {
                    what: "slot map",
                    detail: format!("index {i} is outside a tensor of {len} values"),
                })? = v;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_negates_and_scatters() {
        let m = SlotMap {
            re: vec![1, ZERO_SLOT],
            im: vec![0, 1],
            negate_im: true,
        };
        let got = m.gather(&[5i64, 7], 0, |v| -v).unwrap();
        assert_eq!(got, vec![(7, -5), (0, -7)]);
        assert!(m.gather(&[5i64], 0, |v| -v).is_err());
        let mut t = [0; 2];
        m.scatter_re(&[3, 4], &mut t).unwrap();
        assert_eq!(t, [0, 3]);
        assert!(m.scatter_re(&[3], &mut t).is_err());
        assert!(m.scatter_re(&[3, 4], &mut t[..1]).is_err());
    }
}

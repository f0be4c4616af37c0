//! The client's side of a session.

use crate::configs::Configs;
use crate::face::{Face, Kernel, Known, Slot};
use crate::keys::ClientKeys;
use crate::EngineError;
use cipherloom_bridge::{CkksToShares, ExportDecryptor, SharesToCkks, SlotWords, WideFft};
use cipherloom_mpc::TwoParty;
use cipherloom_plan::{Plan, Ring};
use cipherloom_spec::cost::HeCounts;
use cipherloom_spec::fixed::DEFAULT_FRAC;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The client during the stages: holds the secret keys and the document.
pub struct ClientFace {
    two: TwoParty,
    keys: ClientKeys,
    fft: [Arc<WideFft>; 2],
    exports: [ExportDecryptor; 2],
    embedded: Zeroizing<Vec<f64>>,
    pooling: Zeroizing<Vec<f64>>,
}

/// What the client makes from its keys before the session opens, so that nothing can fail once it is joined.
pub struct ClientTables {
    keys: ClientKeys,
    fft: [Arc<WideFft>; 2],
    exports: [ExportDecryptor; 2],
}

impl ClientTables {
    /// Transforms and decryptors of both rings.
    ///
    /// # Errors
    /// Bridge errors.
    pub fn new(keys: ClientKeys) -> Result<Self, EngineError> {
        let fft = [
            Arc::new(WideFft::new(keys.projection.params.chain().log_n())?),
            Arc::new(WideFft::new(keys.scan.params.chain().log_n())?),
        ];
        let exports = [
            ExportDecryptor::new(&keys.projection.params, &keys.projection.decryptor)?,
            ExportDecryptor::new(&keys.scan.params, &keys.scan.decryptor)?,
        ];
        Ok(Self { keys, fft, exports })
    }
}

impl ClientFace {
    /// Joins session, keys and document.
    #[must_use]
    pub fn new(two: TwoParty, tables: ClientTables, embedded: Vec<f64>, pooling: Vec<f64>) -> Self {
        let ClientTables { keys, fft, exports } = tables;
        Self {
            two,
            keys,
            fft,
            exports,
            embedded: Zeroizing::new(embedded),
            pooling: Zeroizing::new(pooling),
        }
    }

    /// Gives the session back, to end it.
    #[must_use]
    pub fn into_two(self) -> TwoParty {
        self.two
    }
}

/// Position of a ring in the arrays above.
pub(crate) fn index(ring: Ring) -> usize {
    match ring {
        Ring::Projection => 0,
        Ring::Scan => 1,
    }
}

impl Face for ClientFace {
    fn two(&mut self) -> &mut TwoParty {
        &mut self.two
    }

    fn to_ckks(
        &mut self,
        ring: Ring,
        level: usize,
        _: Slot,
        words: Vec<SlotWords>,
    ) -> Result<(), EngineError> {
        let side = match ring {
            Ring::Projection => &self.keys.projection,
            Ring::Scan => &self.keys.scan,
        };
        let boundary =
            SharesToCkks::new(&side.params, &self.fft[index(ring)], level, DEFAULT_FRAC)?;
        Ok(boundary.client(&words, &side.encryptor, self.two.session().channel())?)
    }

    fn to_shares(
        &mut self,
        ring: Ring,
        slots: &[(Slot, usize, usize)],
    ) -> Result<Vec<Vec<SlotWords>>, EngineError> {
        let params = match ring {
            Ring::Projection => &self.keys.projection.params,
            Ring::Scan => &self.keys.scan.params,
        };
        let mut out = Vec::with_capacity(slots.len());
        for &(_, level, count) in slots {
            let boundary = CkksToShares::new(
                params,
                &self.fft[index(ring)],
                params.scale(level),
                DEFAULT_FRAC,
            )?;
            out.push(boundary.client(
                count,
                &self.exports[index(ring)],
                self.two.session().channel(),
            )?);
        }
        Ok(out)
    }

    fn kernel(&mut self, _: usize, _: Kernel) -> Result<(), EngineError> {
        Ok(())
    }

    fn known(&self, _: usize) -> Known<'_> {
        Known {
            rates: None,
            skip: None,
        }
    }

    fn classifier(&self) -> Option<(&[f64], &[f64])> {
        None
    }

    fn pooling(&self) -> Option<&[f64]> {
        Some(&self.pooling)
    }

    fn embedded(&self) -> Option<&[f64]> {
        Some(&self.embedded)
    }

    fn he_counts(&self) -> HeCounts {
        HeCounts::default()
    }

    fn take_peak_live(&mut self) -> u64 {
        0
    }
}

/// Formats of a plan, derived once a session.
///
/// # Errors
/// As [`Configs::new`].
pub fn configs(plan: &Plan) -> Result<Configs, EngineError> {
    Configs::new(plan)
}

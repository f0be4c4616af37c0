//! The nonlinear functions of the forward pass: exact, or as the protocol approximates them.

use crate::calibration::Calibration;
use cipherloom_spec::approx::{NeRms, StackSpec};

/// Which norm of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NormId {
    /// Before the mixer of a layer.
    Pre(usize),
    /// The gated norm inside the mixer of a layer.
    Gated(usize),
    /// After the last layer.
    Final,
}

impl NormId {
    /// Name of the tensor that holds the mean of squares.
    pub fn tensor(self) -> String {
        match self {
            Self::Pre(i) => format!("layer{i}.prenorm_ms"),
            Self::Gated(i) => format!("layer{i}.gated_norm_ms"),
            Self::Final => "final_norm_ms".to_string(),
        }
    }

    /// All norms of a network with `layers` layers, in order of evaluation.
    pub fn all(layers: usize) -> Vec<Self> {
        (0..layers)
            .flat_map(|i| [Self::Pre(i), Self::Gated(i)])
            .chain([Self::Final])
            .collect()
    }
}

/// The four functions that are not linear.
pub trait Nonlin: Sync {
    /// SiLU, on the convolution output and on the gate.
    fn silu(&self, x: f64) -> f64;
    /// Softplus, on dt plus its bias.
    fn softplus(&self, x: f64) -> f64;
    /// exp of `Δ·A`.
    fn decay(&self, z: f64) -> f64;
    /// `1/sqrt(v)` with `v = mean of squares + epsilon`.
    fn inv_sqrt(&self, norm: NormId, v: f64) -> f64;
}

/// The exact functions, stable for large inputs of both signs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exact;

impl Nonlin for Exact {
    fn silu(&self, x: f64) -> f64 {
        x / (1.0 + (-x).exp())
    }

    fn softplus(&self, x: f64) -> f64 {
        // ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|): no overflow, full precision for small results.
        x.max(0.0) + (-x.abs()).exp().ln_1p()
    }

    fn decay(&self, z: f64) -> f64 {
        z.exp()
    }

    fn inv_sqrt(&self, _norm: NormId, v: f64) -> f64 {
        1.0 / v.sqrt()
    }
}

/// The approximations that the protocol evaluates, in `f64`.
#[derive(Debug, Clone, PartialEq)]
pub struct Surrogate {
    spec: StackSpec,
    pre: Vec<NeRms>,
    gated: Vec<NeRms>,
    last: NeRms,
}

impl Surrogate {
    /// The functions of a calibrated model.
    pub fn new(calibration: &Calibration) -> Self {
        Self::from_parts(
            calibration.stack.spec(),
            calibration.norms.pre.clone(),
            calibration.norms.gated.clone(),
            calibration.norms.last.clone(),
        )
    }

    /// From a stack and one table a norm; `pre` and `gated` hold one table a layer.
    pub fn from_parts(spec: StackSpec, pre: Vec<NeRms>, gated: Vec<NeRms>, last: NeRms) -> Self {
        Self {
            spec,
            pre,
            gated,
            last,
        }
    }

    /// Table of a norm. A layer beyond the tables gets the last one, which cannot happen for a
    /// calibration that was checked against its model.
    pub fn table(&self, norm: NormId) -> &NeRms {
        match norm {
            NormId::Pre(i) => self.pre.get(i).unwrap_or(&self.last),
            NormId::Gated(i) => self.gated.get(i).unwrap_or(&self.last),
            NormId::Final => &self.last,
        }
    }

    /// The scalar approximations.
    pub fn spec(&self) -> &StackSpec {
        &self.spec
    }
}

impl Nonlin for Surrogate {
    fn silu(&self, x: f64) -> f64 {
        self.spec.silu.eval(x)
    }

    fn softplus(&self, x: f64) -> f64 {
        self.spec.softplus.eval(x)
    }

    fn decay(&self, z: f64) -> f64 {
        self.spec.exp.eval(z)
    }

    fn inv_sqrt(&self, norm: NormId, v: f64) -> f64 {
        self.table(norm).eval(v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_functions_are_stable() {
        let f = Exact;
        assert_eq!(f.softplus(1000.0), 1000.0);
        assert!((f.softplus(-40.0) / (-40f64).exp() - 1.0).abs() < 1e-14);
        assert!((f.softplus(0.0) - 2f64.ln()).abs() < 1e-16);
        assert_eq!(f.silu(-1000.0), 0.0);
        assert_eq!(f.silu(1000.0), 1000.0);
        assert_eq!(f.decay(-2000.0), 0.0);
    }

    #[test]
    fn norms_are_listed_in_order_of_evaluation() {
        let names: Vec<_> = NormId::all(2).iter().map(|n| n.tensor()).collect();
        assert_eq!(
            names,
            [
                "layer0.prenorm_ms",
                "layer0.gated_norm_ms",
                "layer1.prenorm_ms",
                "layer1.gated_norm_ms",
                "final_norm_ms"
            ]
        );
    }
}

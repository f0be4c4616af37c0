//! Named choices of all approximations together.

use super::even::{EvenResidual, SILU_D4, SILU_D8_TAU6, SOFTPLUS_D4, SOFTPLUS_D8_TAU6};
use super::exp::ExpApprox;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A named set of approximations for one deployment. Serialised by its name.
///
/// Largest logit difference from the exact model on the shipped Mamba-2 model without retraining (60
/// documents, 512 tokens), measured when the set was chosen: `paper` 0.47, `d4` 0.34, `mid` 0.23,
/// `tight` 0.09. What a given model reaches is what `calibrate` and `audit` report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// As published: SiLU and softplus of degree 4 with tau = 4, the literal degree-4 exponential, one
    /// Newton step. Meant for models trained with it.
    Paper,
    /// SiLU and softplus of degree 4 with tau = 4, exponential by graph G-D with `q(0) = 1`, one Newton
    /// step. The default: the published cost without the loss of memory at every token.
    #[default]
    D4,
    /// SiLU of degree 4 with tau = 4, softplus of degree 8 with tau = 6, G-D, two Newton steps.
    Mid,
    /// SiLU and softplus of degree 8 with tau = 6, G-D, two Newton steps. For unmodified checkpoints.
    Tight,
}

/// What a [`Stack`] consists of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StackSpec {
    /// SiLU, used on the convolution output and on the gate.
    pub silu: EvenResidual,
    /// Softplus, used on the time step with its bias.
    pub softplus: EvenResidual,
    /// Exponential, used on `Δ·A`.
    pub exp: ExpApprox,
    /// Newton steps of every reciprocal square root.
    pub newton: u32,
}

impl Stack {
    /// All stacks, from the cheapest to the most accurate.
    pub const ALL: [Self; 4] = [Self::Paper, Self::D4, Self::Mid, Self::Tight];

    /// Name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::D4 => "d4",
            Self::Mid => "mid",
            Self::Tight => "tight",
        }
    }

    /// The approximations of this stack.
    pub fn spec(self) -> StackSpec {
        match self {
            Self::Paper => StackSpec {
                silu: SILU_D4,
                softplus: SOFTPLUS_D4,
                exp: ExpApprox::D4,
                newton: 1,
            },
            Self::D4 => StackSpec {
                silu: SILU_D4,
                softplus: SOFTPLUS_D4,
                exp: ExpApprox::Gd,
                newton: 1,
            },
            Self::Mid => StackSpec {
                silu: SILU_D4,
                softplus: SOFTPLUS_D8_TAU6,
                exp: ExpApprox::Gd,
                newton: 2,
            },
            Self::Tight => StackSpec {
                silu: SILU_D8_TAU6,
                softplus: SOFTPLUS_D8_TAU6,
                exp: ExpApprox::Gd,
                newton: 2,
            },
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A stack name that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown approximation stack `{0}`; known: paper, d4, mid, tight")]
pub struct UnknownStack(pub String);

impl FromStr for Stack {
    type Err = UnknownStack;

    fn from_str(s: &str) -> Result<Self, UnknownStack> {
        Self::ALL
            .into_iter()
            .find(|k| k.name() == s)
            .ok_or_else(|| UnknownStack(s.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for k in Stack::ALL {
            assert_eq!(k.name().parse::<Stack>().unwrap(), k);
            let json = serde_json::to_string(&k).unwrap();
            assert_eq!(json, format!("\"{}\"", k.name()));
            assert_eq!(serde_json::from_str::<Stack>(&json).unwrap(), k);
        }
        let e = "d5".parse::<Stack>().unwrap_err();
        assert!(e.to_string().contains("`d5`") && e.to_string().contains("tight"));
    }

    #[test]
    fn default_is_the_deployed_stack() {
        let s = Stack::default().spec();
        assert_eq!(s.silu.degree(), 4);
        assert_eq!(s.exp, ExpApprox::Gd);
        assert_eq!(s.newton, 1);
    }
}

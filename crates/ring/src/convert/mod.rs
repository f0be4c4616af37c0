//! Changing the modulus: base conversion, rescaling, and the two halves of hybrid key switching.
//!
//! Formulas: Halevi, Polyakov, Shoup 2018 (ePrint 2018/117), section 2.2 (centred conversion with a
//! floating-point quotient); Han, Ki 2019 (ePrint 2019/688) for `ModUp` and `ModDown`.

mod base;
mod mod_down;
mod mod_up;
mod rescale;

pub use base::BaseConverter;
pub use mod_down::ModDown;
pub use mod_up::{digit_ranges, ModUp};

//! RNS ring arithmetic: NTT, polynomials, samplers, SIMD backends.

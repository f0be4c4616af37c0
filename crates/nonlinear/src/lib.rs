//! Nonlinear functions on shares: coefficients, domain, error, protocols.

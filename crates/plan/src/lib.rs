//! The plan: stages, contracts, depth audit, costs.

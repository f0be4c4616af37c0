//! Runs a plan: client and server sessions.

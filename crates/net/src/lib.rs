//! Framed, counted channels between two parties.

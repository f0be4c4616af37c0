//! Encrypted kernels: projection, convolution, scan, contraction.

"""Side-by-side benchmark of Cipherloom's CKKS against its peers."""

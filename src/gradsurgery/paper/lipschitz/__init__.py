"""A smooth network: an MLP on digits, with a bound on its Lipschitz constant as auxiliary loss."""

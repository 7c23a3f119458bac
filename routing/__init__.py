"""Where a request should go: pure and synchronous; time and randomness come in as arguments."""

"""A simulated vLLM replica: exact in what it caches and announces, modelled in how long it takes."""

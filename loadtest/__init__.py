"""Load on the gateway: simulated replicas, workloads, and what they show."""

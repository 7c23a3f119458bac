"""Where the replicas are: Kubernetes, DNS, a file, and what the configuration names."""

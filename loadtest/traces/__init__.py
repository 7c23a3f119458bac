"""Recorded workloads: what was asked when, by the identity of the blocks."""

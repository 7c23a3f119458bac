"""The dashboard: what the fleet does now, what the cache saves, and why requests went where they went."""

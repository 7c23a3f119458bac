"""Routers side by side: the same trace, fleet and seeds, and how far each is from what is possible."""

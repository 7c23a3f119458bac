"""What an operator's own traffic says: what is reused, what a cache of which size would serve, and what it is worth."""

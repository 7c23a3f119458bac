"""A fleet and its gateways in one process and virtual time: the real decisions and caches, no sockets, no waiting."""

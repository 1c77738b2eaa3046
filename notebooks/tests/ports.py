"""Ports of this host for servers that tests start."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """Give a port that nobody listens at.

    It lies below those that the kernel gives to connections, which could take it before the server
    listens.
    """
    while True:
        port = random.randrange(10000, 32768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port

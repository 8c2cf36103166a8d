"""The port that probes are answered on: opened, and how others reach it."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from django_jobs.ports import refusal

WAITING = 64  # connections that the kernel keeps for us
ELSEWHERE = "192.0.2.1", 9  # an address of nobody (RFC 5737); no packet is sent to it


def opened(number: int, *, host: str) -> socket.socket:
    """Return a listening socket; raise PortRefused when the port cannot be had."""
    is_six = ":" in host
    try:
        return socket.create_server(
            (host, number),
            family=socket.AF_INET6 if is_six else socket.AF_INET,
            backlog=WAITING,
            dualstack_ipv6=is_six and host == "::" and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        raise refusal(
            error, flag="--health-port", host_flag="--health-host", port=number, host=host
        ) from None


def address_of(listening: socket.socket) -> str:
    """Return ``host:port`` by which this and other machines reach the socket."""
    host, port = listening.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = _own_address()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _own_address() -> str:
    """Return the address that this machine sends from."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect(ELSEWHERE)
            return str(sender.getsockname()[0])
    except OSError:  # it has no network
        return "127.0.0.1"

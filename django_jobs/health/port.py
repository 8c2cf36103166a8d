"""The port that probes are answered on: chosen, opened, and how others reach it."""

from __future__ import annotations

import os
import re
import socket
from ipaddress import ip_address

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a container is probed from outside of it
HIGHEST = 65_535
WAITING = 64  # connections that the kernel keeps for us
PROCESS = "DJANGO_JOBS_PROCESS"  # which of a parent's processes this is, from 0
ELSEWHERE = "192.0.2.1", 9  # an address of nobody (RFC 5737); no packet is sent to it


class PortRefused(Exception):
    """Probes cannot be answered as asked; the message names the cure."""


def number_of(text: str) -> int:
    """Return the port of this process: of several the k-th takes the port + k."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > HIGHEST:
        msg = f"--health-port is {text!r:.60}. Set it to a whole number from 0 to {HIGHEST}."
        raise PortRefused(msg)
    number = int(text)
    if number:
        number += _process()
    if number > HIGHEST:
        msg = (
            f"--health-port {text}: process {_process()} would take {number}. Choose a lower one."
        )
        raise PortRefused(msg)
    return number


def _process() -> int:
    said = os.environ.get(PROCESS, "")
    return int(said) if said.isascii() and said.isdecimal() else 0


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
        msg = (
            f"--health-port {number} cannot be served on {host}: {error.strerror or error}."
            " Choose a free port, or 0 for any, and --health-host for another address."
        )
        raise PortRefused(msg) from None


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

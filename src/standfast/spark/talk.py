"""Messages between a worker and a host: a length, a JSON head, some bytes."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

_SIZE = struct.Struct(">Q")
_HEAD = struct.Struct(">II")  # length of the head, number of blobs


class Gone(Exception):
    """The other side is not there any more."""


def send(talk: socket.socket, head: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Send a message."""
    text = json.dumps(head).encode()
    sizes = b"".join(_SIZE.pack(len(blob)) for blob in blobs)
    try:
        talk.sendall(_HEAD.pack(len(text), len(blobs)) + sizes + text)
        for blob in blobs:
            talk.sendall(blob)
    except OSError as error:
        raise Gone(str(error)) from error


def receive(talk: socket.socket) -> tuple[dict[str, Any], list[bytes]]:
    """Wait for a message."""
    n_text, n_blobs = _HEAD.unpack(_exactly(talk, _HEAD.size))
    sizes = [size for (size,) in _SIZE.iter_unpack(_exactly(talk, n_blobs * _SIZE.size))]
    head = json.loads(_exactly(talk, n_text))
    return head, [_exactly(talk, size) for size in sizes]


def _exactly(talk: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        try:
            n = talk.recv_into(view[at:])
        except OSError as error:
            raise Gone(str(error)) from error
        if not n:
            raise Gone("the connection was closed")
        at += n
    return bytes(data)

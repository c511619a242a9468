#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Joins the launcher of node 0 as node 1 of 2, and sends what no launcher sends: rogue_node.py PORT lost|answer|code."""
import socket
import struct
import sys
import time

HEADER = struct.Struct("<4sBBHIIq")  # src/store/wire/protocol.h
INFO = struct.Struct("<II32s7i64s200s")  # struct tti_node_info
MESSAGE = struct.Struct("<8i200s")  # struct tti_node_message
HELLO, SET, GET = 1, 2, 3
VERSION = 3  # TTI_PROTOCOL_VERSION
REPORT, ACK, LOST = 4, 7, 8  # enum tti_node_message_kind


def connect(port):
    until = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 60)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


class Store:
    def __init__(self, port):
        self.socket = connect(port)
        self.ask(HELLO, "", number=VERSION)

    def receive(self, length):
        data = b""
        while len(data) < length:
            more = self.socket.recv(length - len(data))
            if not more:
                raise SystemExit("the launcher has hung up")
            data += more
        return data

    def ask(self, kind, key, value=b"", number=0, timeout=0):
        self.socket.sendall(HEADER.pack(b"TTS1", kind, len(key), 0, len(value), number, timeout) + key.encode() + value)
        _, _, _, status, length, _, _ = HEADER.unpack(self.receive(HEADER.size))
        if status:
            raise SystemExit(f"{key}: status {status}")
        return self.receive(length)


def main():
    port, what = int(sys.argv[1]), sys.argv[2]
    store = Store(port)
    info = list(INFO.unpack(store.ask(GET, "node/0", timeout=60000)))
    info[3] = 1  # its number
    info[-2] = b"a host \x1b[31m\xc2\x9b31m"
    if what == "code":
        info[9] = 256  # what main returns as 0
        info[-1] = b"no \x07 reason"
    store.ask(SET, "node/1", INFO.pack(*info))
    store.ask(SET, "seen/1")
    if what == "lost":  # what a link delivers to its own launcher only, of a node that does not exist
        store.ask(SET, "message/1-0/0", MESSAGE.pack(LOST, 1, 4, 1 << 20, 0, 0, 0, 0, b"nobody"))
    elif what == "answer":  # a failure whose exit code would be success
        store.ask(SET, "message/1-0/0", MESSAGE.pack(REPORT, 1, 3, -7, 0, 256, 0, 0, b""))
        store.ask(SET, "message/1-0/1", MESSAGE.pack(ACK, 1, 0, 0, 0, 0, 0, 0, b""))
    while store.socket.recv(4096):
        pass


main()

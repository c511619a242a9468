# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of the statuses, in the order of tutti/status.h; tests/python/parity.py compares them with the header."""

# fmt: off
(
    OK, INVALID_ARGUMENT, BAD_STATE, BUSY, WOULD_DEADLOCK, UNSUPPORTED, NOT_AVAILABLE, NOT_FOUND, NO_MEMORY,
    NO_RESOURCE, DEVICE_MISMATCH, MISMATCH, CANCELLED, TOO_LATE, RANK_TAKEN, VERSION, AUTH, PROTOCOL, FORKED, SYSTEM,
    BACKEND, INTERNAL, TIMEOUT, PEER_LEFT, PEER_DEAD, PEER_CRASHING, PEER_CORRUPT, REVOKED,
) = range(28)
# fmt: on

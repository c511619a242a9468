# SPDX-License-Identifier: BSD-3-Clause
"""The messages of Group: tutti/messages.h. Sends, receives, probes, and batches of them."""

from __future__ import annotations

import ctypes
import threading
from ctypes import addressof, c_int32
from typing import TYPE_CHECKING, Any, Optional, Tuple

from ._call import call_struct, int32, local
from ._errors import BadState, Error, checked, fail
from ._native import MessageStruct, lib
from ._operation import Operations, started, to_numpy
from ._tensor import NAMES, Managed, reading, writing
from ._work import CancelToken, Work

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._call import MessageOptions, Options

ANY = -1
"""Any source, or any tag, of a receive."""
ANY_SOURCE = ANY_TAG = ANY


class Message:
    """What a receive got, or a probe found. In a batch and for a Work it is valid from their end on."""

    __slots__ = ("_struct",)

    def __init__(self) -> None:
        self._struct = MessageStruct(size=ctypes.sizeof(MessageStruct))

    source = property(lambda self: self._struct.source, doc="the sender's rank")
    tag = property(lambda self: self._struct.tag)
    count = property(lambda self: self._struct.count, doc="elements")
    nbytes = property(lambda self: self._struct.bytes)
    dtype = property(lambda self: NAMES.get(self._struct.dtype, "unknown"), doc='the element type, such as "f32"')

    def __repr__(self) -> str:
        return f"tutti.Message(source={self.source}, tag={self.tag}, count={self.count}, dtype={self.dtype!r})"


def _address(peer: int, tag: int) -> Tuple[int, int]:
    return int32(peer, "peer"), int32(tag, "tag")


class Messages(Operations):
    """Operations between two ranks of a group."""

    def send(self, tensor: Any, peer: int, tag: int = 0, **options: Unpack[MessageOptions]) -> None:
        """Sends the tensor to rank `peer`. Returns when it may be changed; that may need the receiver."""
        a, keep = reading(tensor)
        return self._run("send", None, (a, *_address(peer, tag)), options, (keep, tensor))

    send_async = started(send)

    def recv(self, tensor: Any, peer: int = ANY, tag: int = ANY, **options: Unpack[MessageOptions]) -> Message:
        """Receives into the tensor. A message with fewer elements fills the beginning."""
        a, keep = writing(tensor, "tensor")
        message = Message()
        after = (addressof(message._struct),)
        return self._run("recv", message, (a, *_address(peer, tag)), options, (keep, message), after)

    recv_async = started(recv)

    def sendrecv(
        self,
        send: Any,
        destination: int,
        recv: Any,
        source: int = ANY,
        send_tag: int = 0,
        recv_tag: int = ANY,
        **options: Unpack[MessageOptions],
    ) -> Message:
        """Sends one tensor and receives another at the same time."""
        a, keep = reading(send, "send")
        b, kept = writing(recv, "recv")
        message = Message()
        to = int32(destination, "destination"), int32(send_tag, "send_tag")
        before = (a, *to, b, int32(source, "source"), int32(recv_tag, "recv_tag"))
        after = (addressof(message._struct),)
        return self._run("sendrecv", message, before, options, (keep, kept, send, message), after)

    sendrecv_async = started(sendrecv)

    def recv_alloc(self, peer: int = ANY, tag: int = ANY, **options: Unpack[MessageOptions]) -> Tuple[Any, Message]:
        """Receives a message of unknown shape into a new array. Without NumPy it is a Tensor. Not in a batch."""
        if threading.get_ident() in self._batches:
            raise BadState("tutti: recv_alloc in a batch would return before there is an array: use recv, or no batch")
        message, made = Message(), Managed()
        before = _address(peer, tag)
        state = local.state
        if state.is_main and self._in_slices(state):
            return self._wait(self.recv_alloc_async(peer, tag, **options))
        call, keep = call_struct(state.error_address, options) if options else (state.call_address, None)
        out = (made.address, addressof(message._struct))
        status = self._enter(lib.tutti_recv_alloc, self.handle, *before, call, *out)
        if status:
            fail(status, state.error)
        return to_numpy(made.tensor()), message

    def recv_alloc_async(
        self, peer: int = ANY, tag: int = ANY, **options: Unpack[MessageOptions]
    ) -> Work[Tuple[Any, Message]]:
        message, made = Message(), Managed()
        found: list[Any] = []

        def output() -> Tuple[Any, Message]:
            if not found:  # more than one thread may come here; all return the first array
                found.append(to_numpy(made.tensor()))
            return found[0], message

        after = (made.address, addressof(message._struct))
        return self._start("recv_alloc_async", _address(peer, tag), after, options, made, message, output)

    def probe(self, peer: int = ANY, tag: int = ANY) -> Optional[Message]:
        """The message that can be received now, None if there is none. Never waits."""
        found, message = c_int32(), Message()
        checked(lib.tutti_probe, self.handle, *_address(peer, tag), addressof(found), addressof(message._struct))
        return message if found.value else None

    def probe_wait(self, peer: int = ANY, tag: int = ANY, **options: Unpack[MessageOptions]) -> Message:
        """Waits until a message can be received. Its Timeout leaves the group usable."""
        message = Message()
        if local.state.is_main and self._in_slices(local.state):
            return self._wait(self.probe_async(peer, tag, **options))
        return self._run("probe_wait", message, _address(peer, tag), options, None, (addressof(message._struct),))

    def probe_async(self, peer: int = ANY, tag: int = ANY, **options: Unpack[MessageOptions]) -> Work[Message]:
        message = Message()
        return self._start("probe_async", _address(peer, tag), (addressof(message._struct),), options, None, message)

    def batch(self, **options: Unpack[MessageOptions]) -> Batch:
        """`with group.batch():` starts the sends and receives of the block together, and waits for all of them.

        Messages that receives return are valid after the block. `batch.end_async()`, as the last line of the block,
        gives a Work instead.
        """
        return Batch(self, options)


class Batch:
    """See Group.batch."""

    def __init__(self, group: Messages, options: Any):
        self._group, self._options = group, options
        self._ended = False

    def __enter__(self) -> Batch:
        checked(lib.tutti_batch_begin, self._group.handle)
        self._group._batches[threading.get_ident()] = []
        return self

    def end_async(self, **options: Unpack[Options]) -> Work[None]:
        """Starts the messages as one Work. Nothing may be added afterwards."""
        keep = self._group._batches.pop(threading.get_ident())
        self._ended = True
        return self._group._start("batch_end_async", (), (), {**self._options, **options}, keep, None)

    def __exit__(self, kind: object, *_rest: object) -> None:
        if self._ended:
            return
        if kind is None:
            keep = self._group._batches.pop(threading.get_ident())
            self._group._run("batch_end", None, (), self._options, keep)
            return
        # There is no way back: a batch that the block left by an exception is started with a token that has fired.
        token = CancelToken()
        token.cancel()
        try:
            self.end_async(token=token)
        except Error:
            pass

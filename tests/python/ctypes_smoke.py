# SPDX-License-Identifier: BSD-3-Clause
"""Tutti from a foreign language, by ctypes alone: layouts, a world of one, callbacks, ranks that are threads."""

import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p

OK, INVALID_ARGUMENT, WOULD_DEADLOCK, MISMATCH = 0, 1, 4, 11
SUM, MAX = 1, 4
F32, I64 = 2, 10


class Error(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("status", c_int32),
        ("scope", c_int32),
        ("operation", c_int32),
        ("sequence", c_int64),
        ("rank", c_int32),
        ("suspect", c_int32),
        ("elapsed_ms", c_int64),
        ("deadline_ms", c_int64),
        ("vendor_code", c_int64),
        ("backend", c_char * 16),
        ("message", c_char * 440),
    ]


CALLBACK = ctypes.CFUNCTYPE(None, c_int32, POINTER(Error), c_void_p)
RANK_FUNCTION = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p)


class Call(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("timeout_ms", c_int64),
        ("lane", c_int32),
        ("tag", c_uint32),
        ("scale", c_double),
        ("stream", c_void_p),
        ("error", POINTER(Error)),
        ("callback", CALLBACK),
        ("user", c_void_p),
        ("token", c_void_p),
        ("operation_id", c_int64),
    ]


class Config(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("rank", c_int32),
        ("world_size", c_int32),
        ("lanes", c_int32),
        ("device_index", c_int32),
        ("timeout_ms", c_int64),
        ("backend", c_char_p),
        ("device", c_char_p),
        ("store", c_char_p),
        ("store_callbacks", c_void_p),
        ("native_communicator", c_void_p),
        ("settings", c_void_p),
    ]


class Device(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", Device),
        ("ndim", c_int32),
        ("dtype", DataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class Message(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("dtype", c_int32),
        ("source", c_int32),
        ("tag", c_int32),
        ("count", c_int64),
        ("bytes", c_int64),
    ]


failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("failed:", what, file=sys.stderr)


def load():
    path = os.environ.get("TUTTI_LIBRARY")
    if not path:
        sys.exit("TUTTI_LIBRARY must name libtutti.so")
    lib = ctypes.CDLL(path)
    lib.tutti_init.argtypes = [POINTER(Config), POINTER(c_void_p), POINTER(Error)]
    lib.tutti_config_init.argtypes = [POINTER(Config)]
    lib.tutti_call_init.argtypes = [POINTER(Call)]
    lib.tutti_group_destroy.argtypes = [c_void_p, POINTER(Error)]
    lib.tutti_group_rank.argtypes = [c_void_p]
    lib.tutti_group_size.argtypes = [c_void_p]
    lib.tutti_tensor_1d.argtypes = [c_void_p, POINTER(c_int64), c_int32]
    lib.tutti_tensor_1d.restype = Tensor
    lib.tutti_all_reduce.argtypes = [c_void_p, POINTER(Tensor), POINTER(Tensor), c_int32, POINTER(Call)]
    lib.tutti_all_reduce_async.argtypes = lib.tutti_all_reduce.argtypes + [POINTER(c_void_p)]
    lib.tutti_work_wait.argtypes = [c_void_p, c_int64]
    lib.tutti_work_release.argtypes = [c_void_p]
    lib.tutti_barrier.argtypes = [c_void_p, POINTER(Call)]
    lib.tutti_send.argtypes = [c_void_p, POINTER(Tensor), c_int32, c_int32, POINTER(Call)]
    lib.tutti_recv.argtypes = [c_void_p, POINTER(Tensor), c_int32, c_int32, POINTER(Call), POINTER(Message)]
    lib.tutti_run_threads.argtypes = [c_int32, RANK_FUNCTION, c_void_p, POINTER(Error)]
    lib.tutti_status_name.restype = c_char_p
    lib.tutti_finalize.argtypes = [POINTER(Error)]
    return lib


def layouts():
    """The sizes that the headers assert; an offset that moved shows in the calls below."""
    for struct, size in ((Error, 512), (Call, 80), (Config, 80), (Tensor, 48), (Message, 32)):
        expect(ctypes.sizeof(struct) == size, f"sizeof({struct.__name__}) is {ctypes.sizeof(struct)}, not {size}")


def tensor(lib, buffer, length, dtype):
    count = c_int64(length)
    made = lib.tutti_tensor_1d(ctypes.cast(buffer, c_void_p), byref(count), dtype)
    made.keep = (buffer, count)  # the tensor borrows both
    return made


def call(lib, error):
    options = Call()
    lib.tutti_call_init(byref(options))
    expect(options.size == ctypes.sizeof(Call), "tutti_call_init sets size")
    options.error = ctypes.pointer(error)
    return options


def world_of_one(lib):
    config, group, error = Config(), c_void_p(), Error()
    lib.tutti_config_init(byref(config))
    expect(config.size == ctypes.sizeof(Config), "tutti_config_init sets size")
    config.world_size = 1
    status = lib.tutti_init(byref(config), byref(group), byref(error))
    expect(status == OK, f"tutti_init: {error.message!r}")
    if status != OK:
        return
    expect(lib.tutti_group_rank(group) == 0 and lib.tutti_group_size(group) == 1, "a world of one rank")

    values = (ctypes.c_float * 4)(1.5, -2.0, 0.25, 8.0)
    result = (ctypes.c_float * 4)()
    source, target = tensor(lib, values, 4, F32), tensor(lib, result, 4, F32)
    expect(lib.tutti_all_reduce(group, byref(source), byref(target), SUM, None) == OK, "all_reduce")
    expect(list(result) == [1.5, -2.0, 0.25, 8.0], "all_reduce of one rank copies")

    seen = []

    @CALLBACK
    def ended(status, details, user):
        inside = lib.tutti_barrier(group, None)
        seen.append((status, details.contents.status, user, inside))

    options = call(lib, error)
    options.callback = ended
    options.user = 4711
    expect(lib.tutti_all_reduce(group, byref(source), byref(source), MAX, byref(options)) == OK, "with a callback")
    expect(seen == [(OK, OK, 4711, WOULD_DEADLOCK)], f"the callback ran once with its arguments: {seen}")
    expect(error.size == 512 and error.status == OK and error.message == b"", "the error is cleared on success")

    options = call(lib, error)
    expect(lib.tutti_all_reduce(group, byref(source), byref(target), 99, byref(options)) == INVALID_ARGUMENT, "op 99")
    expect(error.status == INVALID_ARGUMENT and b"op is 99" in error.message, f"it says what: {error.message!r}")
    expect(lib.tutti_status_name(error.status) == b"INVALID_ARGUMENT", "the status has a name")
    expect(error.rank == 0 and error.backend != b"", "it says who")
    expect(lib.tutti_group_destroy(group, byref(error)) == OK, "destroy")


def two_threads(lib):
    ended = [None, None]

    def rank(group):
        me = lib.tutti_group_rank(group)
        value = (c_int64 * 2)(me + 1, 10 * (me + 1))
        error = Error()
        options = call(lib, error)
        both = tensor(lib, value, 2, I64)
        expect(lib.tutti_all_reduce(group, byref(both), byref(both), SUM, byref(options)) == OK, "all_reduce of two")
        expect(list(value) == [3, 30], f"rank {me}: 1 + 2 and 10 + 20, got {list(value)}")

        # the same asynchronously
        work = c_void_p()
        expect(lib.tutti_all_reduce_async(group, byref(both), byref(both), SUM, None, byref(work)) == OK, "started")
        expect(lib.tutti_work_wait(work, -1) == OK and list(value) == [6, 60], f"twice the sum, got {list(value)}")
        expect(lib.tutti_work_release(work) == OK, "released")

        # ranks that make different calls get an error, and go on
        odd = tensor(lib, (c_int64 * (2 + me))(), 2 + me, I64)
        expect(lib.tutti_all_reduce(group, byref(odd), byref(odd), SUM, byref(options)) == MISMATCH, "different counts")
        expect(error.status == MISMATCH and len(error.message) > 20, f"it says what: {error.message!r}")

        if me == 0:
            expect(lib.tutti_send(group, byref(both), 1, 5, byref(options)) == OK, "send")
        else:
            message, got = Message(size=ctypes.sizeof(Message)), (c_int64 * 2)()
            into = tensor(lib, got, 2, I64)
            status = lib.tutti_recv(group, byref(into), -1, -1, byref(options), byref(message))
            expect(status == OK and list(got) == [6, 60], f"recv: {error.message!r}")
            expect((message.source, message.tag, message.count, message.dtype) == (0, 5, 2, I64), "what came")
        ended[me] = True
        return OK

    @RANK_FUNCTION
    def guarded(group, _user):
        try:
            return rank(group)
        except Exception as problem:  # ctypes would print it and return 0
            expect(False, f"a rank raised {problem!r}")
            return INVALID_ARGUMENT

    error = Error()
    expect(lib.tutti_run_threads(2, guarded, None, byref(error)) == OK, f"tutti_run_threads: {error.message!r}")
    expect(ended == [True, True], "both ranks ran to their end")


def main():
    lib = load()
    layouts()
    world_of_one(lib)
    two_threads(lib)
    expect(lib.tutti_finalize(None) == OK, "tutti_finalize")
    return 1 if failures else 0


sys.exit(main())

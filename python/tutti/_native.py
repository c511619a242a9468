# SPDX-License-Identifier: BSD-3-Clause
"""libtutti by ctypes: the structures of the headers, and the signature of each function that the package calls.

ctypes releases the GIL during each call. docs/decisions/0034-python-by-ctypes.md says why it is ctypes, and what a call
costs.
"""

import ctypes
from ctypes import POINTER, Structure, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint16
from ctypes import c_uint32, c_uint64, c_void_p
from typing import Any

from ._install import library

RANK_FUNCTION = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p)
CALLBACK = ctypes.CFUNCTYPE(None, c_int32, c_void_p, c_void_p)
EVENT_HANDLER = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
DELETER = ctypes.CFUNCTYPE(None, c_void_p)
STORE_SET = ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_void_p, c_size_t)
STORE_GET = ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_void_p, c_size_t, POINTER(c_size_t), c_int64)


class ErrorStruct(Structure):
    """tutti_error"""

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


class CallStruct(Structure):
    """tutti_call"""

    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("timeout_ms", c_int64),
        ("lane", c_int32),
        ("tag", c_uint32),
        ("scale", c_double),
        ("stream", c_void_p),
        ("error", c_void_p),
        ("callback", CALLBACK),
        ("user", c_void_p),
        ("token", c_void_p),
        ("operation_id", c_int64),
        ("wire", c_int32),
        ("reserved", c_uint32),
    ]


class StoreStruct(Structure):
    """tutti_store_callbacks"""

    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("user", c_void_p), ("set", STORE_SET), ("get", STORE_GET)]


class ConfigStruct(Structure):
    """tutti_config"""

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
        ("store_callbacks", POINTER(StoreStruct)),
        ("native_communicator", c_void_p),
        ("settings", POINTER(c_char_p)),
    ]


class KeyStruct(Structure):
    """tutti_config_key_info"""

    _fields_ = [
        ("size", c_uint32),
        ("type", c_int32),
        ("key", c_char_p),
        ("environment", c_char_p),
        ("default_value", c_char_p),
        ("choices", c_char_p),
        ("help", c_char_p),
        ("minimum", c_int64),
        ("maximum", c_int64),
    ]


class DeviceStruct(Structure):
    """DLDevice"""

    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DataTypeStruct(Structure):
    """DLDataType"""

    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class TensorStruct(Structure):
    """DLTensor"""

    _fields_ = [
        ("data", c_void_p),
        ("device", DeviceStruct),
        ("ndim", c_int32),
        ("dtype", DataTypeStruct),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class ManagedStruct(Structure):
    """DLManagedTensorVersioned"""

    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("manager_ctx", c_void_p),
        ("deleter", DELETER),
        ("flags", c_uint64),
        ("tensor", TensorStruct),
    ]


class MessageStruct(Structure):
    """tutti_message"""

    _fields_ = [
        ("size", c_uint32),
        ("dtype", c_int32),
        ("source", c_int32),
        ("tag", c_int32),
        ("count", c_int64),
        ("bytes", c_int64),
    ]


class RecordStruct(Structure):
    """tutti_null_record"""

    _fields_ = [
        ("size", c_uint32),
        ("operation", c_int32),
        ("dtype", c_int32),
        ("reduce_op", c_int32),
        ("root", c_int32),
        ("tag", c_int32),
        ("count", c_int64),
    ]


class EventStruct(Structure):
    """tutti_event"""

    _fields_ = [
        ("size", c_uint32),
        ("status", c_int32),
        ("operation", c_int32),
        ("lane", c_int32),
        ("operation_id", c_int64),
        ("work", c_void_p),
        ("error", c_void_p),
    ]


class BackendStruct(Structure):
    """The first fields of tutti_backend"""

    _fields_ = [
        ("abi", c_uint32),
        ("size", c_uint32),
        ("name", c_char_p),
        ("priority", c_int32),
        ("capabilities", c_uint32),
    ]


class PersistentOpStruct(Structure):
    """tutti_persistent_op"""

    _fields_ = [
        ("kind", c_int32),
        ("op", c_int32),
        ("dim", c_int32),
        ("root", c_int32),
        ("input", c_void_p),
        ("output", c_void_p),
    ]


class BucketerStruct(Structure):
    """tutti_bucketer_options"""

    _fields_ = [
        ("size", c_uint32),
        ("op", c_int32),
        ("bucket_bytes", c_int64),
        ("timeout_ms", c_int64),
        ("lane", c_int32),
        ("wire", c_int32),
    ]


# One letter for each argument: p any pointer, s a C string, i int32_t or an enum, q int64_t, u uint32_t, z size_t,
# t DLDataType. A result other than tutti_status follows the colon. tests/python/parity.py compares each line with the
# headers.
SIGNATURES = {
    # tutti.h, status.h
    "tutti_version": ":i",
    "tutti_version_string": ":s",
    "tutti_status_name": "i:s",
    "tutti_status_string": "i:s",
    "tutti_operation_name": "i:s",
    # config.h, tensor.h
    "tutti_config_key": "zp",
    "tutti_dtype_name": "i:s",
    "tutti_dtype_parse": "sp",
    "tutti_dtype_from_dlpack": "t:i",
    "tutti_tensor_count": "p:q",
    "tutti_tensor_is_compact": "p:i",
    # group.h
    "tutti_init": "ppp",
    "tutti_finalize": "p",
    "tutti_group_create": "ppippp",
    "tutti_group_split": "piippp",
    "tutti_group_destroy": "pp",
    "tutti_group_rank": "p:i",
    "tutti_group_size": "p:i",
    "tutti_group_lanes": "p:i",
    "tutti_group_backend": "p:s",
    "tutti_group_algorithm": "pi:s",
    "tutti_group_native_communicator": "p:p",
    "tutti_group_device": "p:d",
    "tutti_group_global_rank": "pi:i",
    "tutti_group_local_rank": "pi:i",
    "tutti_group_describe": "ppzpp",
    "tutti_group_error": "pp",
    "tutti_group_capabilities": "p:u",
    "tutti_null_recorded": "pqpp",
    "tutti_run_threads": "ippp",
    # collectives.h
    "tutti_reduce_op_name": "i:s",
    "tutti_reduce_op_parse": "sp",
    "tutti_reduce_op_valid": "ii:i",
    "tutti_all_reduce": "pppip",
    "tutti_reduce": "pppiip",
    "tutti_broadcast": "ppip",
    "tutti_all_gather": "pppip",
    "tutti_gather": "pppiip",
    "tutti_scatter": "pppiip",
    "tutti_reduce_scatter": "pppiip",
    "tutti_all_to_all": "pppip",
    "tutti_barrier": "pp",
    "tutti_all_gather_v": "pppippp",
    "tutti_reduce_scatter_v": "pppiipp",
    "tutti_all_to_all_v": "pppippppp",
    # shape.h
    "tutti_all_gather_shape": "ppippp",
    "tutti_reduce_scatter_shape": "ppippp",
    "tutti_all_to_all_shape": "ppippp",
    "tutti_all_gather_v_shape": "ppipppp",
    "tutti_reduce_scatter_v_shape": "ppipppp",
    "tutti_all_to_all_v_shape": "ppipppp",
    "tutti_tensor_empty": "piippp",
    # p2p.h
    "tutti_send": "ppiip",
    "tutti_recv": "ppiipp",
    "tutti_recv_alloc": "piippp",
    "tutti_sendrecv": "ppiipiipp",
    "tutti_probe": "piippp",
    "tutti_probe_wait": "piipp",
    "tutti_batch_begin": "pp",
    "tutti_batch_end": "pp",
    # work.h
    "tutti_all_reduce_async": "pppipp",
    "tutti_reduce_async": "pppiipp",
    "tutti_broadcast_async": "ppipp",
    "tutti_all_gather_async": "pppipp",
    "tutti_gather_async": "pppiipp",
    "tutti_scatter_async": "pppiipp",
    "tutti_reduce_scatter_async": "pppiipp",
    "tutti_all_to_all_async": "pppipp",
    "tutti_barrier_async": "ppp",
    "tutti_all_gather_v_async": "pppipppp",
    "tutti_reduce_scatter_v_async": "pppiippp",
    "tutti_all_to_all_v_async": "pppipppppp",
    "tutti_send_async": "ppiipp",
    "tutti_recv_async": "ppiippp",
    "tutti_recv_alloc_async": "piipppp",
    "tutti_probe_async": "piippp",
    "tutti_sendrecv_async": "ppiipiippp",
    "tutti_batch_end_async": "ppp",
    "tutti_work_test": "pp",
    "tutti_work_wait": "pq",
    "tutti_work_wait_stream": "ppp",
    "tutti_work_wait_token": "pqpp",
    "tutti_work_error": "pp",
    "tutti_work_cancel": "pp",
    "tutti_work_cancelled": "pp",
    "tutti_work_eventfd": "ppp",
    "tutti_work_release": "p",
    "tutti_work_create": "pppp",
    "tutti_work_complete": "pisp",
    "tutti_cancel_token_create": "pqpp",
    "tutti_cancel_token_cancel": "ppp",
    "tutti_cancel_token_fired": "pp",
    "tutti_cancel_token_destroy": "pp",
    # queue.h
    "tutti_queue_create": "pp",
    "tutti_queue_enqueue": "ppp",
    "tutti_queue_count": "pp",
    "tutti_queue_pending": "pp",
    "tutti_queue_wait_all": "pqp",
    "tutti_queue_wait_any": "pqpp",
    "tutti_queue_status": "pqp",
    "tutti_queue_clear_completed": "pp",
    "tutti_queue_cancel_all": "pp",
    "tutti_queue_destroy": "pp",
    # events.h
    "tutti_events_create": "ppp",
    "tutti_events_on_complete": "ppppp",
    "tutti_events_on_error": "ppppp",
    "tutti_events_on_operation": "pqpppp",
    "tutti_events_remove": "pqp",
    "tutti_events_destroy": "pp",
    # memory.h
    "tutti_alloc": "pzpp",
    "tutti_free": "ppp",
    "tutti_register": "ppzp",
    "tutti_unregister": "ppp",
    # persistent.h
    "tutti_persistent_init": "ppzpp",
    "tutti_persistent_run": "pp",
    "tutti_persistent_start": "pp",
    "tutti_persistent_wait": "pqp",
    "tutti_persistent_cancel": "pp",
    "tutti_persistent_release": "pp",
    # overlap.h
    "tutti_bucketer_create": "ppzppp",
    "tutti_bucketer_ready": "pzp",
    "tutti_bucketer_wait": "pp",
    "tutti_bucketer_describe": "pppp",
    "tutti_bucketer_destroy": "pp",
    # recovery.h
    "tutti_group_abort": "pp",
    "tutti_group_revoke": "pp",
    "tutti_group_failed": "ppipp",
    "tutti_group_agree": "pppipqp",
    "tutti_group_shrink": "pqpp",
    "tutti_group_token": "ppzp",
    "tutti_group_grow": "psiqpp",
    "tutti_group_join": "sppp",
    # backend.h
    "tutti_backend_load": "sp",
    "tutti_backend_find": "s:p",
    "tutti_backend_at": "z:p",
    "tutti_backend_available": "ppz:i",
}

_TYPES: "dict[str, Any]" = {
    "p": c_void_p,
    "s": c_char_p,
    "i": c_int32,
    "q": c_int64,
    "u": c_uint32,
    "z": c_size_t,
    "t": DataTypeStruct,
    "d": DeviceStruct,
}


def _load() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(library()))
    for name, signature in SIGNATURES.items():
        arguments, _, result = signature.partition(":")
        function = getattr(lib, name)
        function.argtypes = [_TYPES[letter] for letter in arguments]
        function.restype = _TYPES[result or "i"]
    return lib


lib = _load()
"""The loaded library. `lib.tutti_barrier(group.handle, None)` calls it directly, without the checks of this package."""

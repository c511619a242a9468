# SPDX-License-Identifier: BSD-3-Clause
"""From the caller's arrays to DLTensors, without a copy: `__dlpack__`, the buffer protocol, `__array_interface__`."""

import ctypes
import reprlib
import sys
from ctypes import c_char_p, c_int, c_int64, c_ssize_t, c_void_p, py_object
from typing import Any, Iterable, Optional, Tuple

from ._errors import BadState, InvalidArgument
from ._native import DELETER, DeviceStruct, DataTypeStruct, ManagedStruct, TensorStruct, lib

CPU = 1
READ_ONLY = 1
# DTYPES[name] = (number in Tutti, bytes, DLPack type code); as TUTTI_DTYPE_LIST
DTYPES = {
    "f64": (1, 8, 2),
    "f32": (2, 4, 2),
    "f16": (3, 2, 2),
    "bf16": (4, 2, 4),
    "f8_e4m3": (5, 1, 10),
    "f8_e5m2": (6, 1, 12),
    "i8": (7, 1, 0),
    "i16": (8, 2, 0),
    "i32": (9, 4, 0),
    "i64": (10, 8, 0),
    "u8": (11, 1, 1),
    "u16": (12, 2, 1),
    "u32": (13, 4, 1),
    "u64": (14, 8, 1),
    "bool": (15, 1, 6),
}
NAMES = {row[0]: name for name, row in DTYPES.items()}
# How NumPy and the module struct write the element types that they have.
FORMATS = {
    "f64": "d",
    "f32": "f",
    "f16": "e",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "bool": "?",
}
_FROM_FORMAT = {letter: name for name, letter in FORMATS.items()}
_FROM_FORMAT.update({"c": "u8", "l": "i64", "L": "u64", "n": "i64", "N": "u64"})
_OTHER_NAMES = {"bool_": "bool", "float8_e4m3fn": "f8_e4m3", "float8_e5m2": "f8_e5m2", "float": "f64", "int": "i64"}
_MAX_NDIM = 16

_api = ctypes.pythonapi
_get_pointer = _api.PyCapsule_GetPointer
_get_pointer.argtypes = [py_object, c_char_p]
_get_pointer.restype = c_void_p
_get_buffer = _api.PyObject_GetBuffer
_get_buffer.argtypes = [py_object, c_void_p, c_int]
_release_buffer = _api.PyBuffer_Release
_release_buffer.argtypes = [c_void_p]
_release_buffer.restype = None
_CAPSULE = ctypes.PYFUNCTYPE(None, c_void_p)
_new_capsule = _api.PyCapsule_New
_new_capsule.argtypes = [c_void_p, c_char_p, c_void_p]
_new_capsule.restype = py_object


class _Buffer(ctypes.Structure):
    """Py_buffer; its layout is that of the stable ABI."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


def dtype_number(dtype: Any) -> int:
    """The number of an element type: "f32", "float32", a NumPy or torch dtype, or the number itself."""
    if isinstance(dtype, int):
        if dtype in NAMES:
            return dtype
        raise InvalidArgument(f"tutti: {dtype} is no dtype; they are 1 to {max(NAMES)}")
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.rpartition(".")[2]  # torch.float32
    number = ctypes.c_int32()
    name = _OTHER_NAMES.get(name, name)
    if lib.tutti_dtype_parse(name.encode(), ctypes.addressof(number)):
        raise InvalidArgument(f"tutti: no element type {dtype!r}; they are {', '.join(DTYPES)}")
    return number.value


class Tensor:
    """A DLTensor over memory of another object, which it keeps alive.

    Every function accepts one in place of the array. For an array that is used many times, `t = tutti.Tensor(array)`
    saves the conversion of each call. Do not resize or reshape the array in place while its Tensor is in use.

    dtype: needed if the array's own type cannot express it, such as bf16 in an array of uint16.
    Tensor exports itself by DLPack: `numpy.from_dlpack(t)`, `torch.from_dlpack(t)`.
    """

    __slots__ = ("address", "read_only", "_struct", "_keep", "__weakref__")

    address: int
    """Where the DLTensor is: for calls through `tutti.lib`."""
    read_only: bool

    def __init__(self, array: Any, dtype: Any = None):
        self.address, self.read_only, self._keep = _convert(array, dtype)
        self._struct = TensorStruct.from_address(self.address)

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self._struct.shape[i] for i in range(self._struct.ndim))

    @property
    def dtype(self) -> str:
        """The name of the element type, such as "f32"."""
        return NAMES[lib.tutti_dtype_from_dlpack(self._struct.dtype)]

    @property
    def count(self) -> int:
        return int(lib.tutti_tensor_count(self.address))

    @property
    def nbytes(self) -> int:
        return self.count * DTYPES[self.dtype][1]

    @property
    def is_compact(self) -> bool:
        """Whether the elements are adjacent in row-major order."""
        return bool(lib.tutti_tensor_is_compact(self.address))

    def memory(self) -> memoryview:
        """The elements, if they are adjacent and in host memory. Types that Python lacks are unsigned integers."""
        if not self.is_compact or self._struct.device.device_type != CPU:
            raise BadState("tutti: only adjacent elements in host memory can be seen as a memoryview")
        letter: Any = "H" if self.dtype in ("bf16", "f16") else FORMATS.get(self.dtype, "B")
        raw: Any = (ctypes.c_char * self.nbytes).from_address((self._struct.data or 0) + self._struct.byte_offset)
        raw.owner = self
        flat = memoryview(raw).cast("B")
        found: memoryview = (
            flat.cast(letter) if len(self.shape) == 1 or not self.nbytes else flat.cast(letter, list(self.shape))
        )
        return found.toreadonly() if self.read_only else found

    def __repr__(self) -> str:
        return f"tutti.Tensor({self.dtype}, shape {self.shape})"

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._struct.device.device_type, self._struct.device.device_id

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        """A new capsule. It keeps this object alive until the consumer has dropped it."""
        if copy:
            raise BufferError("tutti: a Tensor cannot copy itself; use numpy.array(numpy.from_dlpack(t))")
        versioned = max_version is not None and max_version[0] >= 1
        if self.read_only and not versioned:
            raise BufferError("tutti: this Tensor is read-only, and the consumer's DLPack is older than 1.0")
        return _export(self, versioned)


# ---- exporting ------------------------------------------------------------------------------------------------------


class _Legacy(ctypes.Structure):
    """DLManagedTensor"""

    _fields_ = [("tensor", TensorStruct), ("manager_ctx", c_void_p), ("deleter", DELETER)]


_exported: "dict[int, Tuple[Any, Any]]" = {}


def _drop(address: int) -> None:
    """The deleter, which the consumer calls."""
    _exported.pop(address, None)


def _drop_capsule(capsule: int) -> None:
    """The destructor of a capsule. A consumer that takes the tensor over renames the capsule."""
    for name in (b"dltensor", b"dltensor_versioned"):
        if _is_valid(capsule, name):
            _exported.pop(_pointer_of(capsule, name), None)


_deleter, _destructor = DELETER(_drop), _CAPSULE(_drop_capsule)
_is_valid = ctypes.PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))
_CAPSULE_NAMES = (ctypes.create_string_buffer(b"dltensor"), ctypes.create_string_buffer(b"dltensor_versioned"))


def _export(tensor: Tensor, versioned: bool) -> Any:
    managed: Any = ManagedStruct(major=1, minor=1) if versioned else _Legacy()
    managed.tensor = tensor._struct
    managed.deleter = _deleter
    if versioned:
        managed.flags = READ_ONLY if tensor.read_only else 0
    address = ctypes.addressof(managed)
    _exported[address] = (managed, tensor)
    name = ctypes.cast(_CAPSULE_NAMES[versioned], c_char_p)
    return _new_capsule(address, name, ctypes.cast(_destructor, c_void_p))


# ---- importing ------------------------------------------------------------------------------------------------------


class _BufferView:
    """A DLTensor over the buffer of an object; releases the buffer at the end of its life."""

    __slots__ = ("buffer", "struct")

    def __init__(self, array: Any, dtype: Any):
        self.buffer = buffer = _Buffer()
        _get_buffer(array, ctypes.addressof(buffer), 0x011C)  # PyBUF_FULL_RO
        if buffer.suboffsets:
            raise InvalidArgument("tutti: buffers with suboffsets are not supported")
        text = (buffer.format or b"B").decode()
        letter = text.lstrip("@=<" if sys.byteorder == "little" else "@=>!")
        name = _FROM_FORMAT.get(letter)
        if dtype is not None:
            name = NAMES[dtype_number(dtype)]
        if name is None:
            raise InvalidArgument(f"tutti: no element type for the buffer format {text!r} of {type(array).__name__}")
        if DTYPES[name][1] != buffer.itemsize:
            raise InvalidArgument(f"tutti: an element of {name} has {DTYPES[name][1]} bytes, not {buffer.itemsize}")
        n = buffer.ndim
        shape = (
            (c_int64 * max(n, 1)).from_address(buffer.shape)[:n] if buffer.shape else [buffer.len // buffer.itemsize]
        )
        strides = (c_int64 * max(n, 1)).from_address(buffer.strides)[:n] if buffer.strides and n else None
        self.struct = _struct(buffer.buf, shape, strides, name)

    def __del__(self) -> None:
        if self.buffer.obj:
            _release_buffer(ctypes.addressof(self.buffer))


def _struct(data: Optional[int], shape: Iterable[int], strides: Optional[Iterable[int]], name: str) -> TensorStruct:
    """A DLTensor in host memory. `strides` are in bytes."""
    shape = list(shape)
    size = DTYPES[name][1]
    struct = TensorStruct(data=data, device=DeviceStruct(CPU, 0), ndim=len(shape))
    if len(shape) > _MAX_NDIM:
        raise InvalidArgument(f"tutti: an array has at most {_MAX_NDIM} dimensions, not {len(shape)}")
    struct.dtype = DataTypeStruct(DTYPES[name][2], size * 8, 1)
    struct.shape = (c_int64 * max(len(shape), 1))(*shape)
    if strides is not None:
        strides = list(strides)
        if any(stride % size for stride in strides):
            raise InvalidArgument(
                f"tutti: the strides {tuple(strides)} are no multiples of {size}, the bytes of {name}"
            )
        struct.strides = (c_int64 * max(len(shape), 1))(*(stride // size for stride in strides))
    return struct


def _convert(array: Any, dtype: Any = None) -> Tuple[int, bool, Any]:
    """(address of the DLTensor, whether it is read-only, what has to stay alive)."""
    if isinstance(array, Tensor):
        return array.address, array.read_only, array
    if getattr(array, "is_neg", None) and array.is_neg():  # torch exports the memory without its negative bit
        raise InvalidArgument("tutti: the values are the negative of what lies in memory; pass tensor.resolve_neg()")
    if dtype is not None or not hasattr(array, "__dlpack__"):
        return _from_buffer(array, dtype)
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = None
    except (BufferError, ValueError, RuntimeError) as problem:
        return _from_buffer(array, dtype, problem)
    try:
        if capsule is None:
            capsule = array.__dlpack__()
    except Exception as problem:
        return _from_buffer(array, dtype, problem)
    if _is_valid(id(capsule), b"dltensor_versioned"):
        address = _get_pointer(capsule, b"dltensor_versioned")
        managed = ManagedStruct.from_address(address)
        if managed.major != 1:
            raise InvalidArgument(f"tutti: {type(array).__name__} exports DLPack {managed.major}.x, not 1.x")
        return address + ManagedStruct.tensor.offset, bool(managed.flags & READ_ONLY), capsule
    return _get_pointer(capsule, b"dltensor"), False, capsule


def _from_buffer(array: Any, dtype: Any, problem: Optional[BaseException] = None) -> Tuple[int, bool, Any]:
    """An array by the buffer protocol, or by __array_interface__ and dtype of NumPy (ml_dtypes have no buffer)."""
    try:
        view = _BufferView(array, dtype)
        return ctypes.addressof(view.struct), bool(view.buffer.readonly), view
    except (TypeError, BufferError, ValueError) as refused:
        if isinstance(refused, InvalidArgument) and not hasattr(array, "__array_interface__"):
            raise
        interface = getattr(array, "__array_interface__", {})
    if not hasattr(array, "dtype") or not isinstance(interface.get("data"), tuple):
        reason = f": {problem}" if problem else ""
        raise InvalidArgument(
            f"tutti: {reprlib.repr(array)} ({type(array).__module__}.{type(array).__name__}) is no array: "
            f"it has neither a usable __dlpack__ nor a buffer{reason}"
        )
    if interface["typestr"][0] == (">" if sys.byteorder == "little" else "<"):
        raise InvalidArgument("tutti: the array's byte order is not this machine's; use array.dtype.newbyteorder('=')")
    kind = array.dtype if dtype is None else dtype
    if getattr(array.dtype, "kind", "") in "cOSUMm":
        raise InvalidArgument(f"tutti: no element type for {array.dtype}; they are {', '.join(DTYPES)}")
    name = NAMES[dtype_number(kind)]
    if DTYPES[name][1] != array.dtype.itemsize:
        raise InvalidArgument(f"tutti: an element of {name} has {DTYPES[name][1]} bytes, not {array.dtype.itemsize}")
    data, read_only = interface["data"]
    struct = _struct(data, interface["shape"], interface.get("strides"), name)
    return ctypes.addressof(struct), read_only, (struct, array)


_ndarray: Any = None


def _is_ndarray(array: Any) -> bool:
    global _ndarray
    if _ndarray is None and "numpy" in sys.modules:
        _ndarray = sys.modules["numpy"].ndarray
    return type(array) is _ndarray and _ndarray is not None


def _named(array: Any, what: str) -> Tuple[int, bool, Any]:
    """_convert, whose errors name the argument."""
    try:
        return _convert(array)
    except InvalidArgument as refused:
        raise InvalidArgument(str(refused).replace("tutti: ", f"tutti: {what}: ", 1)) from None


def reading(array: Any, what: str = "tensor") -> Tuple[int, Any]:
    """The address of an input's DLTensor, and what keeps it alive. Errors name the argument `what`."""
    if type(array) is _ndarray:
        try:
            capsule = array.__dlpack__()
            return _get_pointer(capsule, b"dltensor"), capsule
        except Exception:  # read-only, a type without DLPack, strides: the long way gives it, or the right sentence
            pass
    elif type(array) is Tensor:
        return array.address, array
    address, _, keep = _named(array, what)
    _is_ndarray(array)
    return address, keep


def writing(array: Any, what: str = "output") -> Tuple[int, Any]:
    """The same for an output."""
    if type(array) is _ndarray:
        try:
            capsule = array.__dlpack__()
            return _get_pointer(capsule, b"dltensor"), capsule
        except Exception:
            pass
    elif type(array) is Tensor and not array.read_only:
        return array.address, array
    address, read_only, keep = _named(array, what)
    if read_only:
        hint = "; a scalar of NumPy: pass an array, or output=" if getattr(array, "shape", None) == () else ""
        raise InvalidArgument(f"tutti: {what}: the output is read-only ({type(array).__name__}{hint})")
    _is_ndarray(array)
    return address, keep


class Managed:
    """The place for a DLManagedTensorVersioned of the library. It is freed at the end of this object's life."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made = c_void_p()

    @property
    def address(self) -> int:
        """Where the library writes the pointer to the tensor."""
        return ctypes.addressof(self._made)

    def tensor(self) -> Tensor:
        """A Tensor over the tensor's memory, which keeps this object alive."""
        struct = ManagedStruct.from_address(self._made.value or 0).tensor
        made = Tensor.__new__(Tensor)
        made._keep = self
        made._struct = struct
        made.address = ctypes.addressof(struct)
        made.read_only = False
        return made

    def __del__(self) -> None:
        if self._made.value:
            ManagedStruct.from_address(self._made.value).deleter(self._made.value)


def view(data: int, shape: Iterable[int], number: int, owner: Any) -> Tensor:
    """A Tensor over host memory that `owner` keeps alive."""
    made = Tensor.__new__(Tensor)
    made._struct = _struct(data, shape, None, NAMES[number])
    made._keep = owner
    made.address = ctypes.addressof(made._struct)
    made.read_only = False
    return made

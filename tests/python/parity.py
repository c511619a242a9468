# SPDX-License-Identifier: BSD-3-Clause
"""Every function of the headers is reached from Python, or left out for a reason. Each signature is the header's."""

import ctypes
import os
import re
import unittest
from pathlib import Path

import tutti
from tutti import _call, _native, _persistent, _status, _tensor

INCLUDE = Path(os.environ["TUTTI_SOURCE"]) / "include" / "tutti"
SOURCES = Path(tutti.__file__).parent

BY_PYTHON = "Python sets the fields itself"
START_FUNCTION = "takes a C function that starts an operation; in Python: the _async method with timeout=, token=, then"
LEFT_OUT = {
    "tutti_call_init": BY_PYTHON,
    "tutti_config_init": BY_PYTHON,
    "tutti_store_callbacks_init": BY_PYTHON,
    "tutti_config_key_info_init": BY_PYTHON,
    "tutti_message_init": BY_PYTHON,
    "tutti_null_record_init": BY_PYTHON,
    "tutti_bucketer_options_init": BY_PYTHON,
    "tutti_tensor_1d": "arrays bring their DLTensor",
    "tutti_tensor_nd": "arrays bring their DLTensor",
    "tutti_dtype_size": "tutti.DTYPES has the sizes",
    "tutti_dtype_to_dlpack": "tutti.DTYPES has the codes",
    "tutti_work_result": "Work.result returns the caller's own array",
    "tutti_queue_result": "Queue.result returns the caller's own array",
    "tutti_run_with_deadline": f"{START_FUNCTION} Work.wait",
    "tutti_run_all_with_deadline": f"{START_FUNCTION} Queue.wait_all",
    "tutti_run_with_limit": f"{START_FUNCTION} Work.wait(timeout)",
    "tutti_run_all_with_limit": f"{START_FUNCTION} Queue.wait_all(timeout)",
    "tutti_events_start": "takes a C function that starts an operation; in Python: on_operation, then _async",
    "tutti_overlap_all_reduce": "in Python: all_reduce_async, compute, Work.wait",
    "tutti_overlap_pipeline": "in Python: a loop of compute and all_reduce_async, and a Queue",
    "tutti_backend_register": "a backend is a table of C functions: tutti.load_backend opens a file with one",
}


def declared():
    """name -> (result, [types of the arguments]) of every TUTTI_API function."""
    found = {}
    for header in sorted(INCLUDE.glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for result, name, arguments in re.findall(r"TUTTI_API\s+([^;()]*?)(\w+)\(([^;]*?)\);", text):
            split = [re.sub(r"\w+$", "", part.strip()).strip() for part in arguments.split(",")]
            found[name] = (result.strip(), [] if arguments.strip() == "void" else split)
    return found


LETTERS = {
    "tutti_status": "i", "tutti_dtype": "i", "tutti_reduce_op": "i", "tutti_operation": "i", "int32_t": "i",
    "int64_t": "q", "uint32_t": "u", "size_t": "z", "DLDataType": "t", "DLDevice": "d",
}  # fmt: skip
POINTERS = ("tutti_rank_function", "tutti_event_handler", "tutti_compute_function")


def letter(kind):
    if kind == "const char *":
        return "s"
    return "p" if kind.endswith("*") or kind in POINTERS else LETTERS[kind]


class Parity(unittest.TestCase):
    def test_every_function(self):
        functions = set(declared())
        self.assertGreater(len(functions), 140)
        reached = set(_native.SIGNATURES)
        self.assertEqual(functions - reached - set(LEFT_OUT), set(), "neither called nor left out")
        self.assertEqual(reached & set(LEFT_OUT), set(), "called and left out")
        self.assertEqual((reached | set(LEFT_OUT)) - functions, set(), "not in the headers")

    def test_each_is_called(self):
        """A signature alone does not make a function reachable: a method uses it."""
        text = "".join(path.read_text() for path in SOURCES.glob("_*.py") if path.name != "_native.py")
        called = set(re.findall(r"lib\.(tutti_\w+)", text))
        called.update("tutti_" + name for name in re.findall(r'\._(?:run|start)\("(\w+)"', text))
        called.update(f"tutti_{name}_async" for name in re.findall(r" = started\((\w+)\)", text))
        self.assertEqual(set(_native.SIGNATURES) - called, set())

    def test_signatures(self):
        functions = declared()
        for name, signature in _native.SIGNATURES.items():
            arguments, _, result = signature.partition(":")
            expected_result, kinds = functions[name]
            self.assertEqual(arguments, "".join(map(letter, kinds)), name)
            self.assertEqual(result or "i", letter(expected_result), name)

    def test_layouts(self):
        """The sizes that the headers assert."""
        sizes = {"ErrorStruct": 512, "CallStruct": 88, "StoreStruct": 32, "ConfigStruct": 80, "KeyStruct": 64}
        sizes.update(TensorStruct=48, ManagedStruct=80, MessageStruct=32, RecordStruct=32, EventStruct=40)
        sizes.update(BucketerStruct=32, PersistentOpStruct=16 + 2 * ctypes.sizeof(ctypes.c_void_p))
        for name, size in sizes.items():
            self.assertEqual(ctypes.sizeof(getattr(_native, name)), size, name)

    def test_lists(self):
        """Statuses, element types, operators, flags and capabilities are those of the headers."""
        text = "".join(header.read_text() for header in INCLUDE.glob("*.h"))
        listed = re.search(r"TUTTI_STATUS_LIST\(X\)(.*?)typedef", text, re.S)[1]
        statuses = {name: int(number) for name, number in re.findall(r"X\((\w+), (\d+),", listed)}
        self.assertEqual({name: value for name, value in vars(_status).items() if name.isupper()}, statuses)
        self.assertEqual({_status.OK, *tutti._errors.CLASSES}, set(statuses.values()))
        for code, kind in tutti._errors.CLASSES.items():
            name = tutti.lib.tutti_status_name(code).decode()
            self.assertEqual((code, kind.__name__.upper()), (statuses[name], name.replace("_", "")))
            self.assertEqual(kind("text").code, code)
        rows = re.findall(r"X\((\w+), (\d+), \"(\w+)\", (\d+), (\d+)\)", text)
        self.assertEqual({row[2]: tuple(map(int, (row[1], row[3], row[4]))) for row in rows}, _tensor.DTYPES)
        for name, bit in tutti.CAPABILITIES.items():
            self.assertRegex(text, rf"TUTTI_CAP_{name.upper()} = 1 << {bit}[, ]")
        for name, number in tutti.REDUCE_OPS.items():
            self.assertRegex(text, rf"X\({name.upper()}, {number}, \"{name}\"\)")
        for name, number in _call.WIRES.items():
            self.assertRegex(text, rf"TUTTI_WIRE_{name.upper()} = {number}\b")
        for name, (number, _fields) in _persistent.KINDS.items():
            self.assertRegex(text, rf"X\({name.upper()}, {number}, \"{name}\"\)")
        for name in ("CANCELLABLE", "HAS_STREAM", "ENQUEUE", "HANDLERS_ON_OK", "CALLBACK_ANYWHERE", "HAS_SCALE"):
            bit = getattr(_call, name).bit_length() - 1
            self.assertRegex(text, rf"TUTTI_{name} = 1 << {bit}\b")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: BSD-3-Clause
"""LightGBM, data-parallel, with its messages over Tutti: its network hook takes a reduce_scatter and an all_gather.

Each rank has every size-th row. `--sockets` trains over LightGBM's own sockets instead; both write the same model.

    pip install ./python lightgbm
    tutti run -n 2 -- python3 examples/lightgbm/data_parallel.py --model tutti.txt
    tutti run -n 2 -- python3 examples/lightgbm/data_parallel.py --model sockets.txt --sockets
"""
import argparse
import ctypes
import os
import socket
import sys
import time

import lightgbm
import numpy as np

import tutti

# As LightGBM declares them in meta.h. A length is in bytes.
LENGTHS = ctypes.POINTER(ctypes.c_int32)
Reduce = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int32)
ReduceScatter = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int, LENGTHS, LENGTHS, ctypes.c_int,
                                 ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(Reduce))
AllGather = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, LENGTHS, LENGTHS, ctypes.c_int, ctypes.c_void_p,
                             ctypes.c_int32)


def memory(address, count):
    """`count` bytes of LightGBM's memory as an array."""
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_uint8)), (max(count, 1),))[:count]


class Network:
    """LightGBM's two functions over a group. LightGBM cannot take an exception, so a failed call ends the process."""

    def __init__(self, group):
        self.group, self.calls, self.seconds = group, 0, 0.0
        self.functions = ReduceScatter(self.guarded(self.reduce_scatter)), AllGather(self.guarded(self.all_gather))
        status = lightgbm.basic._LIB.LGBM_NetworkInitWithFunctions(group.size, group.rank, *self.functions)
        if status != 0:
            raise SystemExit(f"rank {group.rank}: LightGBM refuses the network functions")

    def guarded(self, function):
        def call(*arguments):
            begin = time.perf_counter()
            try:
                function(*arguments)
            except tutti.Error as error:
                print(f"LightGBM cannot go on: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            self.calls += 1
            self.seconds += time.perf_counter() - begin
        return call

    def reduce_scatter(self, data, size, type_size, starts, lengths, blocks, output, _, reducer):
        """Block r of every rank goes to rank r. The reduction is LightGBM's own function, applied in the order of ranks."""
        counts = lengths[:blocks]
        mine = counts[self.group.rank]
        received = np.empty((blocks, mine), np.uint8)
        self.group.all_to_all_v(memory(data, size), counts, [mine] * blocks, received.reshape(-1),
                                send_displacements=starts[:blocks])
        ctypes.memmove(output, received.ctypes.data, mine)
        for rank in range(1, blocks):
            reducer.contents(received[rank].ctypes.data, output, type_size, mine)

    def all_gather(self, data, size, starts, lengths, blocks, output, output_size):
        self.group.all_gather_v(memory(data, size), lengths[:blocks], memory(output, output_size),
                                displacements=starts[:blocks])


def open_sockets(group):
    """LightGBM's own network: the ranks send one another free ports of this host."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ports = group.all_gather(np.array([port], np.int32), np.empty(group.size, np.int32))
    machines = ",".join(f"127.0.0.1:{port}" for port in ports)
    return {"machines": machines, "local_listen_port": port, "time_out": 2}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", metavar="FILE", help="where rank 0 writes the model")
    options.add_argument("--rows", type=int, default=20000)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--sockets", action="store_true", help="train over LightGBM's own sockets")
    options = options.parse_args()

    group = tutti.init()
    random = np.random.default_rng(1)
    rows = random.standard_normal((options.rows, 20))
    labels = (rows[:, 0] * rows[:, 1] + rows[:, 2] > 0).astype(int)
    # Bins are found from each rank's own rows, then exchanged; pre_partition says that the rows are divided already.
    parameters = {"objective": "binary", "tree_learner": "data", "num_machines": group.size, "num_threads": 1,
                  "pre_partition": True, "deterministic": True, "verbosity": -1, "seed": 1}
    network = None
    if group.size > 1 and options.sockets:
        parameters.update(open_sockets(group))
    elif group.size > 1:
        network = Network(group)
    part = lightgbm.Dataset(rows[group.rank::group.size], labels[group.rank::group.size])
    begin = time.perf_counter()
    model = lightgbm.train(parameters, part, options.rounds)
    seconds = time.perf_counter() - begin
    if group.rank == 0:
        right = ((model.predict(rows) > 0.5) == labels).mean()
        inside = f", {network.calls} calls took {network.seconds * 1e3:.0f} ms" if network else ""
        print(f"{group.size} ranks, {options.rounds} rounds in {seconds:.2f} s{inside}; {right:.4f} of the rows are right")
        if options.model:
            with open(options.model, "w", encoding="utf-8") as file:
                file.write(model.model_to_string().split("\nparameters:")[0])  # the rest names the network
    tutti.finalize()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""What the examples share: the process group, the progress bar, and the data set."""
import argparse
import gzip
import struct
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

IMAGES = Path("/usr/share/datasets/fashion-mnist")  # Debian: dataset-fashion-mnist


def parser(description):
    """The options that every example has."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    options.add_argument("--backend", default="tutti", help="tutti, or gloo to compare")
    options.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="of each collective")
    return options


def join(options):
    """Makes the process group from the launcher's variables (torchrun, tutti run); returns rank and world size."""
    torch.set_num_threads(1)  # each rank has one CPU
    dist.init_process_group(options.backend, timeout=timedelta(seconds=options.timeout))
    return dist.get_rank(), dist.get_world_size()


def say(text):
    """Prints on rank 0."""
    if dist.get_rank() == 0:
        print(text, flush=True)


class Progress:
    """A bar on rank 0's terminal; elsewhere nothing, since the examples print a line at the end."""

    def __init__(self, steps, unit):
        self.steps, self.unit, self.done, self.units, self.begin = steps, unit, 0, 0, time.monotonic()
        self.shown = dist.get_rank() == 0 and sys.stderr.isatty()

    def step(self, units, text=""):
        """Counts one step, in which all ranks together have done `units`."""
        self.done += 1
        self.units += units
        if self.shown:
            full = 30 * self.done // self.steps
            print(f"\r[{'#' * full}{'.' * (30 - full)}] {self.done}/{self.steps} {self.rate():,.0f} {self.unit}/s {text}",
                  end="\n" if self.done == self.steps else "", file=sys.stderr, flush=True)

    def rate(self):
        return self.units / (time.monotonic() - self.begin)


def fashion_mnist(part, folder=IMAGES):
    """Images in [0, 1] with one channel, and labels, of "train" or "t10k"."""
    def read(name, magic, dimensions):
        path = Path(folder) / f"{part}-{name}.gz"
        try:
            with gzip.open(path) as file:
                data = file.read()
        except OSError as error:
            sys.exit(f"cannot read {path}: {error}; install Debian's package dataset-fashion-mnist, or use --data DIR")
        sizes = struct.unpack(f">{dimensions + 1}I", data[:4 * (dimensions + 1)])
        if sizes[0] != magic:
            sys.exit(f"{path} is no file of Fashion-MNIST: it begins with {sizes[0]}, not {magic}")
        return torch.frombuffer(bytearray(data[4 * (dimensions + 1):]), dtype=torch.uint8).view(*sizes[1:])

    images = read("images-idx3-ubyte", 2051, 3).unsqueeze(1).float() / 255
    return images, read("labels-idx1-ubyte", 2049, 1).long()

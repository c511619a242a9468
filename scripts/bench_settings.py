#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Searches the best settings of other libraries on this machine: bench_settings.py LIBRARY -n N [options of bench_vs.py].

For each library it has candidates: documented settings that concern one host. They are compared as contenders of bench_vs.py, over
all_reduce, broadcast, all_to_all and ping_pong at six sizes, unless the options say otherwise. The last lines name the geometric
mean of Tutti's time over each candidate's: the largest mean is the best candidate, and SETUPS of bench_vs.py has it.
"""
import sys

import bench_vs
from bench_vs import (BIND, IMPI, KEEP, MPICH5, MPICH_PACKAGES, OPENMPI, OPENMPI5, OPENMPI_PACKAGES, SHM, UCX, WHEEL, Setup)
from command_line.words import refuse, take_words

DEFAULT = ("all_reduce,broadcast,all_to_all,ping_pong", "--sizes", "8,1K,16K,256K,4M,16M", "--budget", "40", "--repeat", "1")


def mca(*pairs):
    return [word for name, value in pairs for word in ("--mca", name, value)]


def openmpi(launch, packages, library, btl):
    """Both generations: `btl` is the shared-memory transport's name."""
    large = (f"btl_{btl}_eager_limit", "32768"), (f"btl_{btl}_max_send_size", "131072")
    no_copy = [(f"btl_{btl}_single_copy_mechanism", "none")] if btl == "vader" else [("smsc", "^cma")]
    ob1, idle = ("pml", "ob1"), ("mpi_yield_when_idle", "1")
    words = {
        "bound": [], "ob1": mca(ob1), "ucx": mca(("pml", "ucx")), "idle": mca(ob1, idle), "eager": mca(ob1, idle, *large),
        "copies": mca(ob1, idle, *large, *no_copy), "small": mca(ob1, idle, *no_copy),
        "sm": mca(ob1, idle, ("coll_sm_priority", "90")), "han": mca(ob1, idle, ("coll_han_priority", "90")),
        "adapt": mca(ob1, idle, ("coll_adapt_priority", "90")),
    }
    setups = {name: Setup([*launch, *some], {}, library, packages, bind=BIND) for name, some in words.items()}
    return setups | {"eager-m": setups["eager"]._replace(environment=KEEP),
                     "copies-m": setups["copies"]._replace(environment=KEEP)}


def mpich(launch, packages, library):
    environments = {
        "bound": {}, "shm": UCX, "shm-m": UCX | KEEP, "cma": {"UCX_TLS": "self,posix,cma"}, "ofi": {"MPICH_CH4_NETMOD": "ofi"},
        "yield-m": UCX | KEEP | {"MPIR_CVAR_POLLS_BEFORE_YIELD": "16"},
        "no-posix-m": UCX | KEEP | {"MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE": "131072"},
        "gather-m": UCX | KEEP | {"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "release_gather",
                                  "MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM": "release_gather"},
    }
    return {name: Setup(launch, environment, library, packages, bind=BIND) for name, environment in environments.items()}


def impi():
    environments = {
        "wait": {"I_MPI_WAIT_MODE": "1"}, "yield": {"I_MPI_THREAD_YIELD": "2", "I_MPI_THREAD_SPIN_COUNT": "16"},
        "keep": KEEP, "yield-m": {"I_MPI_THREAD_YIELD": "2", "I_MPI_THREAD_SPIN_COUNT": "16"} | KEEP,
        "cma": {"I_MPI_SHM_CMA": "1"}, "no-cma-m": {"I_MPI_SHM_CMA": "0"} | KEEP,
        "generic": {"I_MPI_SHM": "generic"}, "core": {"I_MPI_PIN_PROCESSOR_LIST": "all"},
    }
    return {name: Setup(IMPI, SHM | environment, "impi", WHEEL) for name, environment in environments.items()}


CANDIDATES = {
    "openmpi": openmpi(OPENMPI, OPENMPI_PACKAGES, "openmpi", "vader"), "openmpi5": openmpi(OPENMPI5, WHEEL, "openmpi5", "sm"),
    "mpich": mpich(["mpiexec.mpich"], MPICH_PACKAGES, "mpich"), "mpich5": mpich(MPICH5, WHEEL, "mpich5"), "impi": impi(),
}


def main():
    library = sys.argv[1] if len(sys.argv) > 1 else ""
    if library not in CANDIDATES:
        take_words(__doc__)
        refuse(f"the first word is a library: {', '.join(CANDIDATES)}")
    bench_vs.SETUPS.update((f"{library}/{name}", setup) for name, setup in CANDIDATES[library].items())
    sys.argv[1:2] = [DEFAULT[0], "--vs", library, *DEFAULT[1:]]
    return bench_vs.main()


if __name__ == "__main__":
    sys.exit(main())

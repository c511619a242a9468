#!/bin/bash
# tutti-test: timeout=300 trees=release
# Tensors of a device: in device memory where MPI takes them, else copied through host memory.
. "$TUTTI_SOURCE/tests/mpi/ledger.inc"

export TUTTI_CUDA_LIBRARY=$PWD/tests/doubles/cuda/libcuda.so.1
export TUTTI_DOUBLE_CUDA=devices=2,delay_us=0
[ -r "$TUTTI_CUDA_LIBRARY" ] || fail "there is no $TUTTI_CUDA_LIBRARY"

# Open MPI's non-blocking functions take no device memory.
export TUTTI_MPI_BLOCKING=always

# with_double FLAVOUR MODE: a CUDA-aware MPI. The double prints what it gets on stdout.
with_double() {
    local flavour=$1 double=$PWD/tests/mpi/ledger/double.$1.so source=$TUTTI_SOURCE/tests/mpi/double/double.c
    if [ -z "${TUTTI_TEST_PRELOAD:-}" ] || [ ! "$double" -nt "$source" ]; then
        "mpicc.$flavour" -std=gnu17 -Wall -shared -fPIC "$source" -o "$double" -ldl ||
            fail "the double does not compile with $flavour"
    fi
    output_of "$flavour" 2 env LD_PRELOAD="${TUTTI_TEST_PRELOAD:+$TUTTI_TEST_PRELOAD:}$double" DOUBLE_CUDA=1 \
        "tests/mpi/ledger/devices.$flavour" "$2"
}

for flavour in $(ledger_flavours); do
    build devices "$flavour"
    start "$flavour" devices copies
    text=$(with_double "$flavour" aware) || fail "devices aware under $flavour: $text"
    for function in all_reduce all_gather broadcast; do
        grep -q "^double: $function of device memory$" <<<"$text" || fail "$flavour got no device memory in $function"
    done
    text=$(TUTTI_MPI_CUDA_AWARE=no with_double "$flavour" copies) || fail "mpi.cuda_aware=no under $flavour: $text"
    ! grep -q "of device memory$" <<<"$text" || fail "mpi.cuda_aware=no under $flavour: MPI got device memory"
done

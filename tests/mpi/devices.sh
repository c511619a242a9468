#!/bin/bash
# tutti-test: timeout=900 trees=release cpus=99
# Tensors of a device over each MPI: in device memory if the library takes that, else copied through host memory.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_CUDA_LIBRARY=$PWD/tests/doubles/cuda/libcuda.so.1 TUTTI_DOUBLE_CUDA=delay_us=0
[ -r "$TUTTI_CUDA_LIBRARY" ] || fail "there is no $TUTTI_CUDA_LIBRARY"

has() {
    grep -Eq "$2" <<<"$1" || fail "$3: nothing like \"$2\" in
$1"
}

has_not() {
    ! grep -Eq "$2" <<<"$1" || fail "$3: \"$2\" in
$1"
}

for flavour in $(flavours); do
    TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins launch "$flavour" 2 tests/mpi/packing ||
        fail "a tensor that cannot be packed, with $flavour"
    for cases in /types/i32 p2p device; do # copies do not depend on the dtype, averages of integers do
        launch "$flavour" 2 ./tutti check --backend mpi --device cuda --quick --filter "$cases" ||
            fail "tutti check of device tensors with $flavour: $cases"
    done
    # A rank that only receives passes no address to send from: Open MPI takes the same address twice to mean in place.
    launch "$flavour" 2 ./tutti check --backend mpi --device cuda --filter scatter/dims/u8/5x7x600 ||
        fail "tutti check of scattered device tensors with $flavour"

    double=$PWD/tests/mpi/double.devices.$flavour.so
    "mpicc.$flavour" -std=gnu17 -Wall -shared -fPIC "$TUTTI_SOURCE/tests/mpi/double/double.c" -o "$double" -ldl ||
        fail "the double does not compile with $flavour"
    # Each MPI must only get the kind of memory that it takes: a device's memory traps when host code touches it. The
    # suite has a deadline of its own, so blocking calls need a setting. Of the float types MPI has two.
    aware=(env LD_PRELOAD="$double" DOUBLE_CUDA=1)
    text=$(TUTTI_MPI_BLOCKING=always output_of "$flavour" 2 "${aware[@]}" ./tutti check --backend mpi --device cuda --quick --filter '/types/f') ||
        fail "tutti check with a CUDA-aware $flavour: $text"
    for function in all_reduce all_gather all_to_all broadcast; do
        has "$text" "^double: $function of device memory$" "a CUDA-aware $flavour"
    done
    text=$(TUTTI_MPI_BLOCKING=always TUTTI_MPI_CUDA_AWARE=no output_of "$flavour" 2 "${aware[@]}" \
        ./tutti check --backend mpi --device cuda --quick --filter all_reduce/types/f32) ||
        fail "mpi.cuda_aware=no with $flavour: $text"
    has_not "$text" "of device memory" "mpi.cuda_aware=no with $flavour"
    # With a deadline the non-blocking functions run, which take none.
    text=$(TUTTI_MPI_BLOCKING=never output_of "$flavour" 2 "${aware[@]}" \
        ./tutti check --backend mpi --device cuda --quick --filter all_reduce/types/f32) ||
        fail "calls with deadlines of a CUDA-aware $flavour: $text"
    has_not "$text" "of device memory" "calls with deadlines of a CUDA-aware $flavour"
done

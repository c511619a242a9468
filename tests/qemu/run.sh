#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: seconds=90
# Proves that the kernels give the same bits on other CPUs: tests/unit/kernels/kernels_bits.c, whose hash over all results is a
# constant, runs on an emulated x86-64-v2 CPU (Nehalem: no AVX), with the static library of this build, and on aarch64, with
# kernels that are compiled for it. Exits 0 if both agree, 1 if not, 77 if a needed package is missing. CC names the native
# compiler (default gcc).
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
build=${TUTTI_BUILD:-$root/build}
cc=${CC:-gcc}
cross=aarch64-linux-gnu-gcc

skip()
{
    echo "skipped: $1 is missing;" \
        "install it with: apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    exit 77
}

[ "$(uname -m)" = x86_64 ] || { echo "skipped: this test runs on x86-64 hosts only"; exit 77; }
command -v "$cc" >/dev/null || skip "$cc"
command -v "$cross" >/dev/null || skip "$cross"
command -v qemu-x86_64 >/dev/null || skip qemu-x86_64
command -v qemu-aarch64 >/dev/null || skip qemu-aarch64
[ -e /usr/aarch64-linux-gnu/lib/libc.a ] || skip "the C library for aarch64"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# link COMPILER NAME FILE...: $work/NAME/bits
link()
{
    compiler=$1 name=$2
    shift 2
    mkdir -p "$work/$name"
    "$compiler" -std=gnu17 -O2 -static -I"$root/src" -I"$root/include" -I"$root/tests/unit/kernels" -o "$work/$name/bits" \
        "$root/tests/unit/kernels/kernels_bits.c" "$@"
}

# check TITLE COMMAND...: runs it; it must succeed and choose the set "base"
check()
{
    title=$1
    shift
    status=0
    "$@" >"$work/output" || status=$?
    sed "s/^/$title: /" "$work/output"
    if [ "$status" -ne 0 ] || ! grep -qx 'isa base' "$work/output"; then
        echo "FAILED on $title (status $status): wants the set 'base' and the recorded hash"
        failed=1
    fi
}

failed=0

link "$cc" x86 "$build/libtutti.a" -pthread -lm
mkdir "$work/kernels"
for source in "$root"/src/kernels/isa/*.c; do
    "$cross" -std=gnu17 -O3 -ffp-contract=off -fno-trapping-math -fno-math-errno -DTTI_ISA=base \
        -I"$root/src" -I"$root/include" -c "$source" -o "$work/kernels/$(basename "$source" .c).o"
done
link "$cross" arm "$root"/src/kernels/*.c "$root/src/tensor/dtype.c" "$root/src/tensor/reduce_op.c" "$work"/kernels/*.o

check x86-64-v2 qemu-x86_64 -cpu Nehalem "$work/x86/bits"
check aarch64 qemu-aarch64 "$work/arm/bits"
[ "$failed" -eq 0 ] && echo "passed: the same bits on both"
exit "$failed"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The vendors' interfaces as src/device declares them, compared with the vendors' own headers where they are installed.
# Also that the comparison notices: copies of our declarations with one thing wrong must not compile.
set -eu
source=${TUTTI_SOURCE:?}
cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
compared=0

# Whether $1.c compiles with the vendor's headers in $2 and the declarations below $3.
compiles()
{
    "$cc" -std=gnu17 -fsyntax-only -I"$3" -I"$source/include" -isystem "$2" "$source/tests/abi/$1.c" 2>"$work/errors"
}

# $1: which; $2: the vendor's header; the rest: pairs of a sed expression that spoils $1's declarations.
compare()
{
    local test=device_$1 api=$1_api.h header=$2 folder file seen= spoilt=$work/spoilt
    shift 2
    for folder in "${TUTTI_VENDOR_INCLUDE:-/nonexistent}" /usr/include /usr/local/include /usr/local/cuda/include \
        /opt/rocm/include; do
        [ -f "$folder/$header" ] || continue
        file=$(readlink -f "$folder/$header")
        case $seen in *":$file:"*) continue ;; esac # by another path
        seen=$seen:$file:
        compared=$((compared + 1))
        echo "comparing with $folder/$header"
        if ! compiles "$test" "$folder" "$source/src"; then
            cat "$work/errors"
            failed=1
            continue
        fi
        mkdir -p "$spoilt/device"
        for change in "$@"; do
            sed "$change" "$source/src/device/$api" >"$spoilt/device/$api"
            if cmp -s "$spoilt/device/$api" "$source/src/device/$api"; then
                echo "this changes nothing in $api any more: $change"
                failed=1
            elif compiles "$test" "$folder" "$spoilt"; then
                echo "not noticed in $api: $change"
                failed=1
            elif ! grep -q 'static assertion failed' "$work/errors"; then
                echo "noticed in $api, but not by a comparison: $change"
                cat "$work/errors"
                failed=1
            fi
        done
    done
}

# An argument too many, one too few, a narrower one, two exchanged, an integer for a pointer; a wrong number; a
# structure in another order, and one that is too short.
compare cuda cuda.h \
    's/(tti_gpu_stream stream, tti_gpu_event event, unsigned int flags)/(tti_gpu_stream stream, tti_gpu_event event)/' \
    's/(unsigned int flags))/(unsigned int flags, int more))/' \
    's/(tti_gpu_pointer \* pointer, size_t bytes)/(tti_gpu_pointer * pointer, unsigned int bytes)/' \
    's/(tti_gpu_event event, tti_gpu_stream stream)/(tti_gpu_stream stream, tti_gpu_event event)/' \
    's/(void \*pointer))/(tti_gpu_pointer pointer))/' \
    's/TTI_GPU_NOT_READY = 600/TTI_GPU_NOT_READY = 601/' \
    's/size_t src_x;/size_t src_y;/; t; s/size_t src_y;/size_t src_x;/' \
    's/char reserved\[64\]/char reserved[32]/'
compare hip hip/hip_runtime_api.h \
    's/(void \*\*pointer, size_t bytes, unsigned int flags)/(void **pointer, size_t bytes)/' \
    's/hipFree, NULL, 1, tti_gpu_result, (void \*pointer))/hipFree, NULL, 1, tti_gpu_result, (void *pointer, int more))/' \
    's/(tti_gpu_event event, tti_gpu_stream stream)/(tti_gpu_stream stream, tti_gpu_event event)/' \
    's/size_t width, size_t height/unsigned int width, size_t height/' \
    's/TTI_GPU_NOT_READY = 600/TTI_GPU_NOT_READY = 601/' \
    's/char reserved\[64\]/char reserved[32]/'

if [ $compared -eq 0 ]; then
    echo "neither cuda.h nor hip/hip_runtime_api.h is installed (TUTTI_VENDOR_INCLUDE may name their folder)"
    exit 77
fi
exit $failed

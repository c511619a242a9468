#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=600 trees=release
# The same over NCCL, which is a double here, with tensors in host memory.
. "$TUTTI_SOURCE/tests/exit/common.inc"

every nccl env TUTTI_CUDA_LIBRARY="$PWD/tests/doubles/cuda/libcuda.so.1" TUTTI_DOUBLE_CUDA=delay_us=0 \
    TUTTI_NCCL_LIBRARY="$PWD/tests/doubles/nccl_new/libnccl.so.2" TUTTI_NCCL_HOST_STAGING=yes TUTTI_BACKEND=nccl \
    TUTTI_DEVICE=cpu ./tutti run -n 3 --
[ "$failures" -eq 0 ]

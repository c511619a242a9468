#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: cpus=2 trees=release,address,undefined
#
# Every split of 1 to 4 ranks has the gradients that finite differences give, and in each of 200 steps the loss of one rank.
. "$TUTTI_SOURCE/tests/gpt/common.inc"

for split in 1x1 2x1 1x2 3x1 2x2 4x1; do
    verify ./tutti run -n $((${split%x*} * ${split#*x})) -- "$gpt" verify --backend shm --batch 6 \
        --steps "$steps" --tensor "${split%x*}"
done

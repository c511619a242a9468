#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: cpus=2 trees=release,address,undefined
#
# The same as verify.sh with all_gather and reduce_scatter instead of all_reduce, and heads of queries that share keys.
. "$TUTTI_SOURCE/tests/gpt/common.inc"

for split in 2x1 1x2 3x1 2x2 4x1; do
    verify ./tutti run -n $((${split%x*} * ${split#*x})) -- "$gpt" verify --backend shm --batch 6 \
        --steps "$steps" --tensor "${split%x*}" --sequence-parallel
done
# A rank's tokens begin in the middle of a sequence.
verify ./tutti run -n 2 -- "$gpt" verify --batch 3 --steps 50 --sequence-parallel
verify ./tutti run -n 2 -- "$gpt" verify --batch 6 --heads 12 --kv-heads 4 --steps 50
verify ./tutti run -n 2 -- "$gpt" verify --batch 6 --heads 12 --kv-heads 2 --steps 50 --sequence-parallel

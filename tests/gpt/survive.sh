#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: cpus=2 trees=release,address,undefined
#
# Ranks die in training: the others take another split, load the last checkpoint, and end with the model that one rank trains.
. "$TUTTI_SOURCE/tests/gpt/common.inc"

make_scratch
train=(train --shape tiny --layers 1 --text "$scratch/text" --steps 30 --save-every 10)
./tutti run -n 1 -- "$gpt" "${train[@]}" --checkpoint "$scratch/whole" >/dev/null 2>&1 || fail "training alone"

# survives RANKS OPTIONS...
survives() {
    local ranks=$1 expected=$2
    shift 2
    rm -f "$scratch/model"
    timeout 400 ./tutti run -n "$ranks" --keep-going -- "$gpt" "${train[@]}" --checkpoint "$scratch/model" --survive "$@" \
        >"$scratch/log" 2>&1 || fail "$*: status $?: $(cat "$scratch/log")"
    grep -q "$expected" "$scratch/log" || fail "$*: not \"$expected\": $(cat "$scratch/log")"
    near "$scratch/model" "$scratch/whole" || fail "$*: another model"
}

survives 2 '1 ranks (1 x 1, tensor x data) go on from step 10$' --kill 1 --at 15
survives 2 '1 ranks (1 x 1, tensor x data) go on from step 0$' --kill 0 --at 1
survives 4 '3 ranks (1 x 3, tensor x data) go on from step 20$' --tensor 1 --kill 0 --at 21
survives 4 '3 ranks (3 x 1, tensor x data) go on from step 10$' --tensor 2 --kill 3 --at 20
survives 4 '3 ranks (3 x 1, tensor x data) go on from step 20$' --tensor 4 --sequence-parallel --kill 2 --at 30

# Without --survive the training ends, and so do all ranks.
timeout 400 ./tutti run -n 2 -- "$gpt" "${train[@]}" --kill 1 --at 3 >"$scratch/log" 2>&1 && fail "went on without --survive"
echo "survivors: all right"

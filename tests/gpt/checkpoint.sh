#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: cpus=2 trees=release,address,undefined
#
# A checkpoint serves any split, a resumed training ends as one that was not interrupted, and a bad file gets one sentence
# and stays as it is.
. "$TUTTI_SOURCE/tests/gpt/common.inc"

make_scratch
train=(train --shape tiny --layers 1 --text "$scratch/text" --steps 20 --save-every 10)

# train_on TENSOR DATA FILE OPTIONS...
train_on() {
    local ranks=$(($1 * $2)) tensor=$1 file=$3
    shift 3
    ./tutti run -n $ranks -- "$gpt" "${train[@]}" --tensor "$tensor" --checkpoint "$file" "$@" 2>&1
}

train_on 1 1 "$scratch/whole" >"$scratch/log" || fail "training: $(cat "$scratch/log")"
train_on 1 1 "$scratch/half" --kill 0 --at 11 >/dev/null && fail "the rank did not die"
[ -f "$scratch/half" ] || fail "no checkpoint of step 10"
for split in "2 1" "1 2" "3 1" "2 2"; do
    cp "$scratch/half" "$scratch/copy"
    # shellcheck disable=SC2086 # two words
    train_on $split "$scratch/copy" --resume >"$scratch/log" || fail "resume with $split: $(cat "$scratch/log")"
    grep -q 'from step 10$' "$scratch/log" || fail "resume with $split: $(cat "$scratch/log")"
    near "$scratch/copy" "$scratch/whole" || fail "resume with $split: another model"
done
cmp -s "$scratch/copy" "$scratch/half" && fail "the resumed training wrote no checkpoint"
[ -z "$(ls "$scratch" | grep part)" ] || fail "temporary files are left"

# Bad files, on reading: for both commands that read one.
good=$scratch/whole
size=$(stat -c %s "$good")
head -c $((size / 2)) "$good" >"$scratch/short"
head -c 50 "$good" >"$scratch/shorter"
cp "$good" "$scratch/long" && echo >>"$scratch/long"
for place in 10 30 $((size / 2)); do # the version, the shape, a parameter
    cp "$good" "$scratch/flipped$place"
    printf '\125' | dd of="$scratch/flipped$place" bs=1 seek="$place" conv=notrunc status=none
done
cp "$scratch/flipped$((size / 2))" "$scratch/flipped"
for command in "train --shape tiny --layers 1 --resume" generate; do
    # shellcheck disable=SC2086 # several words
    bad() { refused 2 "$1" $command --checkpoint "$2"; }
    bad 'cannot read the checkpoint .*/none: No such file' "$scratch/none"
    bad 'text is not a checkpoint' "$scratch/text"
    bad 'is not a checkpoint' "$scratch"
    bad 'shorter is not a checkpoint' "$scratch/shorter"
    bad "short is cut short: it has $((size / 2)) bytes, not $size" "$scratch/short"
    bad 'long is damaged: it has' "$scratch/long"
    bad 'is a checkpoint of version [0-9]*; this program reads version 1' "$scratch/flipped10"
    bad 'flipped30 is damaged: its header' "$scratch/flipped30"
    bad 'flipped is damaged: its checksum' "$scratch/flipped"
done
refused 2 'is a checkpoint of another shape: 1 layers, hidden 24' train --shape tiny --resume --checkpoint "$good"
refused 2 'need --checkpoint FILE' train --resume
refused 2 'need --checkpoint FILE' train --survive

# No space, on writing: the old checkpoint stays, nothing else is left.
cp "$good" "$scratch/old"
ln -s /dev/full "$scratch/old.part"
refused 2 'cannot write the checkpoint .*: No space left on device; the old one is unchanged' "${train[@]}" --checkpoint \
    "$scratch/old"
cmp "$scratch/old" "$good" || fail "the old checkpoint has changed"
[ ! -e "$scratch/old.part" ] || fail "the temporary file is left"
refused 2 'cannot write the checkpoint .*: No such file' "${train[@]}" --checkpoint "$scratch/nowhere/file"
refused 3 'the name of the checkpoint is too long' "${train[@]}" --tensor 3 --checkpoint "$(printf 'x%.0s' $(seq 4100))"
echo "checkpoints: all right"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: trees=release,address,undefined
#
# Bad input gets one sentence, on rank 0, and exit status 2 on every rank.
. "$TUTTI_SOURCE/tests/gpt/common.inc"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf 'short' >"$scratch/short.txt"
printf '\377\376' >"$scratch/binary.txt"

for command in verify train; do
    refused 2 '2 tensor-parallel ranks do not divide 3 heads' $command --heads 3
    refused 3 '3 tensor-parallel ranks do not divide 256 entries of the vocabulary' $command --vocabulary 256
    refused 2 '2 tensor-parallel ranks do not divide 99 columns of the MLP' $command --mlp 99
    refused 3 '2 tensor-parallel ranks do not divide 3 ranks' $command --tensor 2
    refused 2 '2 replicas do not divide a batch of 3 sequences' $command --tensor 1 --batch 3
    refused 2 '2 tensor-parallel ranks do not divide the 15 tokens of a replica' $command --sequence-parallel \
        --batch 1 --context 15
    refused 2 'cannot read the text /nonexistent: No such file' $command --text /nonexistent
    refused 2 'short.txt has 5 bytes, and a sequence takes' $command --text "$scratch/short.txt"
    refused 2 'binary.txt is not UTF-8 text' $command --text "$scratch/binary.txt"
    refused 1 '7 heads do not divide the hidden width 24' $command --hidden 24 --heads 7
    refused 1 '5 heads of keys do not divide 12 heads' $command --heads 12 --kv-heads 5
    refused 2 'steps takes a number from 1 to [0-9]*, not "0"' $command --steps 0
    refused 2 'batch takes a number .*, not "2x"' $command --batch 2x
    refused 2 'lr takes a number from .*, not "nan"' $command --lr nan
    refused 2 'vocabulary takes a number from 256 ' $command --vocabulary 100
    refused 2 'there is no shape "huge"' $command --shape huge
    refused 2 'unknown option "--nonsense"' $command --nonsense
    refused 2 'steps needs a value' $command --steps
    refused 2 'unexpected argument "more"' $command more
done
refused 2 'no command' --steps 3
refused 2 'there is no command "dance"' dance
[ "$(./tutti run -n 2 -- "$gpt" --help | grep -c Usage)" = 1 ] || fail "--help"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: cpus=2 trees=release,address,undefined
#
# The same text with 1 to 4 ranks, also past the end of the context; logits within the bound; prompts that are refused.
. "$TUTTI_SOURCE/tests/gpt/common.inc"

make_scratch
model=$scratch/model
./tutti run -n 2 -- "$gpt" train --shape tiny --text "$scratch/text" --steps 30 --checkpoint "$model" >/dev/null 2>&1 ||
    fail "training"

for options in "--temperature 0" "--temperature 1 --seed 7" "--weights bf16"; do
    first=
    for ranks in 1 2 3 4; do
        # shellcheck disable=SC2086 # several words
        text=$(./tutti run -n $ranks --no-prefix -- "$gpt" generate --checkpoint "$model" --prompt "A häuslein" --tokens 40 \
            $options --check 2>/dev/null) || fail "$options, $ranks ranks: $text"
        grep -q "^check: within the bound" <<<"$text" || fail "$options, $ranks ranks: $text"
        grep -q "of 40 tokens 0 differ" <<<"$text" || fail "$options, $ranks ranks: $text"
        text=$(grep -v '^check' <<<"$text")
        first=${first:-$text}
        [ "$text" = "$first" ] || fail "$options: $ranks ranks write another text: $text"
        grep -q "^A häuslein" <<<"$text" || fail "the prompt is not there: $text"
    done
done
other=$(./tutti run -n 2 --no-prefix -- "$gpt" generate --checkpoint "$model" --prompt "A häuslein" --tokens 40 --seed 8 \
    --temperature 1 2>/dev/null)
[ "$other" != "$first" ] || fail "another seed gives the same text"

refused 2 'the prompt is not UTF-8' generate --checkpoint "$model" --prompt $'\303('
refused 2 'the prompt is not UTF-8' generate --checkpoint "$model" --prompt $'\355\240\200' # a surrogate
refused 2 'the prompt is empty' generate --checkpoint "$model" --prompt ''
refused 2 'needs --checkpoint FILE' generate
refused 5 '5 tensor-parallel ranks do not divide 12 heads' generate --checkpoint "$model"
refused 2 'temperature takes a number from 0 to 100, not "hot"' generate --checkpoint "$model" --temperature hot
refused 2 '--weights takes f32 or bf16, not "f16"' generate --checkpoint "$model" --weights f16

# The benchmark runs, with a row for each engine.
rows=$(./tutti run -n 2 --no-prefix -- "$gpt" decode --shape tiny --position 2 --tokens 2 --rounds 2 --vocabulary 264 \
    --engines one,shm,heap --csv 2>&1) || fail "decode: $rows"
[ "$(grep -c '^tiny,2,24,f32,[12],' <<<"$rows")" = 3 ] || fail "decode: $rows"
refused 2 'are more than the context' decode --shape tiny --position 10
echo "generation: all right"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: trees=release
#
# The program in docs/tensor-parallel.md compiles as it stands there, and computes the same with any number of ranks.
. "$TUTTI_SOURCE/tests/gpt/common.inc"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
awk '/^```c$/{inside=1;next} /^```/{inside=0} inside' "$TUTTI_SOURCE/docs/tensor-parallel.md" >"$scratch/pattern.c"
"${CC:-cc}" -std=c11 -Wall -Wextra -Werror -I "$TUTTI_SOURCE/include" "$scratch/pattern.c" -o "$scratch/pattern" \
    "${TUTTI_LIBRARY:?names the shared library}" -Wl,-rpath,"$(dirname "$TUTTI_LIBRARY")" -lm || fail "it does not compile"
for ranks in 1 2 4; do
    text=$(./tutti run --no-prefix -n $ranks -- "$scratch/pattern")
    grep -q "^y\[0\] = 0.06265[0-9]*, dx\[0\] = 1.8626[0-9]* on $ranks ranks$" <<<"$text" || fail "$ranks ranks: $text"
done
echo "the pattern: right"

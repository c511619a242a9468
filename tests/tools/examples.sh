#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=300 trees=release,debug
# The small examples run and print the right results.
. "$(dirname "$0")/common.inc"

for example in hello gather survive train_fashion_mnist; do
    if [ ! -x "$build/examples/$example" ]; then
        echo "skipped: the examples are not built"
        exit 77
    fi
done

run_tutti run -n 3 --no-prefix -- "$build/examples/hello"
check_status 0 "hello"
check_line out '^rank 2 of 3: the sum is 6$' "the sum"

run_tutti run -n 3 --no-prefix -- "$build/examples/gather"
check_status 0 "gather"
check_line out '^ +0 +1 +10 +11 +20 +21$' "the first row of the matrix"
check_line out '^ +100 +101 +110 +111 +120 +121$' "the second row of the matrix"

for example in survive train_fashion_mnist; do
    "$build/examples/$example" --help >"$work/out" 2>"$work/err"
    status=$?
    check_status 0 "$example --help"
    check_line out '^[Uu]sage: ' "$example --help"
    for words in --what word; do
        "$build/examples/$example" $words >"$work/out" 2>"$work/err"
        status=$?
        check_status 2 "$example $words"
        check_line err '.' "$example $words"
    done
done

finish

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=200 trees=release
# Parts of a tensor with more rows than an int can hold.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins

numbers="2147483648 3221225473 4294967296 4294967297 8589934592" # a multiple of the most that one vector has, or not
for flavour in $(flavours); do
    double=$(double_of "$flavour") || exit 1
    # shellcheck disable=SC2086
    text=$(output_of "$flavour" 2 env LD_PRELOAD="$double" DOUBLE_SPANS=1 tests/mpi/rows $numbers) ||
        fail "rows with $flavour: $text"
    for rows in $numbers; do # of two columns
        # MPI could leave out a multiple of 4 GiB in an exchange
        what=$([ $((rows % 4294967296)) = 0 ] && echo message || echo part)
        [ "$(grep -c "^double: $what of $rows bytes spans $((2 * rows - 1))$" <<<"$text")" = 2 ] ||
            fail "$rows rows with $flavour: $text"
    done
done

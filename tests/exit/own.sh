#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=600 trees=release,debug,address,undefined
# A process ends while operations are pending, on the backends that are always built.
. "$TUTTI_SOURCE/tests/exit/common.inc"

threads=1 every local env
every shm env TUTTI_BACKEND=shm ./tutti run -n 3 --
# Over shm, which has come to an end in every way.
if [ -n "${TUTTI_SANITIZE:-}" ] && [ -z "${TUTTI_TEST_ALL:-}" ]; then
    kinds='recv barrier all_reduce_large thread_recv destroy-recv'
fi
every hier env TUTTI_BACKEND=hier TUTTI_HIER_OUTER=shm ./tutti run -n 3 -- "$TUTTI_SOURCE/tests/hier/on_hosts" AAB
[ "$failures" -eq 0 ]

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=240
#
# `tutti check` as a command: options, exit codes, how it starts ranks, and that it leaves nothing behind.
set -u

tutti=${TUTTI_BUILD:?names the build tree}/tutti
unset RANK WORLD_RANK WORLD_SIZE TUTTI_RANK TUTTI_WORLD_SIZE TUTTI_BACKEND TUTTI_CHECK_SABOTAGE TUTTI_CHECK_STARTED
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# expect STATUS PATTERN COMMAND...: the exit code, and a line of the output (both streams).
expect() {
    local wanted=$1 pattern=$2
    shift 2
    timeout 400 "$@" >"$scratch/out" 2>&1
    local status=$?
    if [ "$status" -ne "$wanted" ] || ! grep -Eq -- "$pattern" "$scratch/out"; then
        echo "FAILED: $* : exit code $status (wanted $wanted), wanted a line like '$pattern' in"
        tail -n 20 "$scratch/out" | sed 's/^/    /'
        failures=$((failures + 1))
    fi
}

cases=all_reduce/types/f32/sum
files() { # but those of MPI jobs and of tests of traces, which come and go
    find /dev/shm -mindepth 1 -maxdepth 1 -not -name 'vader_segment.*' -not -name 'sm_segment.*' -not -name 'ucx_shm*' -not -name 'mpich*' \
        -not -name 'records.*' | sort
}
before=$(files)

expect 0 '^[0-9]+ passed, 0 failed, 0 skipped$' "$tutti" check --backend local -n 3 --quick --filter $cases
expect 0 ': 3 ranks, backend local, quick suite, seed 1, ' "$tutti" check --backend LOCAL -n 3 --quick --filter $cases
expect 0 ': 3 ranks, backend shm, full suite, seed 9, ' "$tutti" check --backend shm -n 3 --seed 9 --filter $cases
expect 0 ': [0-9]+ ranks, backend shm, ' "$tutti" check --quick --filter $cases
expect 0 ': 1 rank, backend shm, ' "$tutti" check -n 1 --backend shm --quick --filter $cases

# inside a launcher every process is one rank, and only rank 0 shows the table
expect 0 ': 2 ranks, backend shm, ' "$tutti" run -n 2 --no-prefix -- "$tutti" check --backend shm --quick --filter $cases
if [ "$(grep -c 'passed, 0 failed' "$scratch/out")" -ne 1 ]; then
    echo "FAILED: one table is wanted, not one from each rank"
    failures=$((failures + 1))
fi
expect 2 '-n 3, but the launcher has started 2 ranks' "$tutti" run -n 2 -- "$tutti" check -n 3 --quick --filter $cases

# failures reach the exit code through the launcher too
expect 1 '^0 passed, [1-9][0-9]* failed, 0 skipped$' env TUTTI_CHECK_SABOTAGE=all_reduce \
    "$tutti" check --backend shm -n 2 --quick --filter $cases

# a backend in a plug-in file; each rank loads it
plugins=$TUTTI_BUILD/tests/plugin
expect 0 ': 1 rank, backend copying, ' "$tutti" check -n 1 --plugin "$plugins/copying.so" --backend copying --quick --filter $cases
expect 1 "^tutti check: --plugin /no/such/file.so: backend_load: .*/no/such/file.so" "$tutti" check --plugin /no/such/file.so
expect 1 "no_entry.so exports no tutti_backend_entry: it is no plug-in$" "$tutti" check --plugin "$plugins/no_entry.so"
expect 1 "built for ABI" "$tutti" bench --plugin "$plugins/other_abi.so"
expect 0 'copying' "$tutti" info --plugin "$plugins/copying.so"
expect 0 '^overlap: step/max = ' "$tutti" bench overlap -n 1 --step 1 -i 1 --chunks 1 --plugin "$plugins/copying.so" --backend copying
cd "$plugins" || exit 1 # a name without a slash is one of the current folder
expect 0 '^ +64 +16 +f32 +sum .* 0 ' "$tutti" bench all_reduce -n 1 -i 2 -b 64 -e 64 --plugin copying.so --backend copying
cd - >/dev/null || exit 1

expect 0 '^all_reduce/types/f32/sum/301/in-place$' "$tutti" check --list
expect 1 "there is no backend 'nosuch'; known are .*shm" "$tutti" check --backend nosuch
expect 2 "-n takes a number from 1 to 1024, not '0'" "$tutti" check -n 0
expect 2 "-n takes a number from 1 to 1024, not 'two'" "$tutti" check -n two
expect 2 "--timeout takes seconds .*, not '-1'" "$tutti" check --timeout=-1
expect 2 "'all_reduce' is not an option; to choose cases say --filter all_reduce" "$tutti" check all_reduce
expect 0 'all_reduce/types/f32/sum/301' "$tutti" check --help

if [ "$(files)" != "$before" ]; then
    echo "FAILED: something was left in /dev/shm"
    failures=$((failures + 1))
fi
echo "$failures failures"
[ "$failures" -eq 0 ]

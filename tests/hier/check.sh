#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: seconds=65 timeout=600 cpus=3 trees=release,debug,address,undefined
#
# The hierarchical backend on this machine, with ranks that pretend to be on several hosts: the conformance suite with even,
# uneven and interleaved hosts, the choices of "auto", and the combinations that are refused.
set -u

tutti=${TUTTI_BUILD:?names the build tree}/tutti
hosts=${TUTTI_SOURCE:?names the source tree}/tests/hier/on_hosts
unset RANK WORLD_RANK WORLD_SIZE TUTTI_RANK TUTTI_WORLD_SIZE TUTTI_BACKEND TUTTI_CHECK_SABOTAGE TUTTI_CHECK_STARTED
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# expect STATUS PATTERN HOSTS ARGS...: `tutti check` with a rank for each letter; the exit code and a line of its output.
expect() {
    local wanted=$1 pattern=$2 layout=$3
    shift 3
    timeout 1000 "$tutti" run -n ${#layout} --no-prefix -- "$hosts" "$layout" "$tutti" check --quick --timeout 5m "$@" \
        >"$scratch/out" 2>&1
    local status=$?
    if [ "$status" -ne "$wanted" ] || ! grep -Eq -- "$pattern" "$scratch/out"; then
        echo "FAILED: $layout $* : exit code $status (wanted $wanted), wanted a line like '$pattern' in"
        tail -n 20 "$scratch/out" | sed 's/^/    /'
        failures=$((failures + 1))
    fi
}

passed='^[0-9]+ passed, 0 failed, [0-9]+ skipped$'
export TUTTI_HIER_OUTER=shm
# the whole quick suite once, where it is quick
expect 0 "$passed" AAB --backend hier ${TUTTI_SANITIZE:+--filter /layouts}
TUTTI_HIER_CHUNK=16K expect 0 "$passed" ABCA --backend hier --filter /sizes
TUTTI_HIER_CHUNK=16K expect 0 "$passed" ABAB --backend hier --filter /sizes
wire='AA AB ABAB AABA' types='A AA AB AAAAB ABBACA'
if [ -n "${TUTTI_SANITIZE:-}" ] && [ -z "${TUTTI_TEST_ALL:-}" ]; then # the uneven ones run the code of the others
    wire=AABA types='AAAAB ABBACA'
fi
for layout in $wire; do
    TUTTI_HIER_CHUNK=16K expect 0 "$passed" "$layout" --backend hier --filter wire
done
for layout in $types; do
    expect 0 "$passed" "$layout" --backend hier --filter /types/f32
done
expect 0 ', backend hier, .* promised: same_bits cancel_flagged$' AAB --backend hier --filter barrier/
expect 0 ', backend hier, .* promised: rank_order round_once same_bits checks_calls cancel cancel_flagged$' AB --backend hier \
    --filter barrier/

# by itself Tutti takes shm on one host, and hier over several if something joins them
expect 0 ', backend shm, ' AA --filter barrier/
expect 0 ', backend hier, ' AB --filter barrier/
expect 0 ', backend hier, ' AAB --filter barrier/
unset TUTTI_HIER_OUTER
export TUTTI_PLUGIN_PATH=$scratch # Gloo joins several hosts, where it is installed
expect 1 'no backend fits these 2 ranks \(several hosts\)' AB --filter barrier/
expect 1 'backend shm needs all ranks on one host' AB --backend shm --filter barrier/
expect 1 'no backend can join ranks of several hosts' AAB --backend hier --filter barrier/
unset TUTTI_PLUGIN_PATH
TUTTI_HIER_OUTER=nosuch expect 1 'there is no backend "nosuch"' AAB --backend hier --filter barrier/
TUTTI_HIER_OUTER=hier expect 1 'backend hier cannot be a part of another one' AAB --backend hier --filter barrier/
TUTTI_HIER_INNER=local TUTTI_HIER_OUTER=shm expect 1 'backend local needs ranks that are threads of one process' AAB \
    --backend hier --filter barrier/

echo "$failures failures on backend hier"
[ "$failures" -eq 0 ]

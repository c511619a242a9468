#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: seconds=50 timeout=300 trees=release
#
# A short part of the conformance suite over hosts with networks of their own, with uneven ranks and interleaved. The
# whole suite, by hand:
#     scripts/hosts run --hosts 3 --ranks 1,2,1 --interleave -- build/tutti check --backend hier
. "$(dirname "$0")/common.inc"
if [ ! -r "$build/lib/tutti/plugins/tutti-gloo.so" ]; then
    echo "skipped: Gloo is not installed (Debian: libgloo-dev)"
    exit 77
fi
export TUTTI_PLUGIN_PATH=$build/lib/tutti/plugins
passed='^\[[0-9]+\] [1-9][0-9]* passed, 0 failed, [0-9]+ skipped$'

run_hosts --no-prefix --hosts 3 --ranks 1,2,1 --interleave -- "$build/tutti" check --quick --filter /types/f32
check_status 0 "auto"
check_line out ', backend hier, ' "auto takes hier"
check_line out "$passed" "auto"

run_hosts --no-prefix --hosts 2 --ranks 3,1 -- "$build/tutti" check --backend hier --quick --filter /sizes
check_status 0 "hier"
check_line out "$passed" "hier"

run_hosts --no-prefix --hosts 2 --ranks 2,1 --interleave -- "$build/tutti" check --backend gloo --quick --filter /types/f32
check_status 0 "gloo"
check_line out "$passed" "gloo"

# With more hosts, other sizes take one round, two rounds, or chunks: the sums are right, and the same bits everywhere.
for layout in "4 2" "8 1,2,1,2,1,1,1,1 --interleave"; do
    for filter in same-bits all_reduce/sizes; do
        run_hosts --no-prefix --hosts ${layout%% *} --ranks ${layout#* } -- "$build/tutti" check --backend hier --quick \
            --filter $filter
        check_status 0 "$filter, hosts and ranks $layout"
        check_line out "$passed" "$filter, hosts and ranks $layout"
    done
done

finish

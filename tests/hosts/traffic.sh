#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: seconds=50 timeout=300 trees=release
#
# What all_reduce sends between hosts, counted by the kernel. A large tensor costs about the least bytes,
# 2 size (H-1)/H for each of H hosts; a small one is one message to each other host. The limits leave room for headers
# and acknowledgements, whose number depends on the machine's load.
. "$(dirname "$0")/common.inc"
traffic=$build/tests/hosts/traffic
if [ ! -r "$build/lib/tutti/plugins/tutti-gloo.so" ] || [ ! -x "$traffic" ]; then
    echo "skipped: Gloo is not installed (Debian: libgloo-dev)"
    exit 77
fi
export TUTTI_PLUGIN_PATH=$build/lib/tutti/plugins TUTTI_HIER_OUTER=gloo

# sends HOSTS BYTES CALLS LIMIT: no host sends or receives more than LIMIT bytes a call.
sends() {
    run_hosts --no-prefix --hosts "$1" --ranks 2 -- "$traffic" hier all_reduce "$2" "$3"
    check_status 0 "$1 hosts, $2 bytes"
    check_count out ': sent [1-9][0-9]* bytes in .* received [1-9][0-9]* bytes' "$1" "$1 hosts, $2 bytes: every host"
    checks=$((checks + 1))
    most=$(grep -Eo '(sent|received) [0-9]+' "$work/out" | sort -nk 2 | tail -1)
    echo "$1 hosts, $2 bytes: $most, at most $4"
    [ "${most#* }" -le "$4" ] || fail "$1 hosts, $2 bytes: a host has $most bytes, not at most $4"
}

# least HOSTS BYTES PERCENT: that many percent of the least bytes
least() {
    echo $((2 * $2 * ($1 - 1) / $1 * $3 / 100))
}

for count in 2 4 8; do
    sends $count 1048576 4 "$(least $count 1048576 110)"
done
# the results return in the second round of records, without requests
sends 2 65536 50 "$(least 2 65536 110)"
sends 4 262144 20 "$(least 4 262144 110)"
sends 8 16384 50 "$(least 8 16384 180)"
sends 8 65536 20 "$(least 8 65536 120)"
# one round on one rail: the record with the data, Gloo's notices with it, and acknowledgements
sends 2 8 100 500
sends 4 8 100 1500
sends 8 4096 50 $((7 * (4096 + 700)))
finish

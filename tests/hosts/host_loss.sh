#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: seconds=40 timeout=300 trees=release,debug
#
# A host is lost in the middle of an all_reduce: its link is cut, its interface goes down, it vanishes, or its processes
# are killed. Every remaining rank, also on the side that was cut off, gets an error that names a host that it cannot
# reach, at most a second after the deadline. The test allows more time for a busy machine. All cases run at the same
# time, since they mostly wait.
. "$(dirname "$0")/common.inc"
deadline_ms=30000
late_ms=200000 # after which it did not come by the deadline, however slow the machine is; the group's own is 300 s
if [ ! -r "$build/lib/tutti/plugins/tutti-gloo.so" ]; then
    echo "skipped: Gloo is not installed (Debian: libgloo-dev)"
    exit 77
fi
export TUTTI_PLUGIN_PATH=$build/lib/tutti/plugins TUTTI_HIER_OUTER=gloo

# start NAME BACKEND LAYOUT DAMAGE [RANK,...]: the ranks of LAYOUT, by letters as in ranks_of; hosts are as many as there are
# letters. The listed ranks wait for a rank that waits itself. They have a longer deadline, since they name that rank if
# they begin to wait a second before it.
start() {
    local count
    count=$(echo "$3" | fold -w 1 | sort -u | wc -l)
    "$hosts" run --tutti "$build/tutti" --limit 400 --hosts "$count" --launcher plain --since "all are summing" $4 -- \
        "$here/ranks_of" "$3" "$build/tests/hosts/summing" "$2" "$deadline_ms" ${5:+"$5"} >"$work/$1.out" 2>"$work/$1.err" </dev/null &
}

# names NAME RANK HOST...: this rank's error names one of these hosts.
names() {
    local name=$1 rank=$2 line ms
    shift 2
    checks=$((checks + 1))
    line=$(grep -E "\[$rank\] ended [A-Z_]+ after [0-9]+ ms: " "$work/$name.out")
    ms=$(echo "$line" | sed -E 's/.* after ([0-9]+) ms: .*/\1/')
    cp "$work/$name.out" "$work/out"
    cp "$work/$name.err" "$work/err"
    echo "$line" | grep -Eq "\(rank [0-9]+ is on host ($(IFS='|' && echo "$*"))\)" ||
        fail "$name: rank $rank does not name $*: '$line'"
    [ "${ms:-999999}" -le "$late_ms" ] || fail "$name: rank $rank got the error after ${ms:-?} ms"
    latest=$((ms > latest ? ms : latest))
}

latest=0
start hier2 hier ABAB "--down 1@0.3"
start hier3 hier ABBBC "--drop 2@0.3" 2,3 # these wait inside their host only
start gloo2 gloo AABB "--cut 0@0.3"
start gloo3 gloo ABC "--cut 2@0.3" 0 # also waits for rank 1
start killed hier ABCC "--kill 2@0.3"
wait

names hier2 0 host1
names hier2 2 host1
names hier2 1 host0
names hier2 3 host0
for rank in 0 1 2 3; do
    names hier3 $rank host2
done
names gloo2 0 host1
names gloo2 1 host1
names gloo2 2 host0
names gloo2 3 host0
names gloo3 0 host2
names gloo3 1 host2
names gloo3 2 host0 host1
names killed 0 host2
names killed 1 host2
echo "the last rank got the error after $latest ms, of which the deadline is $deadline_ms ms"
finish

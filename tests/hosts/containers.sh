#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: seconds=60 timeout=300 trees=release,debug
#
# Ranks in containers: each has PID and mount namespaces of its own and is process 1 there, as container launchers start
# it. If the ranks have one network namespace or one directory in common, they still share memory. If not, the group's
# description says which backend is taken instead, and why.
. "$(dirname "$0")/common.inc"
contained=$build/tests/hosts/contained
if ! unshare --pid --fork --mount-proc true 2>"$work/err"; then
    echo "skipped: this process may not make PID namespaces (unshare: $(tail -1 "$work/err"))"
    exit 77
fi
if [ -r "$build/lib/tutti/plugins/tutti-gloo.so" ]; then
    export TUTTI_PLUGIN_PATH=$build/lib/tutti/plugins
    gloo=yes
else
    gloo=no
fi
mkdir "$work/common"
short=$(mktemp -d /tmp/XXXXXX)
trap 'rm -rf "$work" "$short"' EXIT

# Inside a namespace of mounts: the rank's own /dev/shm and /tmp, or no /proc at all. Then the rank takes the place of process 1.
private='mount -t tmpfs tmpfs /dev/shm; exec "$@"'
hidden='mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /proc; exec "$@"'

# What torchrun gives to rank $1 if each rank has a host of its own.
variables() {
    export RANK=$1 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=$1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500
    export TORCHELASTIC_RUN_ID=$TUTTI_TEST_ID-$runs
}

runs=0
pids=()
# start_rank RANK OPTION... -- COMMAND...: in a container that `unshare` makes with these options; output in $work/out.RANK
start_rank() {
    local rank=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    : >"$work/out.$rank" # before the process below exists: kill_when_ready must not read a line of an earlier run
    (
        variables "$rank"
        exec unshare --pid --fork --kill-child "${options[@]}" "$@"
    ) >"$work/out.$rank" 2>&1 </dev/null &
    pids[rank]=$!
}

# Their output in $work/out, each line behind [RANK]; $status is the sum of their exit codes.
end_ranks() {
    local rank code
    status=0
    : >"$work/err"
    : >"$work/out"
    for rank in 0 1 2; do
        wait "${pids[rank]}"
        code=$?
        status=$((status + code))
        sed "s/^/[$rank] /" "$work/out.$rank" >>"$work/out"
    done
}

# run_ranks OPTION... -- COMMAND...: three ranks
run_ranks() {
    runs=$((runs + 1))
    for rank in 0 1 2; do
        start_rank $rank "$@"
    done
    end_ranks
}

check_works() { # BACKEND WHAT
    check_status 0 "$2"
    check_count out "^\[[0-2]\] rank [0-2] of 3 works on $1\$" 3 "$2"
}

# One network: shm, with any other namespaces of their own.
run_ranks --mount-proc -- "$contained" work
check_works shm "one network"
check_count out 'was not taken' 0 "one network"

run_ranks --mount-proc -- sh -c "$private" sh "$contained" work
check_works shm "own /dev/shm"

# The address sanitizer reads its settings from /proc, and cannot search for leaks without it.
if [ "$(basename "$build")" != asan ]; then
    run_ranks --mount -- sh -c "$hidden" sh "$contained" work
    check_works shm "no /proc"
fi

run_ranks -- "$contained" work
check_works shm "the /proc of another namespace"

run_ranks --user --map-root-user --mount-proc -- "$contained" work
check_works shm "own user namespaces"

# Tutti does not even try to read another process's memory by its process number.
TUTTI_ENGINE_SINGLE_COPY_BYTES=4K run_ranks --mount-proc -- "$contained" work
check_works shm "single copy"

# The suite, with variables instead of a launcher. Process 1 of a namespace does not even get the signals that it sends
# to itself.
run_ranks --mount-proc -- "$build/tutti" check --backend shm --quick
check_status 0 "the conformance suite"
check_line out '^\[0\] [1-9][0-9]* passed, 0 failed, [0-9]+ skipped$' "the conformance suite"

TUTTI_STORE=unix:$TUTTI_TEST_ID-splits run_ranks --mount-proc -- "$contained" splits
check_status 0 "sub-groups"

run_ranks --mount-proc -- "$contained" grow
check_status 0 "a group grows"
check_count out 'has grown to 3 on shm$' 3 "a group grows"

# Rank 2 is killed from outside while the other ranks wait for it.
kill_when_ready() {
    eventually grep -q ready "$work/out.2" || fail "rank 2 is not ready"
    local child
    child=$(cat "/proc/${pids[2]}/task/${pids[2]}/children")
    kill -KILL $child
}

check_survived() { # WHAT
    check_count out '^\[[01]\] rank [01] got PEER_DEAD of rank 2: .*rank 2 \(process [0-9]+ of another PID namespace\) has died' 2 "$1"
    check_count out 'goes on as [01] of 2 on shm$' 2 "$1"
}

for options in "--mount-proc" "--user --map-root-user --mount-proc"; do
    runs=$((runs + 1))
    for rank in 0 1 2; do
        start_rank $rank $options -- "$contained" killed 2
    done
    kill_when_ready
    end_ranks
    check_survived "rank 2 is killed ($options)"
done

# ... and before it has handed over any memory: the other ranks have its pidfd.
for options in "--mount-proc" "--user --map-root-user --mount-proc"; do
    runs=$((runs + 1))
    for rank in 0 1 2; do
        start_rank $rank $options -- "$contained" early 2
    done
    kill_when_ready
    end_ranks
    check_count out '^\[[01]\] failed: init: .*rank 2 \(process [0-9]+ of another PID namespace\) has died.*\(PEER_DEAD\)' 2 \
        "rank 2 is killed while the group is made ($options)"
done

run_ranks --mount-proc -- "$contained" depart 2
check_status 0 "rank 2 leaves"
check_count out '^\[[01]\] rank [01] got PEER_LEFT of rank 2: ' 2 "rank 2 leaves"
check_count out 'goes on as [01] of 2 on shm$' 2 "rank 2 leaves"

# Each container has a limit of its own: 80 MiB of 128, which would not be enough for two.
memory=/sys/fs/cgroup/memory
limit=memory.limit_in_bytes
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    memory=/sys/fs/cgroup
    limit=memory.max
fi
own_group="$memory/$TUTTI_TEST_ID"
make_groups() {
    for rank in 0 1 2; do
        mkdir "$own_group-$rank" && echo 134217728 >"$own_group-$rank/$limit" || return 1
    done
}
if make_groups 2>/dev/null; then
    limited="echo \$\$ >$own_group-\$RANK/cgroup.procs; mount --bind $own_group-\$RANK $memory
        exec unshare --cgroup \"\$@\""
    run_ranks --mount-proc -- sh -c "$limited" sh "$contained" fill
    check_status 0 "limits of memory"
else
    echo "not tried: limits of memory, since this process may not make control groups"
fi
rmdir "$own_group"-[012] 2>/dev/null

# Another user: the kernel does not hand memory over.
runs=$((runs + 1))
for rank in 0 1; do
    start_rank $rank --mount-proc -- env TUTTI_BACKEND=shm "$contained" work
done
chmod 755 "$work"
start_rank 2 --mount-proc --setuid 1234 --setgid 1234 -- env TUTTI_BACKEND=shm "$contained" work
end_ranks
check_count out 'shm needs all ranks on one host, .*rank 2 is on the machine of rank 0, but runs as user 1234, and rank 0 as user 0' 3 \
    "another user"

# Networks of their own: scripts/hosts makes them, with a link between.
in_networks='export RANK=${TUTTI_HOST_ID#host} WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1
    export MASTER_PORT=29500; unset TUTTI_HOST_ID; exec "$@"'
reason='rank 1 is on the machine of rank 0, but in another network namespace: '

run_hosts --hosts 3 --launcher plain -- env TUTTI_BACKEND=shm sh -c "$in_networks" sh "$contained" work
check_status 1 "shm by name in three networks"
check_count out "failed: init: .*backend shm needs all ranks on one host, .*$reason" 3 "shm by name in three networks"

if [ $gloo = yes ]; then
    run_hosts --hosts 3 --launcher plain -- sh -c "$in_networks" sh "$contained" work
    check_status 0 "three networks"
    check_count out 'works on gloo$' 3 "three networks"
    check_line out "^\[host0\]   shared memory \(shm\) was not taken: $reason" "three networks"
fi

# `tutti info` reports it, too: for itself, and for the job.
if [ $gloo = yes ]; then
    run_hosts --hosts 3 --launcher plain -- sh -c "$in_networks" sh "$build/tutti" info --group
    check_status 0 "info --group"
    check_count out '^\[host[0-2]\] group of 3 ranks on backend gloo: ' 3 "info --group"
    check_count out "^\[host[0-2]\]   shared memory \(shm\) was not taken: $reason" 3 "info --group"
fi
run_ranks --mount-proc -- "$build/tutti" info --group
check_count out '^\[[0-2]\] group of 3 ranks on backend shm: ' 3 "info --group in one network"
run_ranks --mount-proc -- "$build/tutti" info
checks=$((checks + 1))
[ "$(sed -n 's/^\[[0-2]\] *host  *\(boot .*\)/\1/p' "$work/out" | sort | uniq -c | awk '{print $1}')" = 3 ] ||
    fail "info: containers of one host do not have the same marks"

# ... but with a common directory, in which sockets can lie.
run_hosts --hosts 3 --launcher plain -- env TUTTI_SHM_DIRECTORY="$work/common" sh -c "$in_networks" sh "$contained" work
check_status 0 "a directory in common"
check_count out 'works on shm$' 3 "a directory in common"

run_hosts --hosts 3 --launcher plain --kill 2@0 --since ready -- env TUTTI_SHM_DIRECTORY="$work/common" \
    sh -c "$in_networks" sh "$contained" killed 2
check_count out '^\[host[01]\] rank [01] got PEER_DEAD of rank 2: ' 2 "a directory in common, rank 2 is killed"
check_count out 'goes on as [01] of 2 on shm$' 2 "a directory in common, rank 2 is killed"

run_hosts --hosts 3 --launcher plain -- env TUTTI_SHM_DIRECTORY="$work/common" sh -c "$in_networks" sh \
    "$build/tutti" check --backend shm --quick --filter /types/f32
check_status 0 "a directory in common, the conformance suite"
check_line out '^\[host0\] [1-9][0-9]* passed, 0 failed, [0-9]+ skipped$' "a directory in common, the conformance suite"

# A token has room for a short path only.
run_hosts --hosts 3 --launcher plain -- env TUTTI_SHM_DIRECTORY="$short" sh -c "$in_networks" sh "$contained" grow
check_status 0 "a short directory, a group grows"
check_count out 'has grown to 3 on shm$' 3 "a short directory, a group grows"
run_hosts --hosts 3 --launcher plain -- env TUTTI_SHM_DIRECTORY="$work/common" sh -c "$in_networks" sh "$contained" grow
check_line out '^\[host0\] failed: token: .*shorter path for shm.directory \(UNSUPPORTED\)' "a long directory, a token"

checks=$((checks + 1))
[ -z "$(ls -A "$work/common" "$short" | grep tutti)" ] || fail "sockets are left: $(ls "$work/common")"

finish

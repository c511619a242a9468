#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: seconds=60 timeout=300 trees=release,debug
# Jobs on several hosts: every rank is there once, on its host, and finds all others. Hosts may have different numbers
# of ranks, and ranks may be dealt out round-robin.
. "$(dirname "$0")/common.inc"

run_hosts --hosts 2 --ranks 2 --rate 1gbit --count-bytes -- "$hello" world
check_status 0 "2 hosts x 2 ranks"
for rank in 0 1; do
    check_line out "^\[host0\] \[$rank\] hello $rank 4 $rank 2 host0\$" "2 hosts x 2 ranks"
    check_line out "^\[host1\] \[$((rank + 2))\] hello $((rank + 2)) 4 $rank 2 host1\$" "2 hosts x 2 ranks"
done
check_line out '^host1: eth0 sent [1-9][0-9]{2,} bytes, received [1-9][0-9]{2,}$' "the hosts have used their links"

run_hosts --hosts 3 --ranks 3,1,2 -- "$hello" world
check_status 0 "uneven hosts"
check_count out ' hello [0-5] 6 ' 6 "uneven hosts"
check_line out '\[host0\] \[2\] hello 2 6 2 3 host0$' "uneven hosts"
check_line out '\[host1\] \[3\] hello 3 6 0 1 host1$' "uneven hosts"
check_line out '\[host2\] \[5\] hello 5 6 1 2 host2$' "uneven hosts"

run_hosts --hosts 2 --ranks 2 --interleave -- "$hello" world
check_status 0 "interleaved ranks"
check_line out '\[host0\] \[2\] hello 2 4 0 1 host0$' "interleaved ranks"
check_line out '\[host1\] \[3\] hello 3 4 0 1 host1$' "interleaved ranks"

# torchrun's and Slurm's variables: rank 0 serves the store, at a port that the other ranks find.
run_hosts --hosts 2 --launcher plain -- sh -c 'export RANK=${TUTTI_HOST_ID#host} WORLD_SIZE=2 LOCAL_RANK=0
    export LOCAL_WORLD_SIZE=1 MASTER_ADDR=host0 MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE=True
    exec "$0" world' "$hello"
check_status 0 "torchrun on two hosts"
check_line out '^\[host1\] hello 1 2 0 1 host1$' "torchrun on two hosts"

run_hosts --hosts 2 --launcher plain -- sh -c 'export SLURM_PROCID=${TUTTI_HOST_ID#host} SLURM_NTASKS=2 SLURM_LOCALID=0
    export SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=host[0-1]
    export SLURM_NODEID=$SLURM_PROCID
    exec "$0" world' "$hello"
check_status 0 "Slurm on two hosts"
check_line out '^\[host1\] hello 1 2 0 -1 host1$' "Slurm on two hosts"

# Open MPI's launcher gives no rank the address of rank 0, but its PMIx server does. Leaks of Open MPI itself are not
# Tutti's, and the thread sanitizer does not understand its locks.
if [ "$(basename "$build")" != tsan ] && [ -r "$build/lib/tutti/plugins/tutti-pmix.so" ] && command -v mpirun.openmpi >/dev/null; then
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 TUTTI_PLUGIN_PATH=$build/lib/tutti/plugins \
        run_hosts --hosts 2 --ranks 1,2 --launcher openmpi -- sh -c 'unset TUTTI_STORE; exec "$0" init' "$hello"
    check_status 0 "PMIx on two hosts"
    check_count out 'joined [0-2] 3$' 3 "PMIx on two hosts"
fi

# A backend that cannot span hosts returns an error on every rank. One rank that does not fit makes all ranks fail, and
# they name it.
run_hosts --hosts 2 --ranks 2 --run-option=--backend --run-option=shm -- "$hello" init
check_status 1 "shm on two hosts"
check_line out 'failed: backend shm needs all ranks on one host' "shm on two hosts"

run_hosts --hosts 2 --ranks 2 -- sh -c '[ $TUTTI_RANK != 1 ] || export TUTTI_LANES=2
    "$0" init; exit 0' "$hello"
check_status 0 "one rank that does not fit"
check_count out 'failed: rank 1 expects 4 ranks and 2 lanes, but rank [023] expects 4 ranks and 1 lanes' 3 \
    "all others name the rank that does not fit"
check_line out '\[1\] failed: rank 0 expects 4 ranks and 1 lanes, but rank 1' "this rank gets the error, too"

# A host that does not join: every rank gets an error at its deadline, which names the missing rank.
TUTTI_TIMEOUT_MS=30000 TUTTI_BACKEND=hier run_hosts --hosts 2 --launcher plain -- "$here/ranks_of" AABBC "$hello" init
check_status 1 "a host is missing"
check_count out 'failed: init of 5 ranks waited [0-9]+ ms; missing: rank 4( |$)' 4 "all others name the rank of the missing host"

finish

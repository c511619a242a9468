#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The environment of each rank, and which variables of outer launchers are removed.
. "$(dirname "$0")/common.inc"

value() { # RANK NAME
    sed -n "s/^\[$1\] $2=//p" "$work/out"
}

run_tutti run -n 2 --backend shm --env ONE=1 --env ONE=2 --env MASTER_ADDR=localhost env
check_status 0 "env"
for r in 0 1; do
    check_equal "$(value $r TUTTI_RANK) $(value $r TUTTI_WORLD_SIZE)" "$r 2" "Tutti's names"
    check_equal "$(value $r TUTTI_LOCAL_RANK) $(value $r TUTTI_LOCAL_WORLD_SIZE)" "$r 2" "Tutti's local names"
    check_equal "$(value $r RANK) $(value $r WORLD_SIZE)" "$r 2" "torch's names"
    check_equal "$(value $r LOCAL_RANK) $(value $r LOCAL_WORLD_SIZE)" "$r 2" "torch's local names"
    check_equal "$(value $r TUTTI_BACKEND)" shm "--backend"
    check_equal "$(value $r ONE)" 2 "--env: the last one counts"
    check_equal "$(value $r MASTER_ADDR)" localhost "--env overrides"
    check_equal "$(value $r TUTTI_RESTART_COUNT)" 0 "restart count"
done
check_line out '^\[0\] TUTTI_STORE=unix:run-[0-9]+-[0-9a-f]{16}$' "store"
check_equal "$(value 0 TUTTI_STORE)" "$(value 1 TUTTI_STORE)" "the ranks share a store"
check_equal "$(value 0 MASTER_PORT)" "$(value 1 MASTER_PORT)" "the ranks share a port"
checks=$((checks + 1))
[ "$(value 0 MASTER_PORT)" -gt 1023 ] || fail "MASTER_PORT is not a free port"

# A store in the launcher's own environment would be ignored.
TUTTI_STORE=tcp://host:1 run_tutti run -n 1 true
check_status 2 "TUTTI_STORE"
check_line err 'TUTTI_STORE is tcp://host:1' "TUTTI_STORE"
TUTTI_STORE=tcp://host:1 run_tutti run -n 1 --env TUTTI_STORE=memory:own sh -c 'echo $TUTTI_STORE'
check_line out memory:own "--env TUTTI_STORE"
run_tutti run -n 1 "$tutti" run -n 1 true
check_status 0 "a job in a rank"

# Two jobs at the same time have different stores and ports. Each lasts until the other one has begun.
show='echo $TUTTI_STORE $MASTER_PORT; until [ -s "$0" ]; do sleep 0.05; done'
"$tutti" run -n 1 sh -c "$show" "$work/two" >"$work/one" </dev/null &
"$tutti" run -n 1 sh -c "$show" "$work/one" >"$work/two" </dev/null
wait
checks=$((checks + 2))
[ "$(cut -d' ' -f1 "$work/one")" != "$(cut -d' ' -f1 "$work/two")" ] || fail "two jobs share a store"
[ "$(cut -d' ' -f2 "$work/one")" != "$(cut -d' ' -f2 "$work/two")" ] || fail "two jobs share a port"

# A rank can listen on MASTER_PORT although the launcher keeps it reserved.
if command -v python3 >/dev/null; then
    run_tutti run -n 1 python3 -c 'import os, socketserver
socketserver.TCPServer.allow_reuse_address = True
server = socketserver.TCPServer(("", int(os.environ["MASTER_PORT"])), None)
print("listening")'
    check_line out listening "listening on MASTER_PORT"
fi

# Threads: cores / ranks, unless the user has set the variable.
run_tutti run -n 64 --only-rank 63 sh -c 'echo $OMP_NUM_THREADS'
check_equal "$(cat "$work/out")" 1 "at least one thread"
OMP_NUM_THREADS=7 run_tutti run -n 2 --only-rank 1 sh -c 'echo $OMP_NUM_THREADS'
check_equal "$(cat "$work/out")" 7 "the user's number of threads"

# In a shell of sbatch, which is no rank, a tool starts its own ranks.
SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=7 run_tutti bench barrier -n 2 -i 1
check_count out ': 2 ranks on ' 1 "ranks of its own"

# Outer launchers: identities that would be false are removed, settings and true identities stay.
export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_MCA_btl=self PMI_RANK=2 PMI_SIZE=4 PMI_FD=9
export SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=77 WORLD_RANK=5 TORCHELASTIC_USE_AGENT_STORE=True TUTTI_ISA=base
run_tutti run -n 2 env
check_no_line out '(OMPI_COMM_WORLD|PMI_|SLURM_PROCID|SLURM_NTASKS|WORLD_RANK|TORCHELASTIC)' "false identities"
check_count out '(OMPI_MCA_btl=self|SLURM_JOB_ID=77|TUTTI_ISA=base)' 6 "settings"
export OMPI_COMM_WORLD_SIZE=1 PMI_RANK=0 PMI_SIZE=1
run_tutti run -n 1 env
check_count out '^(OMPI_COMM_WORLD_RANK=0|OMPI_COMM_WORLD_SIZE=1|PMI_FD=9)$' 3 "true identities"
check_no_line out 'SLURM_PROCID' "another family is judged by itself"
unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE PMI_FD SLURM_PROCID SLURM_NTASKS WORLD_RANK

# The launcher's own handling of signals is not inherited.
run_tutti run -n 1 grep -E '^Sig(Blk|Ign)' /proc/self/status
check_line out '^SigBlk:[[:space:]]0000000000000000$' "no signal is blocked"
# make starts its children with libc's own signals 32 and 33 ignored, and no program can change that
check_line out '^SigIgn:[[:space:]]0000000[01][08]0000000$' "no signal is ignored"

finish

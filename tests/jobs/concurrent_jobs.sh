#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two jobs start at the same time, and each adds a number of its own. Neither sees the other's number, with each
# launcher: tutti run, mpirun, mpiexec of hydra, torchrun's variables, Slurm's. Launchers that are not installed are left out.
#
# tutti-test: timeout=240
. "$(dirname "$0")/common.inc"

ranks=3
rounds=200

# both FAMILY COMMAND...: runs `COMMAND... NUMBER` twice at once.
both() {
    local family=$1 number pids=() code
    shift
    for number in 17 40000; do
        "$@" $number >"$work/$number.out" 2>"$work/$number.err" </dev/null &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        code=0
        wait "$pid" || code=$?
        check_equal $code 0 "$family: exit code"
    done
    for number in 17 40000; do
        check_equal "$(sort "$work/$number.out")" "$(for ((i = 0; i < ranks; i++)); do
            echo "$number $i $ranks shm"
        done)" "$family: the job that adds $number"
    done
    check_nothing_left "$family"
}

# by_hand FUNCTION NUMBER: starts every rank as `FUNCTION NUMBER RANK`.
by_hand() {
    local function=$1 pids=() code=0
    for ((i = 0; i < ranks; i++)); do
        ($function "$2" $i) &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || code=$?
    done
    return $code
}

torchrun_rank() {
    export RANK=$2 WORLD_SIZE=$ranks LOCAL_RANK=$2 LOCAL_WORLD_SIZE=$ranks GROUP_RANK=0
    export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((29400 + $1 % 100)) TORCHELASTIC_RUN_ID=$TUTTI_TEST_ID
    export TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_USE_AGENT_STORE=True
    exec "$sum_job" "$1" $rounds
}

slurm_rank() {
    export SLURM_PROCID=$2 SLURM_NTASKS=$ranks SLURM_LOCALID=$2 SLURM_NNODES=1 SLURM_JOB_ID=$$ SLURM_STEP_ID=$1
    exec "$sum_job" "$1" $rounds
}

tutti_run() {
    "$tutti" run -n $ranks --no-prefix -- "$sum_job" "$1" $rounds
}

open_mpi() {
    # two mpirun that start together race for their session directory: each gets its own (Unix socket paths are short)
    local session
    session=$(mktemp -d /tmp/s.XXXXXX)
    "$mpirun" --allow-run-as-root --oversubscribe --mca orte_tmpdir_base "$session" -n $ranks "$sum_job" "$1" $rounds
    local code=$?
    rm -rf "$session"
    return $code
}

hydra() {
    "$hydra" -n $ranks "$sum_job" "$1" $rounds
}

# A shell between the proxy and the rank: the parent does not name the job.
hydra_with_shell() {
    "$hydra" -n $ranks sh -c "\"$sum_job\" $1 $rounds; exit \$?"
}

for _ in 1 2 3; do
    both "tutti run" tutti_run
    both torchrun by_hand torchrun_rank
    both slurm by_hand slurm_rank
done

mpirun=$(command -v mpirun.openmpi || command -v mpirun || true)
if [ -n "$mpirun" ] && "$mpirun" --allow-run-as-root --version 2>&1 | grep -qE 'Open MPI|OpenRTE|PRRTE'; then
    both openmpi open_mpi
else
    echo "openmpi: not installed"
fi
hydra=$(command -v mpiexec.mpich || command -v mpiexec.hydra || true)
if [ -n "$hydra" ]; then
    both hydra hydra
    both "hydra with a shell" hydra_with_shell
else
    echo "hydra: not installed"
fi

# Different launchers at once.
by_hand torchrun_rank 3 >"$work/3.out" 2>"$work/3.err" </dev/null &
first=$!
by_hand slurm_rank 5 >"$work/5.out" 2>"$work/5.err" </dev/null &
second=$!
tutti_run 7 >"$work/7.out" 2>"$work/7.err" </dev/null
check_equal $? 0 "three launchers: tutti run"
wait $first
check_equal $? 0 "three launchers: torchrun"
wait $second
check_equal $? 0 "three launchers: slurm"

finish

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two jobs start at the same time, with each launcher. The ranks of each job find one another, and never a rank of the
# other job. Launchers that are not installed are left out. If none is installed, the test runs with torchrun's and
# Slurm's variables, set by hand, and then counts as skipped.
#
# tutti-test: timeout=180
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${TUTTI_BUILD:-$here/../../build}
program=$build/tests/launchers/print_world
if [ ! -x "$program" ]; then
    echo "skipped: $program is not built"
    exit 77
fi

# Variables of an outer launcher would change what the tests see.
for name in $(compgen -e); do
    case $name in
    TUTTI_BUILD | TUTTI_SOURCE | TUTTI_LIBRARY) ;;
    TUTTI_* | RANK | WORLD_* | LOCAL_* | MASTER_* | TORCHELASTIC_*) unset "$name" ;;
    OMPI_* | PMI* | MPI_LOCAL* | SLURM_*) unset "$name" ;;
    esac
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ranks=3
failures=0
launchers=0

fail()
{
    failures=$((failures + 1))
    echo "FAILED: $*"
    sed 's/^/    | /' "$work"/*.out "$work"/*.err 2>/dev/null | head -30
}

# check FAMILY: both jobs are complete, and have no rank of each other.
check()
{
    local family=$1 job urls=()
    for job in one two; do
        if [ "$(sort "$work/$job.out" | cut -d' ' -f1-4)" != "$(for ((i = 0; i < ranks; i++)); do
            echo "$job $family $i $ranks"
        done)" ]; then
            fail "$family: job $job is not made of $ranks ranks"
            return
        fi
        if [ "$(cut -d' ' -f5 "$work/$job.out" | sort -u | wc -l)" != 1 ]; then
            fail "$family: the ranks of job $job would use different stores"
            return
        fi
        urls+=("$(head -n 1 "$work/$job.out" | cut -d' ' -f5)")
    done
    if [ "${urls[0]}" = "${urls[1]}" ]; then
        fail "$family: both jobs would use ${urls[0]}"
        return
    fi
    echo "$family: ${urls[0]} and ${urls[1]}"
}

# both FAMILY START...: runs `START... JOB` for the jobs one and two at once; START appends the program.
both()
{
    local family=$1 first second code=0
    shift
    "$@" one >"$work/one.out" 2>"$work/one.err" </dev/null &
    first=$!
    "$@" two >"$work/two.out" 2>"$work/two.err" </dev/null &
    second=$!
    wait $first || code=$?
    wait $second || code=$?
    if [ $code != 0 ]; then
        fail "$family: exit code $code ($*)"
    else
        check "$family"
    fi
}

# by_hand FUNCTION JOB: starts every rank as `FUNCTION JOB RANK`.
by_hand()
{
    local function=$1 job=$2 pids=() code=0
    for ((i = 0; i < ranks; i++)); do
        ($function "$job" $i) &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || code=$?
    done
    return $code
}

torchrun_rank()
{
    export RANK=$2 WORLD_SIZE=$ranks LOCAL_RANK=$2 LOCAL_WORLD_SIZE=$ranks GROUP_RANK=0
    export MASTER_ADDR=127.0.0.1 TORCHELASTIC_RUN_ID=test-$$ TORCHELASTIC_RESTART_COUNT=0
    export TORCHELASTIC_USE_AGENT_STORE=True
    [ "$1" = one ] && export MASTER_PORT=29500 || export MASTER_PORT=29501
    exec "$program" "$1"
}

slurm_rank()
{
    export SLURM_PROCID=$2 SLURM_NTASKS=$ranks SLURM_LOCALID=$2 SLURM_NNODES=1 SLURM_JOB_ID=$$
    [ "$1" = one ] && export SLURM_STEP_ID=0 || export SLURM_STEP_ID=1
    exec "$program" "$1"
}

open_mpi()
{
    # two mpirun that start together race for their session directory: each gets its own (Unix socket paths are short)
    local session
    session=$(mktemp -d /tmp/s.XXXXXX)
    "$mpirun" --allow-run-as-root --oversubscribe --mca orte_tmpdir_base "$session" -n $ranks "$program" "$1"
    local code=$?
    rm -rf "$session"
    return $code
}

hydra()
{
    "$hydra" -n $ranks "$program" "$1"
}

# A shell between the proxy and the rank: the parent does not name the job.
hydra_with_shell()
{
    "$hydra" -n $ranks sh -c "\"$program\" $1; exit \$?"
}

tutti_run()
{
    "$build/tutti" run -n $ranks --no-prefix -- "$program" "$1"
}

both torchrun by_hand torchrun_rank
both slurm by_hand slurm_rank

mpirun=$(command -v mpirun.openmpi || command -v mpirun || true)
if [ -n "$mpirun" ] && "$mpirun" --allow-run-as-root --version 2>&1 | grep -qE 'Open MPI|OpenRTE|PRRTE'; then
    launchers=$((launchers + 1))
    both openmpi open_mpi
else
    echo "openmpi: not installed"
fi

hydra=$(command -v mpiexec.hydra || command -v mpiexec.mpich || true)
if [ -n "$hydra" ]; then
    launchers=$((launchers + 1))
    both hydra hydra
    both hydra hydra_with_shell
else
    echo "hydra: not installed"
fi

if [ -x "$build/tutti" ]; then
    both tutti tutti_run
fi

[ $failures = 0 ] || exit 1
if [ $launchers = 0 ]; then
    echo "skipped: neither mpirun of Open MPI nor mpiexec.hydra is installed"
    exit 77
fi

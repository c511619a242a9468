#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: trees=release timeout=300
#
# Proves that scripts/check_ledger.py can fail: a small ledger with one good row and one row for each kind of error must
# give exactly the expected messages.
#
# The backquotes are those of the ledger:
# shellcheck disable=SC2016
set -eu

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cat >"$scratch/ledger.md" <<'END'
| column | meaning |
|---|---|
| State | this is no row of the ledger |

| Spec | What the spec names | Tutti | Test | State | Backends |
|---|---|---|---|---|---|
| Spec 0 | good | `tutti_status_name`, `TUTTI_TIMEOUT`, `tutti_error.rank` | `api.ledger_errors` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | planned | `tutti_frobnicate` | | open | |
| Spec 0 | bogus-function | `tutti_status_name`, `tutti_frobnicate` | `api.ledger_errors` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | bogus-setting | `tutti_status_name`, `no.such.key` | `api.ledger_errors` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | bogus-variable | `tutti_status_name`, `FROBNICATE_RANK` | `api.ledger_errors` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | bogus-test | `tutti_status_name` | `api.ledger_errors`, `api.no_such_test` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | cannot-fail | `tutti_probe` | `api.ledger_errors` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | skipped | `tutti_status_name` | `api.ledger_errors`, `api.ledger_p2p` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | failing | `tutti_status_name` | `api.ledger_errors`, `api.ledger_groups` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | did-not-run | `tutti_status_name` | `api.ledger_errors`, `api.ledger_config` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | bogus-mpi-function | `tutti_status_name`, `MPI_Frobnicate` | `api.ledger_errors` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | bogus-nccl-function | `tutti_status_name`, `ncclFrobnicate` | `api.ledger_errors` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | no-mpi-test | `MPI_Bcast` | `api.ledger_errors` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | no-test | `tutti_status_name` | | done | |
| Spec 0 | no-function | `TUTTI_TIMEOUT` | `api.ledger_errors` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | odd-state | `tutti_status_name` | `api.ledger_errors` | perhaps | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | says-no-backend | `tutti_status_name` | `api.ledger_errors` | done | |
| Spec 0 | too-many-backends | `tutti_status_name` | `api.ledger_errors` | done | local shm hier gloo mpi nccl rccl fault null |
| Spec 0 | too-few-backends | `tutti_status_name` | `api.ledger_errors` | done | local |
| Spec 0 | fails-on-gloo | `tutti_queue_create` | `api.ledger_queue` | done | local shm hier gloo mpi nccl rccl fault |
| Spec 0 | local-alone | `tutti_all_reduce` | `api.ledger_devices` | done | local |
| Spec 0 | good-python | `tutti_queue_create` | `python.one_rank` | done | |
| Spec 0 | python-cannot-fail | `tutti_group_token` | `python.one_rank` | done | |
| Spec 0 | cannot-fail-in-jobs | `tutti_null_recorded` | `api.ledger_devices`, `api.ledger_queue` | done | local shm hier gloo mpi nccl rccl fault |

A good test is `torch.test_calls.test_futures`, a bogus one `torch.test_calls.test_frobnicate`.
END
# result NAME STATUS BACKEND: a test, and what it has printed
result() {
    case $2 in
    skipped) inside='<skipped message="SKIP_RETURN_CODE=77"/>' ;;
    fail) inside='<failure message=""/>' ;;
    *) inside= ;;
    esac
    echo "<testcase name=\"$1\" status=\"$2\">$inside<system-out>on backend $3</system-out></testcase>"
}
{
    echo '<?xml version="1.0" encoding="UTF-8"?><testsuite name="selftest">'
    result api.ledger_errors run local
    result api.ledger_p2p skipped local
    result api.ledger_groups fail local
    result api.ledger_queue run local
    result api.ledger_devices run local
    result python.one_rank run ''
    for backend in shm hier gloo mpi nccl rccl fault; do
        result api.ledger_errors.$backend run $backend
        result api.ledger_p2p.$backend run $backend
        result api.ledger_groups.$backend run $backend
        if [ $backend = gloo ]; then
            result api.ledger_queue.$backend fail $backend
        else
            result api.ledger_queue.$backend run $backend
        fi
    done
    echo '</testsuite>'
} >"$scratch/results.xml"

if "$TUTTI_SOURCE/scripts/check_ledger.py" --build "$TUTTI_BUILD" --all --requirements "$scratch/ledger.md" \
    --junit "$scratch/results.xml" >"$scratch/output"; then
    echo "FAILED: a ledger full of untruths was accepted"
    cat "$scratch/output"
    exit 1
fi

failed=0
expect() {
    if ! grep -q "$1" "$scratch/output"; then
        echo "FAILED: no line matches: $1"
        failed=1
    fi
}
expect 'Spec 0, bogus-function: `tutti_frobnicate` is not in the public headers$'
expect 'Spec 0, bogus-setting: `no.such.key` is not a setting'
expect 'Spec 0, bogus-variable: `FROBNICATE_RANK` is neither'
expect 'Spec 0, bogus-test: `api.no_such_test` is not a test of this build$'
expect 'Spec 0, cannot-fail: no test of this row fails when `tutti_probe` only returns OK;'
expect 'Spec 0, skipped: `api.ledger_p2p` skipped$'
expect 'Spec 0, failing: `api.ledger_groups` failed$'
expect 'Spec 0, did-not-run: `api.ledger_config` did not run$'
expect 'Spec 0, bogus-mpi-function: `MPI_Frobnicate` is not called by every plug-in'
expect 'Spec 0, bogus-nccl-function: `ncclFrobnicate` is not in the table'
expect 'Spec 0, no-mpi-test: .*it names no script.mpi.ledger_\* test$'
expect 'Spec 0, no-test: it names no api test$'
expect 'Spec 0, no-function: it names no function$'
expect 'Spec 0, odd-state: its state is "perhaps"'
expect 'Spec 0, says-no-backend: it claims to be proved on no backend, but its tests were on local shm hier gloo mpi nccl rccl fault$'
expect 'Spec 0, too-many-backends: it claims to be proved on .* null, but its tests were on local shm hier gloo mpi nccl rccl fault$'
expect 'Spec 0, too-few-backends: it claims to be proved on local, but its tests were on local shm hier'
expect 'Spec 0, fails-on-gloo: `api.ledger_queue.gloo` failed$'
expect 'Spec 0, local-alone: its operations between ranks are proved on local alone$'
expect 'Spec 0, cannot-fail-in-jobs: .*on shm .* no test of this row fails when `tutti_null_recorded` only returns OK'
expect 'Spec 0, python-cannot-fail: no test of this row fails when `tutti_group_token` only returns OK$'
expect ': `torch.test_calls.test_frobnicate` is not a test of tests/torch$'
expect '^ledger: 24 rows, 22 done, 1 open, 21 failed$'

if [ "$failed" -ne 0 ]; then
    cat "$scratch/output"
    exit 1
fi
echo "check_ledger.py finds every kind of untruth"

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: trees=release timeout=300
#
# Proves that scripts/check_ledger.py can fail: a small ledger with one good row and one row for each kind of untruth must
# give exactly the complaints that belong to them.
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

| Spec | What the spec names | Tutti | Test | State |
|---|---|---|---|---|
| Spec 0 | good | `tutti_status_name`, `TUTTI_TIMEOUT`, `tutti_error.rank` | `api.ledger_errors` | done |
| Spec 0 | planned | `tutti_frobnicate` | | open |
| Spec 0 | bogus-function | `tutti_status_name`, `tutti_frobnicate` | `api.ledger_errors` | done |
| Spec 0 | bogus-setting | `tutti_status_name`, `no.such.key` | `api.ledger_errors` | done |
| Spec 0 | bogus-variable | `tutti_status_name`, `FROBNICATE_RANK` | `api.ledger_errors` | done |
| Spec 0 | bogus-test | `tutti_status_name` | `api.ledger_errors`, `api.no_such_test` | done |
| Spec 0 | cannot-fail | `tutti_probe` | `api.ledger_errors` | done |
| Spec 0 | skipped | `tutti_status_name` | `api.ledger_errors`, `api.ledger_p2p` | done |
| Spec 0 | failing | `tutti_status_name` | `api.ledger_errors`, `api.ledger_groups` | done |
| Spec 0 | did-not-run | `tutti_status_name` | `api.ledger_errors`, `api.ledger_config` | done |
| Spec 0 | bogus-mpi-function | `tutti_status_name`, `MPI_Frobnicate` | `api.ledger_errors` | done |
| Spec 0 | bogus-nccl-function | `tutti_status_name`, `ncclFrobnicate` | `api.ledger_errors` | done |
| Spec 0 | no-mpi-test | `MPI_Bcast` | `api.ledger_errors` | done |
| Spec 0 | no-test | `tutti_status_name` | | done |
| Spec 0 | no-function | `TUTTI_TIMEOUT` | `api.ledger_errors` | done |
| Spec 0 | odd-state | `tutti_status_name` | `api.ledger_errors` | perhaps |
END
cat >"$scratch/results.xml" <<'END'
<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="selftest">
  <testcase name="api.ledger_errors" status="run"/>
  <testcase name="api.ledger_p2p" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
  <testcase name="api.ledger_groups" status="fail"><failure message=""/></testcase>
</testsuite>
END

if "$TUTTI_SOURCE/scripts/check_ledger.py" --build "$TUTTI_BUILD" --requirements "$scratch/ledger.md" \
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
expect 'Spec 0, cannot-fail: no test of this row fails when `tutti_probe` only returns OK$'
expect 'Spec 0, skipped: `api.ledger_p2p` skipped$'
expect 'Spec 0, failing: `api.ledger_groups` failed$'
expect 'Spec 0, did-not-run: `api.ledger_config` did not run$'
expect 'Spec 0, bogus-mpi-function: `MPI_Frobnicate` is not called by every plug-in'
expect 'Spec 0, bogus-nccl-function: `ncclFrobnicate` is not in the table'
expect 'Spec 0, no-mpi-test: .*it names no script.mpi.ledger_\* test$'
expect 'Spec 0, no-test: it names no api test$'
expect 'Spec 0, no-function: it names no function$'
expect 'Spec 0, odd-state: its state is "perhaps"'
expect '^ledger: 16 rows, 14 done, 1 open, 14 failed$'
if [ "$failed" -ne 0 ]; then
    cat "$scratch/output"
    exit 1
fi
echo "check_ledger.py finds every kind of untruth"

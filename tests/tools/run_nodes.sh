#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `tutti run --nnodes`: launchers that connect over the loopback interface. The test checks what they agree on, how they
# end together, and their errors when they do not fit. tests/hosts tests the same between hosts.
# tutti-test: seconds=90 timeout=300
# In a network namespace of its own, if the machine allows one, no other program takes a port.
if [ -z "${TUTTI_TEST_NETWORK:-}" ] && unshare --net ip link set lo up 2>/dev/null; then
    export TUTTI_TEST_NETWORK=own
    exec unshare --net sh -c 'ip link set lo up && exec "$0"' "$0"
fi
. "$(dirname "$0")/common.inc"
command -v python3 >/dev/null || exit 77

# A port that was free a moment ago.
free_port() {
    python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# node RANK NODES ARGS...: the launcher of one node in the background; its output in out.RANK, err.RANK, code.RANK.
node() {
    local rank=$1 nodes=$2
    shift 2
    {
        "$tutti" run --nnodes "$nodes" --node-rank "$rank" --master-addr 127.0.0.1 --master-port "$port" "$@" \
            >"$work/out.$rank" 2>"$work/err.$rank" </dev/null
        echo $? >"$work/code.$rank"
    } &
}

begin() {
    rm -f "$work"/out.* "$work"/err.* "$work"/code.*
    port=$(free_port)
}

check_codes() { # EXPECTED WHAT
    wait
    for file in "$work"/code.*; do
        checks=$((checks + 1))
        [ "$(cat "$file")" = "$1" ] || fail "$2: ${file##*/} is $(cat "$file"), not $1: $(cat "$work"/err.*)"
    done
}

# Uneven nodes, started in the wrong order: ranks are numbered node by node.
begin
show='echo "$TUTTI_RANK $TUTTI_WORLD_SIZE $TUTTI_LOCAL_RANK $TUTTI_LOCAL_WORLD_SIZE $TUTTI_NODE_RANK $TUTTI_NODES $RANK
$WORLD_SIZE $GROUP_RANK $TUTTI_STORE $MASTER_ADDR" | tr "\n" " "; echo; echo "port $MASTER_PORT"'
node 2 3 --nproc_per_node 2 sh -c "$show"
node 1 3 -n 1 sh -c "$show"
node 0 3 -n 3 sh -c "$show"
check_codes 0 "uneven nodes"
cat "$work"/out.* >"$work/out"
check_line out "^\[0\] 0 6 0 3 0 3 0 6 0 tcp://127.0.0.1:$port 127.0.0.1 \$" "rank 0"
check_line out "^\[3\] 3 6 0 1 1 3 3 6 1 tcp://127.0.0.1:$port 127.0.0.1 \$" "rank 3"
check_line out "^\[5\] 5 6 1 2 2 3 5 6 2 tcp://127.0.0.1:$port 127.0.0.1 \$" "rank 5"
check_equal "$(grep -o 'port .*' "$work/out" | sort -u | wc -l)" 1 "one MASTER_PORT for all"
check_no_line out "port $port\$" "torch's port is not the store's"
check_equal "$(cat "$work"/err.*)" "" "a good job is silent"

# A failure ends all nodes with its code, and all name it; ranks that had ended normally do not count.
begin
node 0 2 -n 2 sleep 100
node 1 2 -n 1 sh -c 'exit 7'
check_codes 7 "a rank fails"
check_count err.0 '^tutti run: rank 2 on node 1 \(.*\) exited with code 7 after [0-9.]+ s \(pid [0-9]+\)$' 1 "node 0 names it"
check_equal "$(cat "$work/err.1")" "$(cat "$work/err.0")" "both say the same"

begin
node 0 2 -n 1 true
node 1 2 -n 2 sh -c 'sleep 0.3; [ $TUTTI_RANK = 1 ] || kill -SEGV $$; sleep 100'
check_codes 139 "a rank dies after others have ended"
check_count err.0 'rank 2 on node 1 \(.*\) killed by SIGSEGV' 1 "node 0 names it"

begin
node 0 2 -n 1 --timeout 0.5 sleep 100
node 1 2 -n 1 sleep 100
check_codes 124 "--timeout of one node"
check_line err.1 'the job ran longer than the --timeout of node 0' "--timeout of one node"
check_line err.1 '^tutti run: the --timeout of another node has passed; on this one:$' "the other launchers report on their ranks, too"
check_line err.1 '^tutti run: no rank has begun to use Tutti$' "the other launchers report on their ranks, too"

begin
node 0 2 -n 1 "$build/tests/diag/ranks" killed
node 1 2 -n 2 "$build/tests/diag/ranks" killed
check_codes 137 "a rank of Tutti is killed"
check_line err.0 'rank 1 on node 1 \(.*\) killed by SIGKILL after .* \(pid [0-9]+\); last operation: ' "its last operation is named"

begin
node 0 2 -n 1 true
node 1 2 -n 1 there-is-no-such-program
check_codes 127 "a program that one node does not have"
check_line err.0 "node 1 \(.*\) cannot start its ranks: cannot find the program 'there-is-no-such-program'" "the node is named"

# SIGTERM to a launcher whose ranks have ended ends the others.
begin
node 0 2 -n 1 sleep 100
"$tutti" run --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port "$port" -v true >"$work/out.1" \
    2>"$work/err.1" </dev/null &
launcher=$!
wait_for_lines err.1 'ended after' 1
sleep 0.2 # whether it is waiting already or not, it ends the job
kill -TERM $launcher
wait $launcher
check_equal $? 143 "SIGTERM to one launcher"
check_codes 143 "SIGTERM to one launcher"

# Launchers that vanish.
begin
node 0 2 -n 1 --node-timeout 30 sleep 100
"$tutti" run --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port "$port" --node-timeout 30 sh -c 'echo here; sleep 100' \
    >"$work/out.1" 2>"$work/err.1" </dev/null &
launcher=$!
wait_for_lines out.1 here 1
kill -KILL $launcher
check_codes 125 "node 1 vanishes"
check_line err.0 'node 1 \(.*\) is lost: no message of it has arrived for 30\.0 s \(--node-timeout\)' "node 0 names node 1"

begin
node 1 2 -n 1 sh -c 'echo here; sleep 100'
"$tutti" run --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --master-port "$port" sleep 100 >"$work/out.0" \
    2>"$work/err.0" </dev/null &
launcher=$!
wait_for_lines out.1 here 1
kill -KILL $launcher
check_codes 125 "node 0 vanishes"
check_line err.1 'node 0 \(.*\) is lost: its launcher has ended' "node 1 names node 0"

# Launchers that do not fit.
begin
node 0 2 true
node 1 3 true
check_codes 125 "different --nnodes"
check_line err.0 'node 1 \(.*\) was given --nnodes 3, but node 0 \(.*\) --nnodes 2' "different --nnodes"
check_line err.1 'node 0 \(.*\) was given --nnodes 2, but node 1 \(.*\) --nnodes 3' "different --nnodes"

begin
node 0 3 true
"$tutti" run --nnodes 3 --node-rank 1 --master-addr 127.0.0.1 --master-port "$port" true >"$work/out.1" 2>"$work/err.1" &
"$tutti" run --nnodes 3 --node-rank 1 --master-addr 127.0.0.1 --master-port "$port" true >"$work/out.2" 2>"$work/err.2" &
check_codes 125 "the same --node-rank twice"
for file in err.0 err.1 err.2; do
    check_line $file 'node-rank 1 was given twice: to host .* \(process [0-9]+\) and to host .* \(process [0-9]+\)' "$file"
done

begin
node 0 3 --join-timeout 0.5 true
check_codes 125 "nodes that do not join"
check_line err.0 'of 3 nodes these have not joined: 1, 2; start' "nodes that do not join"

begin
node 1 2 --join-timeout 0.5 true
check_codes 125 "node 0 does not join"
check_line err.1 'node 1 \(.*\) has not reached the launcher of node 0 at 127\.0\.0\.1:.*Connection refused' \
    "node 0 does not join"

begin
node 0 2 sleep 100
"$tutti" run --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port "$port" sh -c 'echo here; sleep 100' \
    >"$work/out.1" 2>"$work/err.1" </dev/null &
launcher=$!
wait_for_lines out.1 here 1
run_tutti run --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --master-port "$port" true
check_status 125 "the port of another job"
check_line err 'cannot serve at 127\.0\.0\.1:.* the launcher with process number [0-9]+ on host .* does already' \
    "the port of another job"
kill -TERM $launcher
wait $launcher
check_codes 143 "the other job"

# A program that pretends to be a launcher: its messages are checked, and shown without control characters.
for what in lost answer code; do
    begin
    node 0 2 -n 1 --join-timeout 60 sleep 100
    python3 "$here/rogue_node.py" "$port" $what >"$work/rogue" 2>&1
    check_codes 125 "a rogue that says $what"
    check_no_line err.0 $'[\x01-\x08\x0b-\x1f]' "a rogue's control characters"
    case $what in
    lost) check_line err.0 'node 1 \(a host \?\[31m\?\?31m\) is lost: it sends messages that no launcher sends' "a rogue" ;;
    code) check_line err.0 'node 1 \(.*\) cannot start its ranks: no \? reason' "a rogue" ;;
    esac
done

run_tutti run --nnodes 2 --node-rank 0 --master-addr 192.0.2.1 --master-port "$port" true
check_status 125 "an address of another host"
check_line err 'cannot serve at 192\.0\.2\.1:.*--master-addr must be an address of this host' "an address of another host"

# A job with a token: launchers and ranks prove it; one that cannot gets an error.
token="a token for this test only $$"
if python3 -c 'import ctypes
try: ctypes.CDLL("libsodium.so.23")
except OSError: ctypes.CDLL("libsodium.so.26")' 2>/dev/null; then
    begin
    (umask 077 && echo "$token" >"$work/token")
    TUTTI_JOB_TOKEN=$token node 0 2 -n 1 "$tutti" check --quick --filter barrier
    TUTTI_JOB_TOKEN_FILE=$work/token node 1 2 -n 1 "$tutti" check --quick --filter barrier
    check_codes 0 "one token for all"
    check_line out.0 '^(\[0\] )?[1-9][0-9]* passed, 0 failed' "one token for all"

    begin
    TUTTI_JOB_TOKEN="another $token" node 1 3 true
    node 2 3 true
    TUTTI_JOB_TOKEN=$token node 0 3 --join-timeout 30 true
    check_codes 125 "other tokens"
    check_line err.1 'node 1 \(.*\) cannot join .* does not have the job token of this process \(TUTTI_JOB_TOKEN\)' "another token"
    check_line err.2 'node 2 \(.*\) cannot join .* this process has none: set TUTTI_JOB_TOKEN' "no token"
    check_line err.0 'these have not joined: 1, 2; .*; 2 connections without this job.s token were refused' "node 0 reports them"
    check_no_line err.1 'check --master-addr' "it is not the address"

    begin
    node 0 2 --join-timeout 300 sleep 100
    TUTTI_JOB_TOKEN_FILE=$work/token run_tutti run --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port "$port" true
    check_status 125 "node 0 without a token"
    check_line err 'is served without a token, so this process, which has one \(TUTTI_JOB_TOKEN_FILE\), does not trust it' \
        "node 0 without a token"
    run_tutti run --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port "$port" sh -c 'exit 3' # ends the job
    check_codes 3 "without tokens"
fi
TUTTI_JOB_TOKEN=$token TUTTI_SODIUM_LIBRARY=/nonexistent run_tutti run --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 \
    --master-port "$(free_port)" true
check_status 125 "a token without libsodium"
check_line err 'no libsodium: /nonexistent.*install it here \(Debian: libsodium23\)' "a token without libsodium"
TUTTI_JOB_TOKEN=short run_tutti run --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port "$(free_port)" true
check_status 125 "a short token"
check_line err 'the job token of TUTTI_JOB_TOKEN has too few bytes' "a short token"
for assignment in "TUTTI_JOB_TOKEN=$token" TUTTI_JOB_TOKEN_FILE=/x; do
    run_tutti run --env "$assignment" true
    check_status 2 "--env $assignment"
    check_line err "--env ${assignment%%=*}: a job's token does not belong on a command line" "--env $assignment"
    check_no_line err "$token" "it is not repeated"
done
TUTTI_JOB_TOKEN=$token run_tutti run --nnodes 2 --node-rank 1 --master-addr x -n 2 --dry-run true
check_no_line out "$token" "--dry-run"

# The command line.
run_tutti run --nnodes 2 true
check_status 2 "no --node-rank"
check_line err 'which node is this one\? Say --node-rank, from 0 to 1' "no --node-rank"
run_tutti run --nnodes 2 --node-rank 1 true
check_line err 'where is node 0\? Say --master-addr' "no --master-addr"
run_tutti run --nnodes 2 --node-rank 2 --master-addr x true
check_line err '--node-rank 2: with --nnodes 2 there are nodes 0 to 1' "--node-rank too large"
run_tutti run --nnodes 2 --node-rank 1 --master-addr x --max-restarts 1 true
check_line err '--max-restarts works on one node only' "--max-restarts"
run_tutti run --nnodes 1 --node-rank 0 --master-addr nowhere -n 1 sh -c 'echo $TUTTI_STORE'
check_line out '^unix:' "one node is none"
run_tutti run --nnodes 2 --node-rank 1 --master-addr ::1 --master-port 77 -n 2 --dry-run true
check_line out '^# rank 3 on CPUs' "--dry-run"
check_line out 'TUTTI_RANK=2 TUTTI_WORLD_SIZE=4 .*TUTTI_STORE=.?tcp://\[::1\]:77' "--dry-run"

finish

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `tutti info`: text and JSON, the world in the environment, the table of settings.
. "$(dirname "$0")/common.inc"
unset LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TUTTI_LOCAL_RANK TUTTI_LOCAL_WORLD_SIZE TUTTI_LANES

run_tutti info
check_status 0 "info"
version=$("$tutti" --version | cut -d' ' -f2)
check_line out "^Tutti $version\$" "version"
check_line out '^  kernels +(base|avx2|avx512)$' "instruction set"
check_line out '^  cpus available +[1-9][0-9]* \([0-9,-]+\)$' "CPUs"
check_line out '^  shm +80  (yes|no: .+)$' "shm"
check_line out '^  local +70  yes$' "local"
check_line out '^  null +-  yes$' "null"
check_line out '^  auto takes ' "auto"
check_line out '^  rank +0 of 1$' "a world of one"
check_no_line out 'TUTTI_LANES' "settings only with --config"

TUTTI_ISA=base run_tutti info
check_line out '^  kernels +base$' "TUTTI_ISA"

run_tutti info --config
check_status 0 "info --config"
check_line out '^  lanes = 1$' "a setting"
check_line out '^      TUTTI_LANES: .+ \(int from 1 to 16\)$' "its variable and bounds"
check_line out '^  engine\.stage = auto$' "a setting that the machine decides"
check_line out '^      TUTTI_ENGINE_STAGE: .+ \(auto or bytes from 262144 to 1073741824\)$' "a name instead of a number"
TUTTI_ENGINE_ONE_SHOT=64K run_tutti info --config
check_line out '^  engine\.one_shot = 65536 \(default auto\)$' "a size with a unit"
TUTTI_LANES=3 run_tutti info --config
check_line out '^  lanes = 3 \(default 1\)$' "a setting from the environment"
TUTTI_LANES=99 run_tutti info --config
check_status 0 "a bad setting is shown"
check_line out '^  error +TUTTI_LANES is "99"' "a bad setting is shown"

# Variables that no part of Tutti reads: a list here, in the group's description, and a line of the launcher.
backend='TUTTI_BACKND \(TUTTI_BACKEND\?\)'
export TUTTI_BACKND=shm
TUTTI_WINDOW=1M TUTTI_OWN_COLOR_OF_THE_APPLICATION=red run_tutti info
for words in "$backend" "TUTTI_WINDOW \(TUTTI_ENGINE_WINDOW\?\)" TUTTI_OWN_COLOR_OF_THE_APPLICATION; do
    check_line out "^  (.+, )?$words(, |\$)" "an unknown variable"
done
run_tutti info --json
check_line out "^  \"unknown_variables\": \"$backend\"" "an unknown variable as JSON"
run_tutti run -n 2 --only-rank 0 --env TUTTI_LANE=2 "$tutti" info --group
check_line out "^  unknown environment variables: .*$backend" "an unknown variable in a group's description"
line="^tutti run: unknown environment variables have no effect: $backend, TUTTI_LANE \(TUTTI_LANES\?\)\$"
check_count err "$line" 1 "unknown variables of a job"
unset TUTTI_BACKND

# Every variable that a source reads is known; those of CMake are none.
read='(getenv|setenv|environ(\.get|\.pop|\.setdefault)?) ?[[(]"TUTTI_[A-Z0-9_]+"|\$\{?TUTTI_[A-Z0-9_]+'
names=$(cd "$here/../.." && grep -rhoE "$read" src tools python scripts examples tests Makefile \
    --exclude=info.sh --exclude=CMakeLists.txt | grep -oE 'TUTTI_[A-Z0-9_]+' | sort -u)
check_equal "$([ "$(echo "$names" | wc -w)" -gt 40 ] && echo many)" many "variables that the sources read"
env $(for name in $names; do echo "$name="; done) TUTTI_BUILD="$build" "$tutti" info --json >"$work/out" 2>"$work/err"
check_line out '"unknown_variables": ""' "variables that the sources read"

# The world that a launcher describes, and a broken one.
run_tutti run -n 3 --only-rank 2 "$tutti" info
check_line out '^  launcher +tutti$' "inside tutti run"
check_line out '^  rank +2 of 3$' "inside tutti run"
check_line out '^  store +unix:run-' "inside tutti run"
TUTTI_RANK=1 run_tutti info
check_status 0 "half a world"
check_line out '^  error .*TUTTI_WORLD_SIZE' "half a world names the variable"

# The profile: built in, measured and kept, read again, overridden. How fast this machine is does not matter here, nor
# whether it was too busy to be measured: then nothing is kept, and the output says so.
export TUTTI_CACHE_DIR=$work/cache
TUTTI_ENGINE_CALIBRATE=off run_tutti info
check_status 0 "calibrate=off"
check_line out '^  source +built in$' "calibrate=off"
check_line out '^  file +none$' "calibrate=off"
check_line out '^ +8( +[0-9]+[KMG]?){7} +([0-9]+[KMG]?|never)$' "thresholds of 8 ranks"
check_equal "$(ls -A "$work/cache" 2>/dev/null)" "" "calibrate=off leaves no file"
TUTTI_ENGINE_CALIBRATE=off TUTTI_ENGINE_ONE_SHOT=3K TUTTI_ENGINE_STREAM_BYTES=5M run_tutti info
check_line out '^ +8 +[0-9]+ +3K .* 5M$' "settings go before the machine"
TUTTI_ENGINE_CALIBRATE=off TUTTI_ENGINE_PACKETS=0 run_tutti info
check_line out '^ +8 +100 ' "without packets there is the arrival line"
TUTTI_ENGINE_CALIBRATE=auto run_tutti info --calibrate
grep -q '^  note  *nothing could be measured' "$work/out" || check_status 0 "info --calibrate"
check_line out '^  source +(measured now|built in)$' "info --calibrate"
if ls "$work"/cache/machine-* >/dev/null 2>&1; then
    check_line out "^  file +$work/cache/machine-[0-9a-f]{16}\$" "info --calibrate"
    TUTTI_ENGINE_CALIBRATE=auto run_tutti info
    check_line out '^  source +from a file$' "the second time"
else
    check_line out '^  note +(not kept|nothing could be measured)' "a busy machine"
fi
kept=$(echo "$work"/cache/machine-*)
[ -f "$kept" ] && echo damaged >"$kept"
TUTTI_ENGINE_CALIBRATE=auto run_tutti info
check_line out '^  source +(measured now|built in)$' "a damaged file is as good as none"
TUTTI_ENGINE_CALIBRATE=auto TUTTI_CACHE_DIR=/dev/null/cache run_tutti info
check_status 0 "no place for a file"
check_line out '^  note +.' "no place for a file"
TUTTI_ENGINE_CALIBRATE=never run_tutti info
check_line out '^  error +TUTTI_ENGINE_CALIBRATE is "never"' "a bad word"
TUTTI_ENGINE_CALIBRATE=never run_tutti info --calibrate
check_status 1 "--calibrate with a bad setting"
check_line err '^tutti info: --calibrate: TUTTI_ENGINE_CALIBRATE is "never"' "--calibrate with a bad setting"
# With hardly any memory for it, or on busy CPUs, nothing is measured. A sanitizer's program does not start then.
if (ulimit -v 20000 && "$tutti" --version) >/dev/null 2>&1; then
    for words in "info --calibrate" "info --calibrate --json"; do
        (ulimit -v 20000; TUTTI_ENGINE_CALIBRATE=auto "$tutti" $words >"$work/out" 2>"$work/err" </dev/null)
        status=$?
        if grep -qE '^( *"source": "built in",|  source +built in)$' "$work/out"; then
            check_status 1 "no memory, $words"
            check_line err '^tutti info: --calibrate: nothing could be measured: ' "no memory, $words"
            check_no_line out '^ *("measured_s": [0-9]|measured )' "no memory, $words"
        else
            check_status 0 "hardly any memory, $words"
            check_line out '^ *("measured_s": [0-9]|measured )' "hardly any memory, $words"
        fi
    done
fi
export TUTTI_ENGINE_CALIBRATE=off

run_tutti info --what
check_status 2 "unknown option"
run_tutti info word
check_status 2 "unknown word"
check_line err "'word' is not an option" "unknown word"
for words in --json --config --calibrate; do
    run_tutti info --group $words
    check_status 2 "--group $words"
    check_line err "^tutti info: --group describes only the group, as text: leave out $words\$" "--group $words"
done

"$tutti" info >/dev/full 2>"$work/err"
status=$?
check_status 1 "a full disk"
check_line err '^tutti info: standard output cannot be written$' "a full disk"

# JSON, read by a parser that is not the one that wrote it.
TUTTI_LANES=3 run_tutti info --json --config
check_status 0 "info --json"
if command -v python3 >/dev/null; then
    checks=$((checks + 1))
    python3 - "$work/out" "$version" >"$work/err" 2>&1 <<'END' || fail "info --json"
import json, sys
info = json.load(open(sys.argv[1]))
assert info["version"] == sys.argv[2], info["version"]
backends = {b["name"]: b for b in info["backends"]}
for name, priority in (("shm", 80), ("local", 70)):
    entry = backends[name]
    assert set(entry) >= {"name", "available", "reason", "priority"}, entry
    assert entry["priority"] == priority, entry
    assert isinstance(entry["available"], bool) and entry["available"] == (entry["reason"] == ""), entry
assert info["auto"]["threads"] == "local", info["auto"]
if backends["shm"]["available"]:
    assert info["auto"]["processes"] == "shm", info["auto"]
devices = {d["type"]: d for d in info["devices"]}
assert list(devices) == ["cpu", "cuda", "rocm"], info["devices"]
for d in devices.values():
    assert d["available"] == (d["reason"] == "") == (d["count"] > 0) and len(d["names"]) == d["count"], d
assert devices["cpu"]["available"] and devices["cpu"]["count"] == 1, devices["cpu"]
assert info["cpu"]["isa"] in ("base", "avx2", "avx512") and info["cpu"]["available"] >= 1
assert info["world"]["size"] == 1 and info["world"]["launcher"] == "none"
assert info["system"]["page_size"] >= 4096 and isinstance(info["system"]["futex_waitv"]["works"], bool)
settings = {s["key"]: s for s in info["settings"]}
assert settings["lanes"]["value"] == "3" and settings["lanes"]["default"] == "1", settings["lanes"]
assert info["profile"]["source"] == "built in" and info["profile"]["file"] is None, info["profile"]
assert info["profile"]["wake_ns"] > 0 and info["profile"]["near_ns"] > 0, info["profile"]
assert [t["ranks"] for t in info["thresholds"]] == [2, 4, 8, 16, 32, 64], info["thresholds"]
assert all(100 <= t["packets"] <= 1892 for t in info["thresholds"]), info["thresholds"]
assert all(t["one_shot"] <= t["window"] <= t["stage"] for t in info["thresholds"]), info["thresholds"]
assert "heap" in backends["shm"]["capabilities"].split() and "cancel" in backends["shm"]["capabilities"].split()
assert settings["lanes"]["environment"] == "TUTTI_LANES" and settings["lanes"]["maximum"] == 16
END
fi
run_tutti info --json
check_no_line out '"settings"' "settings only with --config"

finish

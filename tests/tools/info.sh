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
TUTTI_LANES=3 run_tutti info --config
check_line out '^  lanes = 3 \(default 1\)$' "a setting from the environment"
TUTTI_LANES=99 run_tutti info --config
check_status 0 "a bad setting is shown"
check_line out '^  error +TUTTI_LANES is "99"' "a bad setting is shown"

# The world that a launcher describes, and a broken one.
run_tutti run -n 3 --only-rank 2 "$tutti" info
check_line out '^  launcher +tutti$' "inside tutti run"
check_line out '^  rank +2 of 3$' "inside tutti run"
check_line out '^  store +unix:run-' "inside tutti run"
TUTTI_RANK=1 run_tutti info
check_status 0 "half a world"
check_line out '^  error .*TUTTI_WORLD_SIZE' "half a world names the variable"

run_tutti info --what
check_status 2 "unknown option"
run_tutti info word
check_status 2 "unknown word"
check_line err "'word' is not an option" "unknown word"

"$tutti" info >/dev/full 2>"$work/err"
status=$?
check_status 1 "a full disk"
check_line err 'cannot write the output' "a full disk"

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
assert info["devices"] == [{"type": "cpu", "index": 0}]
assert info["cpu"]["isa"] in ("base", "avx2", "avx512") and info["cpu"]["available"] >= 1
assert info["world"]["size"] == 1 and info["world"]["launcher"] == "none"
assert info["system"]["page_size"] >= 4096 and isinstance(info["system"]["futex_waitv"]["works"], bool)
settings = {s["key"]: s for s in info["settings"]}
assert settings["lanes"]["value"] == "3" and settings["lanes"]["default"] == "1", settings["lanes"]
assert settings["lanes"]["environment"] == "TUTTI_LANES" and settings["lanes"]["maximum"] == 16
END
fi
run_tutti info --json
check_no_line out '"settings"' "settings only with --config"

finish

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `tutti bench kernels`: the table, the JSON, and what is refused. Speeds are looked at only as far as they have to be
# positive numbers.
# tutti-test: timeout=240 trees=release,debug
. "$(dirname "$0")/common.inc"
unset TUTTI_ISA

# The JSON: exactly these rows, in this order, with sizes in whole elements.
check_json() { # FILE SETS TYPES REDOP SOURCES SIZES WHAT: lists are separated by commas
    checks=$((checks + 1))
    python3 - "$@" >"$work/err" 2>&1 <<'END' || fail "$7"
import json, sys
name, sets, types, redop, sources, sizes = sys.argv[1:7]
data = json.load(open(name))
assert set(data) == {"config", "results"}, set(data)
config = data["config"]
assert set(config) == {"version", "cpu", "kernel", "isa"} and all(config.values()), config
assert config["isa"] in ("base", "avx2", "avx512"), config
sets = [config["isa"] if s == "best" else s for s in sets.split(",")]
expected = [(s, t, redop, n, size) for n in map(int, sources.split(",")) for s in sets for t in types.split(",")
            for size in map(int, sizes.split(","))]
got = [(r["isa"], r["type"], r["redop"], r["sources"], r["size"]) for r in data["results"]]
assert got == expected, (got, expected)
for r in data["results"]:
    assert set(r) == {"isa", "type", "redop", "sources", "size", "fold_gb", "copy_gb", "ratio", "wrong"}, r
    assert r["fold_gb"] > 0 and r["copy_gb"] > 0 and r["wrong"] == 0, r
    assert abs(r["ratio"] - r["fold_gb"] / r["copy_gb"]) <= 1e-9 * r["ratio"], r
END
}

number='[0-9]+\.[0-9]'
cell=" +$number +${number}[0-9]"
run_tutti bench kernels -d f32 -o max --sources 2,3 -b 4K -e 64K -J "$work/max.json"
check_status 0 "f32"
check_line out '^# tutti [0-9.]+ bench kernels, on one of the CPUs of: ' "header"
check_count out '^# +isa +type +redop +sources +4096 +/copy +32K +/copy +#wrong$' 2 "a title for each number of sources"
check_count out "^ +(base|avx2|avx512) +f32 +max +[23]$cell$cell +0\$" 2 "rows"
check_line out '^# Out of bounds values : 0 OK$' "footer"
check_json "$work/max.json" best f32 max 2,3 4096,32768 "f32: JSON"

run_tutti bench kernels -o band --sources 4 -b 4K -J "$work/band.json"
check_status 0 "all types"
check_json "$work/band.json" best i8,i16,i32,i64,u8,u16,u32,u64,bool band 4 4096 "the types that know the reduction"

# Each instruction set of this CPU, and fewer of them.
run_tutti bench kernels -d bf16 --isa all --sources 2 -b 4K -J "$work/all.json"
check_status 0 "--isa all"
sets=$(sed -n 's/^ *\([a-z0-9]*\) *bf16 .*/\1/p' "$work/out" | paste -sd,)
check_equal "${sets##*,}" base "base is among them"
check_json "$work/all.json" "$sets" bf16 sum 2 4096 "--isa all: JSON"
TUTTI_ISA=base run_tutti bench kernels -d bf16 --sources 2 -b 4K -J "$work/base.json"
check_status 0 "TUTTI_ISA"
check_json "$work/base.json" base bf16 sum 2 4096 "TUTTI_ISA: JSON"

refused() { # REGEX ARGS...
    expected=$1
    shift
    run_tutti bench kernels "$@"
    check_status 2 "bench kernels $*"
    check_line err "$expected" "bench kernels $*"
    check_no_line out '^#' "bench kernels $*"
}

refused "^tutti bench kernels: -d takes an element type .* or all, not 'f33'\$" -d f33
refused "^tutti bench kernels: -o takes a reduction .*, not 'mean'\$" -o mean
refused '^tutti bench kernels: band is not defined on f32$' -d f32 -o band
for bad in 0 -1 x 2x; do
    refused "^tutti bench kernels: --sources takes a number from 1 to [0-9]+, not '$bad'\$" --sources "$bad"
done
refused '^tutti bench kernels: --sources takes numbers' --sources ,
refused "^tutti bench kernels: -b takes a size from 64 to 8G .*, not '63'\$" -b 63
refused '^tutti bench kernels: -e goes with -b$' -e 4K
refused '^tutti bench kernels: -b 8192 is more than -e 4096$' -b 8K -e 4K
refused "^tutti bench kernels: --isa takes best or all, not 'avx2'\$" --isa avx2
refused "^tutti bench kernels: takes options only, not 'f32'\$" f32

run_tutti bench kernels -d f32 --sources 2 -b 4K -J "$work/nowhere/file"
check_status 1 "a file that cannot be made"
check_line err '^tutti bench kernels: cannot write .*/nowhere/file: No such file or directory$' "a file that cannot be made"
run_tutti bench kernels -d f32 --sources 2 -b 4K -J /dev/full
check_status 1 "JSON to a full disk"
check_line err '^tutti bench kernels: cannot write /dev/full$' "JSON to a full disk"

finish

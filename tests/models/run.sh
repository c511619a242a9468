#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=240 trees=release,debug
#
# Proves the models beside this file with Spin, and that the proofs can fail: see docs/models.md. With names, only those:
# tests/models/run.sh ring stage. A model says in its opening comment what is to be done:
#
#   config NAME=VALUE ...          prove it with these macros (none: prove it as it is)
#   mutant NAME assertion|end: why with this macro an assertion must fail, or processes must get stuck
set -u

source=$(cd "$(dirname "$0")" && pwd)
for program in spin gcc; do
    if ! command -v "$program" >/dev/null; then
        echo "skipped: needs $program (Debian package $program)"
        exit 77
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# search MODEL OPTIMISATION MACRO...: the verdict is in $work/MODEL/log; ends with 0 if the search has run.
search()
{
    local model=$1 optimise=$2 folder=$work/$1
    shift 2
    rm -rf "$folder"
    mkdir "$folder"
    (
        cd "$folder" &&
            spin "${@/#/-D}" -a "$source/$model.pml" &&
            gcc "$optimise" -w -DSAFETY -DMEMLIM=3000 -o pan pan.c &&
            timeout 100 ./pan -m1000000 -w20
    ) >"$folder/log" 2>&1
}

fail()
{
    echo "FAILED: $1: $2"
    grep -E '^(pan|spin|error|gcc)|errors:' "$work/$1/log" | head -n 10 | sed 's/^/    /'
    failures=$((failures + 1))
}

prove()
{
    local model=$1 states=0 configs=0 mutants="" config name how
    while read -r config; do
        # shellcheck disable=SC2086 # the macros are words
        if ! search "$model" -O2 $config; then
            fail "$model" "the search with '$config' did not run"
        elif ! grep -q 'errors: 0$' "$work/$model/log" || grep -Eq 'too small|out of memory|^pan:1:' "$work/$model/log"; then
            fail "$model" "not proved with '$config'"
        fi
        configs=$((configs + 1))
        states=$((states + $(awk '/states, stored/ { print $1; exit }' "$work/$model/log" || echo 0)))
    done < <(sed -n 's/^ \* config //p' "$source/$model.pml" | grep . || echo)
    while read -r name how; do
        case $how in
        assertion) expected='^pan:1: assertion violated' ;;
        end) expected='^pan:1: invalid end state' ;;
        *) expected='how a mutant fails is either assertion or end' ;;
        esac
        search "$model" -O1 "$name"
        grep -q "$expected" "$work/$model/log" || fail "$model" "the mutant $name does not fail by '$how'"
        mutants="$mutants $name"
    done < <(sed -n 's/^ \* mutant \([A-Z_]*\) \([a-z]*\):.*/\1 \2/p' "$source/$model.pml")
    [ -n "$mutants" ] || fail "$model" "it has no mutants"
    echo "$model: $configs configurations, $states states; mutants:$mutants"
}

if [ $# -eq 0 ]; then
    set -- $(cd "$source" && ls -- *.pml | sed 's/\.pml$//')
fi
for model; do
    prove "$model"
done
[ "$failures" -eq 0 ]

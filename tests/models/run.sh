#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=600 trees=release
#
# Proves the models beside this file with Spin, and that the proofs can fail: see docs/models.md. With names, only
# those: tests/models/run.sh stage lane. Without names and without TUTTI_TEST_ALL=1 each model is proved in its first
# configuration and with its first mutant only. A model says in its opening comment what to prove:
#
#   config MACRO=VALUE ...      prove it with these macros (none: prove it as it is)
#   ends: ...                   prove also that it contains no endless loop
#   mutant MACRO ... KIND: ...  with these macros, the first of which names it, the search must find a failed assertion
#                               (KIND assertion), a process that is stuck (end), or an endless loop (cycle)
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

# search MODEL errors|cycles MACRO...: the result is in $work/MODEL/log; 0 if the search has run. Without optimisation:
# GCC would take longer than the search.
search()
{
    local model=$1 folder=$work/$1 kind=-DSAFETY option=-w20
    if [ "$2" = cycles ]; then
        kind=-DNP
        option=-l
    fi
    shift 2
    rm -rf "$folder"
    mkdir "$folder"
    (
        cd "$folder" &&
            spin "${@/#/-D}" -a "$source/$model.pml" &&
            gcc -O0 -w "$kind" -DMEMLIM=3000 -o pan pan.c &&
            timeout 500 ./pan -m1000000 "$option"
    ) >"$folder/log" 2>&1
}

proved()
{
    grep -q 'errors: 0$' "$1" && ! grep -Eq 'too small|out of memory|^pan:1:' "$1"
}

fail()
{
    echo "FAILED: $1: $2"
    grep -E '^(pan|spin|error|gcc)|errors:' "$work/$1/log" | head -n 10 | sed 's/^/    /'
    failures=$((failures + 1))
}

# The configurations or mutants of a model to prove: all of them, or the first one.
chosen()
{
    if [ -n "${MODELS_FIRST:-}" ]; then
        head -n 1
    else
        cat
    fi
}

prove()
{
    local model=$1 states=0 configs=0 mutants="" config name how what expected macros
    while read -r config; do
        # shellcheck disable=SC2086 # the macros are words
        if ! search "$model" errors $config || ! proved "$work/$model/log"; then
            fail "$model" "not proved with '$config'"
        fi
        configs=$((configs + 1))
        states=$((states + $(awk '/states, stored/ { n = $1 } END { print n + 0 }' "$work/$model/log")))
    done < <(sed -n 's/^ \* config //p' "$source/$model.pml" | grep . | chosen | grep . || echo)
    if [ -z "${MODELS_FIRST:-}" ] && grep -q '^ \* ends:' "$source/$model.pml" &&
        { ! search "$model" cycles || ! proved "$work/$model/log"; }; then
        fail "$model" "it may loop for ever"
    fi
    while read -r how name macros; do
        what=errors
        case $how in
        assertion) expected='^pan:1: assertion violated' ;;
        end) expected='^pan:1: invalid end state' ;;
        cycle)
            expected='^pan:1: non-progress cycle'
            what=cycles
            ;;
        *) expected='no such kind' ;;
        esac
        # shellcheck disable=SC2086 # the macros are words
        search "$model" "$what" "$name" $macros
        grep -q "$expected" "$work/$model/log" || fail "$model" "the mutant $name does not fail by '$how'"
        mutants="$mutants $name"
    done < <(sed -n 's/^ \* mutant \([A-Z_0-9= ]*\) \([a-z]*\):.*/\2 \1/p' "$source/$model.pml" | chosen)
    [ -n "$mutants" ] || fail "$model" "it has no mutants"
    echo "$model: $configs configurations, $states states; mutants:$mutants"
}

if [ $# -eq 0 ]; then
    [ -n "${TUTTI_TEST_ALL:-}" ] || export MODELS_FIRST=1
    cd "$source" || exit
    set -- *.pml
    set -- "${@%.pml}"
fi
if [ $# -gt 1 ]; then # two at a time
    printf '%s\n' "$@" | xargs -n 1 -P 2 "$source/run.sh"
    exit
fi
prove "$1"
[ "$failures" -eq 0 ]

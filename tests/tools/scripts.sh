#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: trees=release timeout=300
# Each script shows its usage for --help, and refuses an unknown option before it does anything. Copies run, so that a
# script which starts its work instead has nothing to work on.
. "$(dirname "$0")/common.inc"
mkdir "$work/tree"
cp -r "$here/../../scripts" "$work/tree"

run_script() {
    (cd "$work/tree" && PYTHONDONTWRITEBYTECODE=1 timeout 60 "$@") >"$work/out" 2>"$work/err" </dev/null
    status=$?
}

cd "$work/tree" || exit 1
find . | grep -v __pycache__ | sort >"$work/before"
for script in scripts/* scripts/torch/environment; do
    [ -f "$script" ] || continue
    case $script in
    */bench_vs.py) options="--vs openmpi" ;;
    */check_ledger.py) options="--build . --junit x" ;;
    *) options= ;;
    esac
    run_script "$script" --help
    check_status 0 "$script --help"
    check_line out '.{40}' "$script --help"
    run_script "$script" $options --no-such-option
    check_status 2 "$script --no-such-option"
    check_line err '--no-such-option' "$script --no-such-option"
done
for words in "scripts/build nothing" scripts/build scripts/demo scripts/uninstall "scripts/bench build results more" \
    "scripts/lint nothing" "scripts/setup nothing" "scripts/setup build check" "scripts/hosts nothing" \
    scripts/man_pages "scripts/check nothing" "scripts/fuzz -x" "scripts/bench_hosts build results more" "scripts/bench_forms build results more"; do
    run_script $words
    check_status 2 "$words"
    check_line err . "$words"
done
find . | grep -v __pycache__ | sort >"$work/after"
check_equal "$(cat "$work/after")" "$(cat "$work/before")" "nothing is made"

# Without a terminal a build says what it does before each step, which may take minutes.
mkdir "$work/bin"
printf '#!/bin/sh\necho "cmake $1"\n' >"$work/bin/cmake"
chmod +x "$work/bin/cmake"
PATH=$work/bin:$PATH JOBS=3 run_script scripts/build release
check_status 0 "scripts/build"
check_equal "$(cut -c1-40 "$work/out")" "build: configuring build (release)
build: compiling build with 3 jobs; take
cmake --build" "scripts/build without a terminal"

finish

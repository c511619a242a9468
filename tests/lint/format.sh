#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The format check and clang-tidy each fail on a seeded error, in a copy of the files that they read.
# tutti-test: timeout=120
set -eu
source=${TUTTI_SOURCE:?}
command -v clang-format-14 >/dev/null && command -v clang-tidy-14 >/dev/null || exit 77
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
export XDG_CACHE_HOME=$tree/cache

mkdir "$tree"/{src,include,tools,tests,examples,build}
cp -r "$source/scripts" "$source/.clang-format" "$source/.clang-tidy" "$tree/"
cat >"$tree/src/good.c" <<'END'
#include <stddef.h>

int tti_good(const int *p);

int tti_good(const int *p)
{
    if (p == NULL) {
        return 0;
    }
    return *p;
}
END

# lint NAME: runs one check in the copy; clang-tidy with a list of files, since nothing is built here.
lint()
{
    if [ "$1" = tidy ]; then
        printf '[{"directory": "%s", "command": "cc -o build/good.o -c src/good.c", "file": "src/good.c"}]' "$tree" \
            >"$tree/build/compile_commands.json"
        python3 "$tree/scripts/linters/tidy.py" "$tree/build"
    else
        "$tree/scripts/lint" "$1"
    fi
}
for name in format tidy; do
    lint $name >"$tree/output" 2>&1 || { echo "lint $name rejects a clean file:"; cat "$tree/output"; exit 1; }
done
lint tidy >"$tree/output"
grep -q "looked at 0 files, 0 failed; 1 have passed before" "$tree/output"

cp "$tree/src/good.c" "$tree/kept.c"
sed -i 's/    if (p == NULL) {/  if(p == NULL){/' "$tree/src/good.c"
if lint format >"$tree/output" 2>&1; then
    echo "lint format accepts a badly indented file"
    exit 1
fi
grep -q "good.c:7" "$tree/output"
mv "$tree/src/good.c" "$tree/src/good.cc"
if lint format >"$tree/output" 2>&1; then
    echo "lint format accepts a badly indented file of C++"
    exit 1
fi
rm "$tree/src/good.cc"

sed 's/p == NULL/p != NULL/' "$tree/kept.c" >"$tree/src/good.c" # reads through NULL
if lint tidy >"$tree/output" 2>&1; then
    echo "lint tidy accepts a read through a null pointer"
    exit 1
fi
grep -q "NullDereference" "$tree/output"

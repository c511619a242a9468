#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The layer check accepts a tree that keeps the layers and names each kind of offence in one that does not. So it does
# with files that comments name.
set -eu
source=${TUTTI_SOURCE:?}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

mkdir -p "$tree"/src/{base,store,kernels,tensor,engine,backends/shm,backends/local,core,api} "$tree/tools"
for header in base/a.h store/a.h kernels/a.h tensor/a.h engine/a.h backends/all.h backends/shm/a.h backends/local/a.h core/a.h; do
    : >"$tree/src/$header"
done
: >"$tree/tools/tools.h"

# check FILE TEXT: checks the tree with one more file, which has this text.
check()
{
    printf '%s\n' "$2" >"$tree/src/$1"
    status=0
    python3 "$source/scripts/linters/layers.py" "$tree" >"$tree/output" 2>&1 || status=$?
    rm "$tree/src/$1"
}
# accept and reject FILE INCLUDE: a file that includes INCLUDE.
accept()
{
    check "$1" "#include \"$2\""
    [ $status = 0 ] || { echo "$1 may include $2, but:"; cat "$tree/output"; exit 1; }
}
reject()
{
    check "$1" "#include \"$2\""
    if [ $status != 1 ] || ! grep -q "$1:1: .*$3" "$tree/output"; then
        echo "$1 must not include $2, but the check said (exit code $status):"
        cat "$tree/output"
        exit 1
    fi
}

accept api/b.c core/a.h
accept core/b.c backends/shm/a.h
accept backends/shm/b.c engine/a.h
accept backends/shm/b.c a.h
accept backends/shm/b.c backends/all.h
accept engine/b.c kernels/a.h
accept tensor/b.c kernels/a.h
accept store/b.c base/a.h
reject base/b.c store/a.h upward
reject kernels/b.c engine/a.h upward
reject kernels/b.c tensor/a.h upward
reject engine/b.c core/a.h upward
reject engine/b.c backends/shm/a.h upward
reject core/b.c ../api/../tools/../src/core/missing.h "not found"
reject store/b.c tensor/a.h sideways
reject backends/shm/b.c backends/local/a.h sideways
reject backends/shm/b.c ../local/a.h sideways
reject api/b.c ../../tools/tools.h "outside src"

# accept_comment and reject_comment TEXT: a file in src/api with this comment.
comment()
{
    check api/c.c "const char *text = \"gone.c\";
/* $1 */"
}
accept_comment()
{
    comment "$1"
    [ $status = 0 ] || { echo "a comment may say \"$1\", but:"; cat "$tree/output"; exit 1; }
}
reject_comment()
{
    comment "$1"
    if [ $status != 1 ] || ! grep -q "^src/api/c.c:2: .* in a comment $2" "$tree/output"; then
        echo "a comment must not say \"$1\", but the check said (exit code $status):"
        cat "$tree/output"
        exit 1
    fi
}
accept_comment "see c.c"
accept_comment "see all.h, store/a.h, src/core/a.h and cuda.h"
reject_comment "see gone.c" "does not exist"
reject_comment "see store/all.h" "does not exist"
reject_comment "see a.h" "may be src/backends/local/a.h or "

mkdir "$tree/src/attic"
echo 'int x;' >"$tree/src/attic/b.c"
if python3 "$source/scripts/linters/layers.py" "$tree" >"$tree/output"; then
    echo "a folder without a layer was accepted"
    exit 1
fi

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The header check accepts a header as it is and rejects each kind of offence. That it accepts all is for scripts/lint.
set -eu
source=${TUTTI_SOURCE:?}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

mkdir "$tree/good"
cp -r "$source/include/tutti" "$tree/good/"
"$source/scripts/linters/headers.sh" "$tree/good" "$tree/good/tutti/tutti.h"

# reject WHAT FILE SED-PROGRAM MESSAGE: the header after one edit must fail with this message.
reject()
{
    rm -rf "$tree/bad"
    cp -r "$tree/good" "$tree/bad"
    sed -i "$3" "$tree/bad/tutti/$2"
    if cmp -s "$tree/good/tutti/$2" "$tree/bad/tutti/$2"; then
        echo "$1: the edit changed nothing in $2"
        exit 1
    fi
    if "$source/scripts/linters/headers.sh" "$tree/bad" "$tree/bad/tutti/$2" >"$tree/output" 2>&1; then
        echo "$1 was accepted"
        exit 1
    fi
    grep -q "$4" "$tree/output" || { echo "$1 was rejected for another reason:"; cat "$tree/output"; exit 1; }
}

reject "a header that needs another one before it" tensor.h '/#include/d' "tensor.h alone does not compile as C11"
reject "a word that C++ reserves" status.h '$ a int tutti_make(int class);' "status.h alone does not compile as C++17"
reject "a type that C11 does not have" status.h '$ a bool tutti_make(void);' "status.h alone does not compile as C11"
reject "a missing guard" tutti.h '/TUTTI_TUTTI_H/d' "tutti.h .*does not compile"
reject "a C++ header that needs another one before it" tutti.hpp "/#include/d" "tutti.hpp alone does not compile as C++17"
reject "another guard for DLPack's types" dlpack.h 's/DLPACK_DLPACK_H_/TUTTI_OWN_DLPACK/' "a dlpack.h does not compile"

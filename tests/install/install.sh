#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Installs into a temporary prefix, moves it, and builds programs in C and C++ against it by pkg-config, by
# find_package, and statically, and the program of the README. Then installs through DESTDIR, and uninstalls.
# tutti-test: timeout=180
set -eu
source=${TUTTI_SOURCE:?}
build=${TUTTI_BUILD:?}
for tool in pkg-config g++ cmake readelf; do
    command -v $tool >/dev/null || { echo "$tool is missing"; exit 77; }
done
unset DESTDIR CMAKE_GENERATOR
fail()
{
    echo "install: $*"
    exit 1
}

# Installing overwrites the manifest in the build tree, which "make uninstall" needs: the user's own is put back.
work=$(mktemp -d)
[ ! -e "$build/install_manifest.txt" ] || cp "$build/install_manifest.txt" "$work/kept"
restore()
{
    rm -f "$build/install_manifest.txt"
    [ ! -e "$work/kept" ] || cp "$work/kept" "$build/install_manifest.txt"
    rm -rf "$work"
}
trap restore EXIT

cmake --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/prefix" # must have no effect on the tree
if grep -rIl -e "$work/first" -e "$source" -e "$build" "$work/prefix"; then
    fail "these files name the folder they were built or installed in"
fi
library=$(find "$work/prefix" -name libtutti.so -printf '%h\n')
[ -n "$library" ] || fail "no libtutti.so"
for file in libtutti.a libtutti.so.0 pkgconfig/tutti.pc cmake/tutti/tutti-config.cmake; do
    [ -e "$library/$file" ] || fail "$file is not installed"
done
for header in "$source"/include/tutti/*.h "$source"/include/tutti/*.hpp; do
    cmp "$header" "$work/prefix/include/tutti/$(basename "$header")" || fail "$header is not installed"
done
[ ! -d "$build/man/man3" ] || [ -e "$work/prefix/share/man/man3/tutti_all_reduce.3" ] || fail "the manual pages are not installed"
version=$(sed -n 's/^#define TUTTI_VERSION_[A-Z]* //p' "$source/include/tutti/tutti.h" | paste -sd .)

# expect PROGRAM: it runs and prints its version.
expect()
{
    output=$("$@") || fail "$* failed: $output"
    [ "$output" = "tutti $version" ] || fail "$* printed \"$output\""
}

export PKG_CONFIG_PATH=$library/pkgconfig
[ "$(pkg-config --modversion tutti)" = "$version" ] || fail "pkg-config reports another version"
strict="-Wall -Wextra -Wpedantic -Werror"
# shellcheck disable=SC2046,SC2086 # flags are words
{
    gcc -std=c11 $strict "$source/tests/install/consumer.c" -o "$work/c_pc" $(pkg-config --cflags --libs tutti)
    g++ -std=c++17 $strict "$source/tests/install/consumer.cc" -o "$work/cc_pc" $(pkg-config --cflags --libs tutti)
    sed -n '/^```c$/,/^```$/{//!p}' "$source/README.md" >"$work/readme.c"
    gcc -std=c11 $strict "$work/readme.c" -o "$work/readme" $(pkg-config --cflags --libs tutti)
    gcc -std=c11 $strict "$source/tests/install/consumer.c" -o "$work/c_static" $(pkg-config --cflags tutti) \
        "$library/libtutti.a" $(pkg-config --static --libs-only-other tutti)
}
expect env LD_LIBRARY_PATH="$library" "$work/c_pc"
expect env LD_LIBRARY_PATH="$library" "$work/cc_pc"
expect "$work/c_static"
output=$(LD_LIBRARY_PATH=$library "$work/prefix/bin/tutti" run -n 3 -- "$work/readme" 2>&1) || fail "README: $output"
[ "$(grep -c "all ranks together: 3" <<<"$output")" = 3 ] || fail "the program of the README printed: $output"
readelf -d "$work/c_pc" | grep -q 'NEEDED.*libtutti.so.0' || fail "the shared consumer does not need libtutti.so.0"
if readelf -d "$work/c_static" | grep -q 'NEEDED.*libtutti'; then
    fail "the static consumer needs the shared library"
fi

cmake -S "$source/tests/install" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/prefix" -DTUTTI_WANTED="$version" \
    >"$work/log" 2>&1 || { cat "$work/log"; fail "find_package(tutti $version)"; }
cmake --build "$work/consumer" >"$work/log" 2>&1 || { cat "$work/log"; fail "building with tutti::tutti"; }
for program in c_shared c_static cc_shared; do
    expect "$work/consumer/$program"
done
if cmake -S "$source/tests/install" -B "$work/newer" -DCMAKE_PREFIX_PATH="$work/prefix" -DTUTTI_WANTED=99.0 \
    >"$work/log" 2>&1; then
    fail "find_package(tutti 99.0) found version $version"
fi
"$work/prefix/bin/tutti" info --json >"$work/info.json" || fail "the installed program does not run"
python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/info.json" || fail "tutti info --json is not JSON"

# Packagers install below DESTDIR; uninstalling leaves only folders that other packages may share.
DESTDIR=$work/staging cmake --install "$build" --prefix /opt/tutti >"$work/log" || { cat "$work/log"; exit 1; }
[ -e "$work/staging/opt/tutti/include/tutti/tutti.h" ] || fail "DESTDIR was ignored"
"$source/scripts/uninstall" "$build" "$work/staging"
left=$(find "$work/staging" ! -type d)
[ -z "$left" ] || fail "left after uninstalling: $left"
for folder in include/tutti lib/tutti share/doc/tutti; do
    [ ! -e "$work/staging/opt/tutti/$folder" ] || fail "$folder is left after uninstalling"
done

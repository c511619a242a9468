#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The shared library exports exactly what the public headers declare, has its soname, and needs nothing but libc.
set -eu
source=${TUTTI_SOURCE:?}
library=${TUTTI_BUILD:?}/libtutti.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail()
{
    echo "exports: $*"
    failed=1
}

nm -D --defined-only "$library" | awk '{ print $NF }' | sort -u >"$work/exported"
python3 - "$source"/include/tutti/*.h >"$work/declared" <<'END'
import re, sys
names = set()
for path in sys.argv[1:]:
    text = re.sub(r"/\*.*?\*/|^\s*#.*?(?<!\\)$", " ", open(path).read(), flags=re.S | re.M)
    names |= set(re.findall(r"\bTUTTI_API\b[^;{(]*?\b(\w+)\s*\(", text))
print(*sorted(names), sep="\n")
END
LC_ALL=C sort -o "$work/exported" "$work/exported"
LC_ALL=C sort -o "$work/declared" "$work/declared"
[ "$(wc -l <"$work/declared")" -gt 20 ] || fail "found hardly any declarations in the headers: $(cat "$work/declared")"
while read -r name; do
    fail "exported, but in no public header: $name"
done < <(LC_ALL=C comm -23 "$work/exported" "$work/declared")
while read -r name; do
    fail "declared in a public header, but not exported: $name"
done < <(LC_ALL=C comm -13 "$work/exported" "$work/declared")
while read -r name; do
    fail "the name does not start with tutti_: $name"
done < <(grep -v '^tutti_' "$work/exported")

major=$(sed -n 's/^#define TUTTI_VERSION_MAJOR //p' "$source/include/tutti/tutti.h")
readelf -d "$library" >"$work/dynamic"
grep -q "SONAME.*\[libtutti.so.$major\]" "$work/dynamic" || fail "the soname is not libtutti.so.$major"
grep -q "NODELETE" "$work/dynamic" || fail "not linked with -z nodelete"
grep -Eq "BIND_NOW|FLAGS.* NOW" "$work/dynamic" || fail "not linked with -z now"
while read -r needed; do
    case $needed in
    libc.so.* | ld-linux*) ;;
    *) fail "needs $needed: the core links nothing but libc" ;;
    esac
done < <(sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' "$work/dynamic")
if readelf -lW "$library" | grep -Eq 'GNU_STACK.*RWE|LOAD.*RWE'; then
    fail "has memory that is writable and executable"
fi
exit $failed

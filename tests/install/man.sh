#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The manual pages: each exported function and each command of the program has one, `man` finds it by its name, and it
# has the text of the header. mandoc reports nothing. The check notices an incomplete page.
set -eu
source=${TUTTI_SOURCE:?}
build=${TUTTI_BUILD:?}
for tool in mandoc help2man; do
    command -v $tool >/dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail()
{
    echo "FAILED: $*"
    failed=1
}

cp -r "$build/man" "$work/man"
cd "$work/man"

# Names without a page of section 3.
lacking()
{
    nm -D --defined-only "$build/libtutti.so" | awk '$2 == "T" { print $3 }' | sed 's/@.*//' | while read -r name; do
        page=$(cat "man3/$name.3" 2>/dev/null) || { echo "$name"; continue; }
        target=${page#.so }
        [ "$target" = "$page" ] || page=$(cat "$target" 2>/dev/null) || true
        grep -Eq "^\.Fo $name$" <<<"$page" || echo "$name"
    done
}
for name in $(lacking); do
    fail "$name has no page"
done
[ "$(nm -D --defined-only "$build/libtutti.so" | grep -c ' T tutti_')" -gt 100 ] || fail "hardly any function is exported"
commands=$("$build/tutti" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
for command in "" $commands; do
    grep -q '^\.SH OPTIONS\|^\.SH DESCRIPTION' "man1/tutti${command:+-}$command.1" || fail "tutti $command has no page"
done
for command in $commands; do # an example is a line, in --help and in the page
    "$build/tutti" "$command" --help | sed '1,/^Examples:$/d' >"$work/examples"
    [ -s "$work/examples" ] || fail "tutti $command has no examples"
    grep -v '^  \|:$' "$work/examples" && fail "tutti $command --help breaks an example"
    sed -i 's/^ *//' "$work/examples"
    mandoc -T utf8 "man1/tutti-$command.1" | sed 's/.\x08//g; s/^ *//' >"$work/text"
    ! missing=$(grep -Fxvf "$work/text" "$work/examples") || fail "not lines of tutti-$command(1): $missing"
done
grep -q 'ranks.*=' man1/tutti-run.1 || fail "tutti-run(1) does not describe --ranks"

mapfile -t pages < <(grep -L '^\.so' man1/* man3/*)
mandoc -T lint -W warning "${pages[@]}" || fail "mandoc reports errors"
mapfile -t aliases < <(grep -l '^\.so' man3/*)
for page in "${aliases[@]}"; do
    [ -r "$(sed -n 's/^\.so //p' "$page")" ] || fail "$page names a page that does not exist"
done
mandoc -T utf8 man3/tutti_all_reduce.3 | sed 's/.\x08//g' >"$work/text"
grep -q 'Bus bandwidth' "$work/text" || fail "tutti_all_reduce(3) does not say what the header says: $(cat "$work/text")"
grep -q 'const DLTensor \*input' "$work/text" || fail "tutti_all_reduce(3) does not show its arguments"

# the check notices errors
echo ".Xx" >>man3/tutti_send.3
! mandoc -T lint -W warning man3/tutti_send.3 >/dev/null || fail "mandoc accepts a broken page"
rm man3/tutti_recv.3
[ "$(lacking)" = tutti_recv ] || fail "a missing page is not reported: $(lacking)"

# without help2man the build does without those pages, and says so
cmake -S "$source" -B "$work/build" -DTUTTI_HELP2MAN=TUTTI_HELP2MAN-NOTFOUND -DCMAKE_PROGRAM_PATH=/nowhere \
    -DTUTTI_EXAMPLES=OFF -DTUTTI_TESTS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON >"$work/log" 2>&1 ||
    fail "configuring without the tools: $(tail -n 5 "$work/log")"
grep -q 'Manual pages are left out: there is no Python' "$work/log" || fail "no message says that pages are left out"
exit $failed

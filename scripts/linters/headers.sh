#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Every installed header compiles alone, as C11 (*.h) and as C++17, and beside another copy of dlpack.h, older than ours
# and included before or after: scripts/linters/headers.sh FOLDER-OF-tutti/ [HEADER...]
set -u

include=$(cd "${1:?usage: scripts/linters/headers.sh FOLDER [HEADER...]}" && pwd) || exit 2
shift
old_dlpack=$(cd "$(dirname "$0")/../../tests/lint" && pwd)/dlpack_old.h || exit 2
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wundef -Werror)
failed=0

# compile NAME SOURCE: as all languages of the header NAME begins with.
compile()
{
    if [[ $1 == *.h\ * ]] && ! gcc -x c -std=c11 "${warnings[@]}" -fsyntax-only -I "$include" - <<<"$2"; then
        echo "lint: $1 does not compile as C11"
        failed=1
    fi
    if ! g++ -x c++ -std=c++17 "${warnings[@]}" -fsyntax-only -I "$include" - <<<"$2"; then
        echo "lint: $1 does not compile as C++17"
        failed=1
    fi
}

[ $# -gt 0 ] || set -- "$include"/tutti/*.h "$include"/tutti/*.hpp

found=0
for path in "$@"; do
    [ -e "$path" ] || break
    found=1
    header=tutti/$(basename "$path")
    compile "$header alone" "#include <$header>"
    compile "$header twice" "#include <$header>"$'\n'"#include <$header>"
    compile "$header after a dlpack.h" "#include \"$old_dlpack\""$'\n'"#include <$header>"
    compile "$header before a dlpack.h" "#include <$header>"$'\n'"#include \"$old_dlpack\""
done
if [ $found = 0 ]; then
    echo "lint: no headers in $include/tutti"
    failed=1
fi
exit $failed

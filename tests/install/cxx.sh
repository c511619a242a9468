#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The headers in C++: consumer.cc and options.cc compile without a warning in each standard from C++11 on, with each
# installed compiler, and run; and tutti.hpp has a setter for every field of the structs that it builds.
set -eu
source=${TUTTI_SOURCE:?}
build=${TUTTI_BUILD:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compilers=()
for compiler in g++ clang++-14; do
    ! command -v $compiler >/dev/null || compilers+=("$compiler")
done
[ ${#compilers[@]} -gt 0 ] || { echo "skipped: no compiler for C++"; exit 77; }
failed=0
for compiler in "${compilers[@]}"; do
    for standard in 11 14 17 20; do
        for program in consumer options; do
            if ! $compiler -std=c++$standard -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -I"$source/include" \
                "$source/tests/install/$program.cc" -L"$build" -ltutti -Wl,-rpath,"$build" -o "$work/$program" ||
                ! "$work/$program"; then
                echo "FAILED: $program.cc with $compiler in C++$standard"
                failed=1
            fi
        done
    done
done
python3 - "$source/include/tutti" <<'END' || failed=1
import pathlib, re, sys
include = pathlib.Path(sys.argv[1])
headers = "".join(re.sub(r"/\*.*?\*/", "", h.read_text(), flags=re.S) for h in sorted(include.glob("*.h")))
builders = re.findall(r"^class (\w+)\s*\{(.*?)^\};", (include / "tutti.hpp").read_text(), re.S | re.M)
missing = [] if len(builders) >= 3 else ["three builders"]
for name, body in builders:
    fields = re.search(r"typedef struct tutti_%s \{(.*?)\}" % name, headers, re.S)[1]
    names = {re.search(r"(\w+)\s*$", f)[1] for f in fields.split(";") if f.strip()} - {"size", "reserved"}
    setters = set(re.findall(r"TUTTI_HPP_FIELD\(.*, (\w+)\)", body))
    missing += [f"tutti::{name}().{f}" for f in names ^ setters]
for struct in re.findall(r"typedef struct (tutti_\w+) \{\s*uint32_t size;", headers):
    if not re.search(r"\b%s_init\(" % struct, headers) and struct not in ("tutti_error", "tutti_event"):
        if not re.search(r"typedef struct %s \{" % struct, (include / "backend.h").read_text()):
            missing.append(f"{struct}_init") # Tutti fills errors and events; backends are constants
print(*(f"FAILED: there is no {m}" for m in missing), sep="\n")
sys.exit(bool(missing))
END
exit $failed

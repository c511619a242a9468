#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# api.h against NCCL's own header: nccl_prototypes.cc compiles, and does not if anything of api.h is changed.
. "$(dirname "$0")/nccl.inc"
need_nccl
if ! command -v g++ >/dev/null; then
    echo "skipped: there is no g++"
    [ "${CI:-}" = true ] && exit 1
    exit 77
fi

# All that nccl.h takes from CUDA's headers, which need not be installed.
mkdir -p "$work/cuda" "$work/changed/backends/nccl/library"
echo 'typedef struct CUstream_st *cudaStream_t;' >"$work/cuda/cuda_runtime.h"
echo >"$work/cuda/cuda_fp16.h"
code=$(sed -n 's/^#define NCCL_VERSION_CODE //p' "$nccl/nccl.h")
[ "$code" = "$(echo "$version" | awk -F. '{ print $1 * 10000 + $2 * 100 + $3 }')" ] ||
    fail "the header in $nccl is of version $code, not $version"

compiles() { # FOLDER with backends/nccl/library/api.h
    g++ -std=c++17 -Wall -Werror -fsyntax-only -I"$work/cuda" -I"$nccl" -I"$1" "$source/tests/abi/nccl_prototypes.cc" \
        >"$work/log" 2>&1
}

checks=1
compiles "$source/src" || {
    fail "api.h and nccl.h $version differ"
    grep -E "error|assert" "$work/log" | head -20
}

# One change after the other: the parameters and the result of each function, each number, each member and each
# constant. Without TUTTI_TEST_ALL=1 every seventh of them.
cat >"$work/change.py" <<'END'
import re, sys
source, target = sys.argv[1:]
text = open(source).read()
changes = []

def change(what, begin, end, new):
    changes.append((what, text[:begin] + new + text[end:]))

table = text.index("#define TTI_NCCL_FUNCTIONS")
row = re.compile(r"X\((\w+), (\d+), ([\w *]+?),[\s\\]*\(([^()]*)\)\)")
rows = list(row.finditer(text, table))
for m in rows:
    name, arguments = m[1], m[4]
    a, b = m.span(4)
    c, d = m.span(3)
    change(f"{name}: another result", c, d, "void" if m[3] == "int" else "int")
    change(f"{name}: one parameter more", a, b, "int more" if arguments == "void" else arguments + ", int more")
    parameters = [] if arguments == "void" else arguments.split(",")
    for i, parameter in enumerate(parameters):
        word = parameter.replace("\\", " ").split()[-1].lstrip("*")
        without = ",".join(parameters[:i] + parameters[i + 1:]) or "void"
        change(f"{name}: without {word}", a, b, without)
        if "const " in parameter:
            changed = ",".join(parameters[:i] + [parameter.replace("const ", "")] + parameters[i + 1:])
            change(f"{name}: {word} without const", a, b, changed)
        # another width for a size, an address for a number, a number for an address
        other = "int" if re.search(r"size_t |void \*|tti_nccl_(comm|stream) (?!\*)", parameter) else "void *"
        changed = ",".join(parameters[:i] + [f" {other} {word}"] + parameters[i + 1:])
        change(f"{name}: {word} as {other}", a, b, changed)
for m in re.finditer(r"(TTI_NCCL_\w+) = (\d+)", text[:table]):
    change(f"{m[1]}", m.start(2), m.end(2), str(int(m[2]) + 1))
for m in re.finditer(r"#define (TTI_NCCL_(?:CONFIG|UNDEFINED)\w*) +(.+)\n", text[:table]):
    change(f"{m[1]}", m.start(2), m.end(2), "7u" if "u" in m[2] else "7")
begin = text.index("typedef struct {\n    size_t size;")
for m in re.finditer(r"    (size_t|unsigned int|int|const char \*) ?(\w+);", text[begin:table]):
    change(f"config without {m[2]}", begin + m.start(), begin + m.end(), "")
    change(f"config: {m[2]} as short", begin + m.start(1), begin + m.end(1), "short ")
at = text.index("char internal[128]")
change("the id", at, at + 18, "char internal[64]")
for number, (what, changed) in enumerate(changes):
    open(f"{target}/{number:03}.h", "w").write(f"// {what}\n{changed}")
print(len(rows))
END
mkdir "$work/headers"
rows=$(python3 "$work/change.py" "$source/src/backends/nccl/library/api.h" "$work/headers") || fail "api.h cannot be read"
[ "$rows" = "$(functions | wc -l)" ] || fail "$rows functions were changed, api.h has $(functions | wc -l)"
every=7 # each function has about as many changes
[ -z "${TUTTI_TEST_ALL:-}" ] || every=1
number=0
for header in "$work"/headers/*.h; do
    number=$((number + 1))
    [ $((number % every)) -eq 0 ] || continue
    checks=$((checks + 1))
    cp "$header" "$work/changed/backends/nccl/library/api.h"
    compiles "$work/changed" && fail "a change is not detected: $(head -n 1 "$header")"
    grep -q 'static assertion failed\|has no member' "$work/log" || {
        fail "the compiler refuses $(head -n 1 "$header") for another reason:"
        head -n 3 "$work/log"
    }
done
finish

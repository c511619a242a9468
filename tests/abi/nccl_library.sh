#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# How the backend nccl finds its library: only with a device; the search path in its order; refused libraries and their
# errors. With the real library, too: nothing crashes, and no thread starts.
. "$(dirname "$0")/nccl.inc"
need_nccl
unset TUTTI_NCCL_LIBRARY VIRTUAL_ENV LD_LIBRARY_PATH

compile() {
    "$cc" -std=gnu17 -D_GNU_SOURCE -Wall -Werror -I"$source/src" -I"$source/include" "$@" || {
        echo "cannot compile: $*"
        exit 1
    }
}
# fake FILE VERSION [FUNCTION]: without that function. RESULT is what its GetVersion returns.
fake() {
    mkdir -p "$(dirname "$1")"
    echo "{ ${3:+local: nccl$3; }};" >"$work/map"
    compile -shared -fPIC -Wl,-soname,libnccl.so.2 -Wl,--version-script="$work/map" -DFAKE_VERSION="$2" \
        -DFAKE_RESULT="${RESULT:-0}" -o "$1" "$source/tests/abi/nccl_fake.c"
}
mkdir -p "$work/prefix/bin"
program=$work/prefix/bin/available
compile -o "$program" "$source/tests/abi/nccl_available.c" "$build/libtutti.a" -lpthread -ldl -lm
compile -shared -fPIC -o "$work/driver.so" "$source/tests/abi/nccl_driver.c"
export TUTTI_CUDA_LIBRARY=$work/driver.so

# check_output WHAT REGEX...: the program's output has lines that match. The command is in `command`.
command=("$program")
check_output() {
    local what=$1 line
    shift
    "${command[@]}" >"$work/out" 2>&1 || fail "$what: exit code $?"
    for line in "$@"; do
        checks=$((checks + 1))
        grep -Eq -- "$line" "$work/out" || {
            fail "$what: no line is '$line' in"
            cat "$work/out"
        }
    done
}

export TUTTI_NCCL_LIBRARY=$nccl/libnccl.so.2
check_output "the real library" "^library: 22809 2\.28\.9 opened $nccl/libnccl\.so\.2$" '^backend: yes$' '^mapped: yes$' \
    '^threads: 1$'
checks=$((checks + 1))
grep '^missing' "$work/out" && fail "the real library has everything"
command=("$build/tutti" info)
check_output "tutti info with the real library" '^  nccl +100  yes'
TUTTI_NCCL_TREE_THRESHOLD=1M check_output "what the library cannot honour" \
    '^ +not possible: nccl\.tree_threshold=1048576 has no effect: '
export TUTTI_CUDA_LIBRARY=$work/no-driver.so
check_output "tutti info without a driver" '^  nccl +100  no: NCCL has no device here: '
command=("$program")
check_output "the real library without a driver" '^none: NCCL has no device here: .*no-driver\.so' \
    '^backend: no: NCCL has no device here: ' '^mapped: no$' '^threads: 1$'
export TUTTI_CUDA_LIBRARY=$work/driver.so

# Refused libraries.
fake "$work/a/libnccl.so.2" 2708
TUTTI_NCCL_LIBRARY=$work/a/libnccl.so.2
check_output "2.7.8" "^library: 20708 2\.7\.8 opened $work/a/libnccl\.so\.2$" '^backend: yes$'
fake "$work/b/libnccl.so.2" 2604
TUTTI_NCCL_LIBRARY=$work/b/libnccl.so.2
check_output "2.6.4" "^none: $work/b/libnccl\.so\.2 is NCCL 2\.6\.4, which is too old: 2\.7 or newer is needed$" \
    '^backend: no: .* too old' '^threads: 1$'
fake "$work/b/libnccl.so.2" 22809 Send
check_output "no ncclSend" '^none: .* reports NCCL 2\.28\.9, but has no ncclSend$'
fake "$work/b/libnccl.so.2" 22809 AlltoAll
check_output "no ncclAlltoAll" '^library: 22809' '^missing: AlltoAll$'
fake "$work/b/libnccl.so.2" 21403 GetVersion
check_output "no ncclGetVersion" '^none: .* is not NCCL, or older than 2\.7: it has no ncclGetVersion$'
RESULT=3 fake "$work/b/libnccl.so.2" 22809
check_output "no version" '^none: .* reports no version: ncclGetVersion returned 3$'
echo "no library at all" >"$work/b/libnccl.so.2"
check_output "a text file" "^none: $work/b/libnccl\.so\.2 cannot be opened: [^/]+; TUTTI_NCCL_LIBRARY may name NCCL's file$"
rm "$work/b/libnccl.so.2"
check_output "no file" "^none: $work/b/libnccl\.so\.2 cannot be opened: cannot open shared object file: No such file"

# The search order: the variable, the process, the loader's path, Python's wheel.
fake "$work/path/libnccl.so.2" 22001
fake "$work/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2" 22002
fake "$work/prefix/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2" 22003
fake "$work/other/libnccl.so.2" 22004
export LD_LIBRARY_PATH=$work/path VIRTUAL_ENV=$work/venv TUTTI_NCCL_LIBRARY=$work/a/libnccl.so.2
command=("$program" "$work/other/libnccl.so.2")
check_output "the variable first" "^library: 20708 2\.7\.8 opened $work/a/"
TUTTI_NCCL_LIBRARY=
check_output "then the process" "^library: 22004 2\.20\.4 loaded $work/other/"
command=("$program")
check_output "then the loader" "^library: 22001 2\.20\.1 opened $work/path/"
echo "no library at all" >"$work/path/libnccl.so.2"
check_output "then the virtual environment" "^library: 22002 2\.20\.2 opened $work/venv/"
VIRTUAL_ENV=$work/none
check_output "then beside the interpreter" "^library: 22003 2\.20\.3 opened $work/prefix/"
finish

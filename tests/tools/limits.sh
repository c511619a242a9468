#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=120 trees=release,debug
# Missing resources: descriptors for the launcher, and /proc for a command that starts itself.
. "$(dirname "$0")/common.inc"

# The launcher raises its soft limit; every rank has the original one.
(ulimit -Sn 40 && "$tutti" run -n 16 -- sh -c 'ulimit -Sn' >"$work/out" 2>"$work/err" </dev/null)
status=$?
check_status 0 "16 ranks under a soft limit of 40"
check_count out '\] 40$' 16 "each rank has the soft limit of the caller"

# The error names the hard limit and the number that would be enough; that number is enough.
(ulimit -n 40 && "$tutti" run -n 16 -- true >"$work/out" 2>"$work/err" </dev/null)
status=$?
check_status 125 "16 ranks under a hard limit of 40"
check_line err 'Too many open files: the limit is 40 \(hard limit 40\), and 16 ranks need about [0-9]+; .*ulimit -n' "the limit"
need=$(sed -nE 's/.*need about ([0-9]+);.*/\1/p' "$work/err" | head -n 1)
(ulimit -n "$need" && "$tutti" run -n 16 -- "$tutti" check --backend shm --quick --filter barrier/ >"$work/out" 2>"$work/err" </dev/null)
status=$?
check_status 0 "16 ranks with as many descriptors as were asked for ($need)"
(ulimit -n 8 && "$tutti" run -n 16 -- true >"$work/out" 2>"$work/err" </dev/null)
status=$?
check_status 125 "16 ranks under a hard limit of 8"
check_line err 'the limit is 8 \(hard limit 8\), and 16 ranks need about' "the limit, wherever it strikes"

# without_proc COMMAND...: with an empty /proc, if the machine allows one.
without_proc() {
    # shellcheck disable=SC2016
    unshare -m bash -c 'mount -t tmpfs none /proc && "$@"' bash "$@"
}
if without_proc true 2>/dev/null; then
    words=(check -n 2 --backend shm --quick --filter barrier/)
    without_proc "$tutti" "${words[@]}" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    check_status 0 "without /proc, by its path"
    PATH=$build:$PATH without_proc tutti "${words[@]}" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    check_status 0 "without /proc, by its name in PATH"
    # a program that does not find itself by its path, since it is elsewhere now
    echo '__attribute__((constructor)) static void leave(void) { if (chdir("/") != 0) { _exit(9); } }' |
        ${CC:-cc} -shared -fPIC -include unistd.h -x c - -o "$work/leave.so"
    (cd "$build" && without_proc env "LD_PRELOAD=$work/leave.so" ./tutti "${words[@]}" >"$work/out" 2>"$work/err" </dev/null)
    status=$?
    check_status 1 "without /proc and without a path"
    check_line err 'tutti check: cannot find the program tutti, which starts the ranks \(.tutti run.\): there is no /proc/self/exe' \
        "which program"
    check_line err "'./tutti', as this one was started, leads to no program; start it by its full path" "what to do"
else
    echo "/proc cannot be hidden here: not tested without it"
fi

finish

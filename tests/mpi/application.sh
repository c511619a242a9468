#!/bin/bash
# tutti-test: timeout=300 trees=release,debug,address,undefined
# A program that starts MPI, gives its communicator to Tutti, goes on using it, and finalises MPI.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

mkdir -p tests/mpi
flags=(-std=c17 -Wall)
others=yes
if [ -n "${TUTTI_SANITIZE:-}" ]; then
    flags+=(-g "-fsanitize=$TUTTI_SANITIZE" -fno-sanitize-recover=all)
    others=
fi
for flavour in $(flavours); do
    "mpicc.$flavour" "${flags[@]}" -I"$TUTTI_SOURCE/include" "$TUTTI_SOURCE/tests/mpi/application/application.c" \
        -L. -ltutti -Wl,-rpath,"$PWD" -o "tests/mpi/application.$flavour" || fail "compiling for $flavour"
    for run in 2:single 2:serialized 2:multiple ${others:+1:single 3:multiple}; do
        launch "$flavour" "${run%:*}" "tests/mpi/application.$flavour" "${run#*:}" ||
            fail "$flavour, ranks and thread level $run"
    done
done
# a program without MPI, under each launcher; it is linked to the static library, and the plug-ins are elsewhere
export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins
for flavour in $(flavours); do
    for ranks in 2 4; do
        launch "$flavour" "$ranks" tests/mpi/late || fail "late under $flavour, $ranks ranks"
    done
done

#!/bin/bash
# tutti-test: timeout=300 trees=release,debug
# Which MPI is chosen, and the reason that is given if there is none.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

has() {
    grep -qF -- "$2" <<<"$1" || fail "$3: '$2' is not in: $1"
}

unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE PMI_FD PMI_PORT PMIX_RANK
has "$(./tutti info)" "no launcher of MPI jobs has started this process" "without a launcher"
has "$(./tutti check --backend mpi -n 1 2>&1)" "no launcher of MPI jobs" "asked for by name"
has "$(PMI_RANK=0 PMI_SIZE=1 TUTTI_PLUGIN_PATH=/nonexistent ./tutti info)" "there is no file tutti-mpi-mpich.so in /nonexistent" \
    "a folder without plug-ins"
has "$(OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 TUTTI_MPI_LIBRARY=/nonexistent.so ./tutti info)" "/nonexistent.so" \
    "a library that is not there"

mkdir -p tests/mpi/plugins
echo "no plug-in" >tests/mpi/plugins/tutti-mpi-mpich.so
echo "no plug-in" >tests/mpi/plugins/tutti-mpi-openmpi.so
for flavour in $(flavours); do
    text=$(output_of "$flavour" 2 ./tutti info) || fail "tutti info under $flavour"
    has "$text" "plug-in $flavour; its launcher has set" "tutti info under $flavour"
    text=$(TUTTI_PLUGIN_PATH=$PWD/tests/mpi/plugins output_of "$flavour" 1 ./tutti info) || fail "a broken plug-in of $flavour"
    has "$text" "tutti-mpi-$flavour.so" "a broken plug-in of $flavour"
    text=$(TUTTI_PLUGIN_PATH=/nonexistent:$PWD/lib/tutti/plugins output_of "$flavour" 1 ./tutti info)
    has "$text" "plug-in $flavour" "several folders"
    text=$(output_of "$flavour" 2 ./tutti check --quick --filter barrier/) || fail "auto under $flavour"
    has "$text" "backend shm" "auto takes shm where all ranks are on one host"
done

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: cpus=2 trees=release
#
# The split model over each engine that processes can have; `local` has threads of one process only.
. "$TUTTI_SOURCE/tests/mpi/common.inc"
. "$TUTTI_SOURCE/tests/gpt/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins
short=(verify --layers 1 --batch 4 --steps 20)
echo "local: skipped: its ranks are threads of one process, and each rank of this program is a process"
for split in 2x1 2x2; do
    ranks=$((${split%x*} * ${split#*x}))
    tensor=${split%x*}
    verify env TUTTI_HIER_OUTER=shm ./tutti run -n $ranks -- "$TUTTI_SOURCE/tests/hier/on_hosts" \
        "$([ $ranks = 2 ] && echo AB || echo AABB)" "$gpt" "${short[@]}" --backend hier --tensor "$tensor"
    for flavour in $(flavours); do
        verify output_of "$flavour" $ranks "$gpt" "${short[@]}" --backend mpi --tensor "$tensor" --sequence-parallel
    done
done
if [ -r lib/tutti/plugins/tutti-gloo.so ]; then
    verify env TUTTI_BACKEND=gloo ./tutti run -n 2 -- "$gpt" "${short[@]}" --tensor 2
    verify env TUTTI_BACKEND=gloo ./tutti run -n 2 -- "$gpt" "${short[@]}" --tensor 1
else
    echo "gloo: skipped: its plug-in is not built"
fi

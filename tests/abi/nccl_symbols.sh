#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The real libnccl.so.2 exports every function of api.h under the name that Tutti looks for.
. "$(dirname "$0")/nccl.inc"
need_nccl

readelf --dyn-syms --wide "$nccl/libnccl.so.2" |
    awk '$4 == "FUNC" && $7 != "UND" { sub("@.*", "", $8); print $8 }' | sort -u >"$work/exported"
exports() {
    grep -qx "$1" "$work/exported"
}
for name in $(functions); do
    checks=$((checks + 1))
    exports "nccl$name" || fail "libnccl.so.2 $version does not export nccl$name"
done
checks=$((checks + 2))
exports ncclAllReduc && fail "a name that does not exist was found"
readelf --dynamic "$nccl/libnccl.so.2" | grep -q 'SONAME.*\[libnccl.so.2\]' || fail "the soname is not libnccl.so.2"
finish

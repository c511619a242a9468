#!/bin/bash
# tutti-test: timeout=300 trees=release
# The example that trains a network, unchanged, under each MPI's launcher: over MPI, and over shm where `auto` chooses; the same
# replicas on all ranks. A small data set of its own: each class has another bright stripe.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

data=$PWD/tests/mpi/data
program=examples/train_fashion_mnist
mkdir -p "$data"
if ! [ -x "$program" ]; then
    echo "skipped: $program is not built"
    exit 77
fi
python3 - "$data" <<'END' || fail "no data"
import random, struct, sys
random.seed(1)
dark = bytes(b % 90 for b in range(256))
bright = bytes(160 + b % 90 for b in range(256))
for name, count in (("train", 4000), ("t10k", 500)):
    images, labels = bytearray(), bytearray()
    for i in range(count):
        labels.append(i % 10)
        noise, begin = random.randbytes(784), i % 10 * 56
        images += noise[:begin].translate(dark) + noise[begin:begin + 56].translate(bright) + noise[begin + 56:].translate(dark)
    with open(f"{sys.argv[1]}/{name}-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28) + images)
    with open(f"{sys.argv[1]}/{name}-labels-idx1-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4BI", 0, 0, 8, 1, count) + labels)
END
export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins
for flavour in $(flavours); do
    for backend in mpi auto; do
        text=$(output_of "$flavour" 2 "$program" --data "$data" --epochs 2 --no-compare --backend "$backend") ||
            fail "training with $backend under $flavour: $text"
        grep -q "2 ranks (backend ${backend/auto/shm})" <<<"$text" || fail "$backend under $flavour: $text"
        grep -q "^replicas: bit-identical" <<<"$text" || fail "replicas with $backend under $flavour: $text"
    done
done

#!/bin/bash
# tutti-test: timeout=300 trees=release
# Settings reach MPI under the names of each library; profiling counts; bad values are refused.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins

has() {
    grep -qE -- "$2" <<<"$1" || fail "$3: '$2' is not in: $1"
}

tests/mpi/settings refused || fail "bad settings"
./tutti info --config >tests/mpi/keys || fail "tutti info --config"
for key in mpi.blocking mpi.buffer_size mpi.cuda_aware mpi.env mpi.profiling mpi.thread_level mpi.tuning; do
    grep -q "^  $key = " tests/mpi/keys || fail "tutti info --config does not list $key"
done

for flavour in $(flavours); do
    double=$(double_of "$flavour") || exit 1
    # variables of the same name stand below the settings
    if [ "$flavour" = openmpi ]; then
        reduce=OMPI_MCA_coll_tuned_allreduce_algorithm broadcast=OMPI_MCA_coll_tuned_bcast_algorithm
        cvars="coll_tuned_allreduce_algorithm coll_tuned_bcast_algorithm"
        export $reduce=linear
    else
        reduce=MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM broadcast=MPIR_CVAR_BCAST_INTRA_ALGORITHM
        cvars="$reduce $broadcast"
        export $reduce=smp
    fi
    text=$(TUTTI_MPI_ENV="FIRST=1;SECOND=2" output_of "$flavour" 2 env LD_PRELOAD="$double" DOUBLE_CUDA=1 \
        DOUBLE_SHOW="FIRST SECOND THIRD $reduce $broadcast" DOUBLE_CVARS="$cvars" tests/mpi/settings run \
        mpi.env.SECOND=two mpi.env.THIRD="three words" mpi.tuning.all_reduce=recursive_doubling \
        mpi.tuning=broadcast=binomial mpi.tuning.all_reduce=recursive_doubling mpi.thread_level=serialized \
        mpi.profiling=yes mpi.buffer_size=4K) || fail "settings of $flavour: $text"
    unset $reduce
    has "$text" "^double: variable FIRST=1$" "TUTTI_MPI_ENV with $flavour"
    has "$text" "^double: variable SECOND=two$" "a setting over a variable with $flavour"
    has "$text" "^double: variable THIRD=three words$" "mpi.env with $flavour"
    has "$text" "^double: variable $reduce=recursive_doubling$" "mpi.tuning.all_reduce with $flavour"
    has "$text" "^double: variable $broadcast=binomial$" "mpi.tuning with $flavour"
    for cvar in $cvars; do
        has "$text" "^double: cvar $cvar=[1-9]" "$flavour has read it"
    done
    has "$text" "^double: level serialized$" "mpi.thread_level with $flavour"
    has "$text" "threads serialized" "what $flavour gave"
    has "$text" "CUDA yes, ROCm no" "mpi.cuda_aware=auto with $flavour"
    # rank 0 prints it twice, in the description and at the end
    for row in "3 all_reduce 3 12000" "3 broadcast 1 12" "3 all_gather 1 40" "3 all_to_all 1 80" "3 barrier 1 0" \
        "2 send 1 28" "1 recv 1 28"; do
        read -r times kind calls bytes <<<"$row"
        [ "$(grep -cE "^  $kind +$calls +$bytes +[0-9.]+ +[0-9.]+$" <<<"$text")" = "$times" ] ||
            fail "profiling with $flavour: $row is not in: $text"
    done
    for rank in 0 1; do
        has "$text" "^tutti: mpi.profiling: rank $rank of 2, rank $rank of the world$" "profiling with $flavour"
    done

    # without memory MPI would start with other settings: the list, a variable, and that of an algorithm
    for none in FIRST=1 FIRST $reduce; do
        text=$(output_of "$flavour" 1 env LD_PRELOAD="$double" DOUBLE_NO_MEMORY="$none" tests/mpi/settings run \
            mpi.env.FIRST=1 mpi.tuning.all_reduce=2) && fail "no memory for $none with $flavour: $text"
        has "$text" "init: NO_MEMORY: .*(for MPI|of MPI)" "no memory for $none with $flavour"
    done

    text=$(TUTTI_MPI_BLOCKING=always output_of "$flavour" 2 env LD_PRELOAD="$double" DOUBLE_COUNTS=1 tests/mpi/settings run \
        mpi.buffer_size=4K) || fail "mpi.buffer_size with $flavour: $text"
    has "$text" "collectives: blocking calls, which no deadline ends" "mpi.blocking=always with $flavour"
    for count in 1000 512 488; do # 4K are 512 sums of 64 bits
        has "$text" "^double: all_reduce of $count$" "mpi.buffer_size with $flavour"
    done

    text=$(output_of "$flavour" 1 tests/mpi/settings run mpi.cuda_aware=yes) || fail "cuda_aware with $flavour: $text"
    has "$text" "threads multiple; device memory: CUDA yes" "mpi.cuda_aware=yes with $flavour"
    grep -q "profil" <<<"$text" && fail "profiling without the setting: $text"
    text=$(output_of "$flavour" 1 env LD_PRELOAD="$double" DOUBLE_CUDA=1 DOUBLE_INTEL=1 \
        DOUBLE_SHOW="I_MPI_ADJUST_ALLREDUCE $reduce" tests/mpi/settings run mpi.cuda_aware=no \
        mpi.tuning.all_reduce=2) || fail "mpi.cuda_aware=no with $flavour: $text"
    has "$text" "CUDA no" "mpi.cuda_aware=no with $flavour"
    has "$text" "^double: variable I_MPI_ADJUST_ALLREDUCE=2$" "mpi.tuning with Intel MPI"
    has "$text" "^double: variable $reduce=\(none\)$" "mpi.tuning with Intel MPI"
done

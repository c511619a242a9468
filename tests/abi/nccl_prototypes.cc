// SPDX-License-Identifier: BSD-3-Clause
//
// Every declaration of src/backends/nccl/library/api.h against the real nccl.h, at compile time: this file compiles if
// they have the same functions with the same parameters, the same numbers and the same structs. It is C++, because
// templates can take two function types apart side by side; nccl_prototypes.sh compiles it, and proves that a
// difference does not compile.
#include <cstddef>
#include <type_traits>

#include <nccl.h>

#include "backends/nccl/library/api.h"

// Structs that stand for one another. A config is a prefix, and compared member by member below.
template <class Real, class Own> struct same_struct : std::false_type {
};
template <> struct same_struct<ncclUniqueId, tti_nccl_id> : std::true_type {
};
template <> struct same_struct<ncclConfig_t, tti_nccl_config> : std::true_type {
};

// Opaque structs: pointers to them are void * in api.h.
template <class Real> struct hidden : std::false_type {
};
template <> struct hidden<ncclComm> : std::true_type {
};
template <> struct hidden<CUstream_st> : std::true_type {
};

// Other types that match: an int for an enumeration of its size, else the same type.
template <class Real, class Own, class Enable = void> struct same : std::is_same<Real, Own> {
};
template <class Real, class Own>
struct same<Real, Own, std::enable_if_t<std::is_enum_v<Real>>>
    : std::bool_constant<std::is_same_v<Own, int> && sizeof(Real) == sizeof(Own)> {
};
template <class Real, class Own>
struct same<Real, Own, std::enable_if_t<std::is_class_v<Real> && !std::is_const_v<Real>>> : same_struct<Real, Own> {
};
template <class Real, class Own>
struct same<Real *, Own *> : std::bool_constant<std::is_const_v<Real> == std::is_const_v<Own> &&
                                                ((hidden<Real>::value && std::is_void_v<Own>) ||
                                                 same<std::remove_const_t<Real>, std::remove_const_t<Own>>::value)> {
};

template <class Real, class Own> struct same_function : std::false_type {
};
template <class RealResult, class... Real, class OwnResult, class... Own>
struct same_function<RealResult(Real...), OwnResult(Own...)> {
    template <bool as_many, class Dummy> struct all : std::false_type {
    };
    template <class Dummy> struct all<true, Dummy> : std::conjunction<same<Real, Own>...> {
    };
    static constexpr bool value =
        same<RealResult, OwnResult>::value && all<sizeof...(Real) == sizeof...(Own), void>::value;
};

#define COMPARE(name, since, result, arguments)                                                                        \
    static_assert(same_function<decltype(nccl##name), result arguments>::value, "nccl" #name " is declared "           \
                                                                                "otherwise");
TTI_NCCL_FUNCTIONS(COMPARE)

static_assert(sizeof(tti_nccl_id) == sizeof(ncclUniqueId) && alignof(tti_nccl_id) == alignof(ncclUniqueId));
static_assert(same<ncclComm_t, tti_nccl_comm>::value && same<cudaStream_t, tti_nccl_stream>::value);

#define EQUAL(own, real) static_assert(int(own) == int(real), #own)
EQUAL(TTI_NCCL_SUCCESS, ncclSuccess);
EQUAL(TTI_NCCL_UNHANDLED_DEVICE_ERROR, ncclUnhandledCudaError);
EQUAL(TTI_NCCL_SYSTEM_ERROR, ncclSystemError);
EQUAL(TTI_NCCL_INTERNAL_ERROR, ncclInternalError);
EQUAL(TTI_NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
EQUAL(TTI_NCCL_INVALID_USAGE, ncclInvalidUsage);
EQUAL(TTI_NCCL_REMOTE_ERROR, ncclRemoteError);
EQUAL(TTI_NCCL_IN_PROGRESS, ncclInProgress);
EQUAL(TTI_NCCL_INT8, ncclInt8);
EQUAL(TTI_NCCL_UINT8, ncclUint8);
EQUAL(TTI_NCCL_INT32, ncclInt32);
EQUAL(TTI_NCCL_UINT32, ncclUint32);
EQUAL(TTI_NCCL_INT64, ncclInt64);
EQUAL(TTI_NCCL_UINT64, ncclUint64);
EQUAL(TTI_NCCL_FLOAT16, ncclFloat16);
EQUAL(TTI_NCCL_FLOAT32, ncclFloat32);
EQUAL(TTI_NCCL_FLOAT64, ncclFloat64);
EQUAL(TTI_NCCL_BFLOAT16, ncclBfloat16);
EQUAL(TTI_NCCL_FLOAT8_E4M3, ncclFloat8e4m3);
EQUAL(TTI_NCCL_FLOAT8_E5M2, ncclFloat8e5m2);
EQUAL(TTI_NCCL_SUM, ncclSum);
EQUAL(TTI_NCCL_PROD, ncclProd);
EQUAL(TTI_NCCL_MAX, ncclMax);
EQUAL(TTI_NCCL_MIN, ncclMin);
EQUAL(TTI_NCCL_AVG, ncclAvg);
EQUAL(TTI_NCCL_SCALAR_ON_DEVICE, ncclScalarDevice);
EQUAL(TTI_NCCL_SCALAR_ON_HOST, ncclScalarHostImmediate);

#define MEMBER(own, real)                                                                                              \
    static_assert(offsetof(tti_nccl_config, own) == offsetof(ncclConfig_t, real) &&                                    \
                      std::is_same_v<decltype(tti_nccl_config::own), decltype(ncclConfig_t::real)>,                    \
                  #own)
MEMBER(size, size);
MEMBER(magic, magic);
MEMBER(version, version);
MEMBER(blocking, blocking);
MEMBER(cga_cluster_size, cgaClusterSize);
MEMBER(min_ctas, minCTAs);
MEMBER(max_ctas, maxCTAs);
MEMBER(net_name, netName);
MEMBER(split_share, splitShare);
static_assert(sizeof(tti_nccl_config) <= sizeof(ncclConfig_t) && sizeof(tti_nccl_config) % sizeof(size_t) == 0);

constexpr ncclConfig_t plain = NCCL_CONFIG_INITIALIZER;
static_assert(plain.magic == TTI_NCCL_CONFIG_MAGIC && plain.version >= TTI_NCCL_CONFIG_VERSION);
static_assert(TTI_NCCL_CONFIG_VERSION == NCCL_VERSION(2, 18, 0));
static_assert(plain.blocking == TTI_NCCL_UNDEFINED && plain.cgaClusterSize == TTI_NCCL_UNDEFINED);
static_assert(plain.minCTAs == TTI_NCCL_UNDEFINED && plain.maxCTAs == TTI_NCCL_UNDEFINED);
static_assert(plain.netName == nullptr && plain.splitShare == TTI_NCCL_UNDEFINED);

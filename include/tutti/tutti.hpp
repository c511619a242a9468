/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/tutti.hpp - options of calls in C++ (from C++11 on), where TUTTI_CALL and TUTTI_CONFIG of C are invalid.
 *
 *     tutti_error error;
 *     tutti_group *group = nullptr;
 *     tutti_init(tutti::config().backend("shm").lanes(2), &group, &error);
 *     tutti_all_reduce(group, &grad, &grad, TUTTI_AVG, tutti::call().timeout_ms(5000).lane(1).error(&error));
 *
 * Each field of the C struct has a setter of its name. Pass an object where C takes a pointer to the struct. It is read
 * during the call only, so a temporary one is fine. tutti::message, tutti::null_record, tutti::config_key_info and
 * tutti::store_callbacks are the C structs with `size` set. Everything else is C. The library contains no code of this
 * header.
 */
#ifndef TUTTI_TUTTI_HPP
#define TUTTI_TUTTI_HPP

#include <cstdint>
#include <tutti/tutti.h>

namespace tutti
{

/** A struct of C: all fields 0 and `size` set. */
template <class Struct> struct sized : Struct {
    sized() noexcept : Struct()
    {
        this->size = static_cast<std::uint32_t>(sizeof(Struct));
    }
};

using message = sized<tutti_message>;
using null_record = sized<tutti_null_record>;
using config_key_info = sized<tutti_config_key_info>;
using store_callbacks = sized<tutti_store_callbacks>;

/* A setter that can be chained. */
#define TUTTI_HPP_FIELD(type, name)                                                                                    \
    Options &name(type given) noexcept                                                                                 \
    {                                                                                                                  \
        value_.name = given;                                                                                           \
        return *this;                                                                                                  \
    }

/** Options of one call: tutti_call. */
class call
{
    using Options = call;
    sized<tutti_call> value_;

  public:
    TUTTI_HPP_FIELD(std::uint32_t, flags)
    TUTTI_HPP_FIELD(std::int64_t, timeout_ms)
    TUTTI_HPP_FIELD(std::int32_t, lane)
    TUTTI_HPP_FIELD(std::uint32_t, tag)
    TUTTI_HPP_FIELD(double, scale)
    TUTTI_HPP_FIELD(void *, stream) /* counts with TUTTI_HAS_STREAM in the flags, as in C */
    TUTTI_HPP_FIELD(tutti_error *, error)
    TUTTI_HPP_FIELD(tutti_callback, callback)
    TUTTI_HPP_FIELD(void *, user)
    TUTTI_HPP_FIELD(tutti_cancel_token *, token)
    TUTTI_HPP_FIELD(std::int64_t, operation_id)
    TUTTI_HPP_FIELD(tutti_wire, wire)
    operator const tutti_call *() const noexcept
    {
        return &value_;
    }
};

/** The configuration of a group: tutti_config. */
class config
{
    using Options = config;
    sized<tutti_config> value_;

  public:
    TUTTI_HPP_FIELD(std::uint32_t, flags)
    TUTTI_HPP_FIELD(std::int32_t, rank)
    TUTTI_HPP_FIELD(std::int32_t, world_size)
    TUTTI_HPP_FIELD(std::int32_t, lanes)
    TUTTI_HPP_FIELD(std::int32_t, device_index)
    TUTTI_HPP_FIELD(std::int64_t, timeout_ms)
    TUTTI_HPP_FIELD(const char *, backend)
    TUTTI_HPP_FIELD(const char *, device)
    TUTTI_HPP_FIELD(const char *, store)
    TUTTI_HPP_FIELD(const tutti_store_callbacks *, store_callbacks)
    TUTTI_HPP_FIELD(void *, native_communicator)
    TUTTI_HPP_FIELD(const char *const *, settings)
    operator const tutti_config *() const noexcept
    {
        return &value_;
    }
};

/** Options of a bucketer: tutti_bucketer_options. */
class bucketer_options
{
    using Options = bucketer_options;
    sized<tutti_bucketer_options> value_;

  public:
    TUTTI_HPP_FIELD(tutti_reduce_op, op)
    TUTTI_HPP_FIELD(std::int64_t, bucket_bytes)
    TUTTI_HPP_FIELD(std::int64_t, timeout_ms)
    TUTTI_HPP_FIELD(std::int32_t, lane)
    TUTTI_HPP_FIELD(tutti_wire, wire)
    operator const tutti_bucketer_options *() const noexcept
    {
        return &value_;
    }
};

#undef TUTTI_HPP_FIELD

} // namespace tutti

#endif

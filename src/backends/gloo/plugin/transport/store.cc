/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends/gloo/plugin/transport/store.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace tti
{

void fail_with(tutti_status status, const char *format, ...)
{
    char text[sizeof(tutti_error::message)];
    tutti_error error;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    tti_error_set(&error, status, "%s", text);
    throw Failure(error);
}

Store::Store(const tutti_rendezvous *rendezvous, int64_t deadline_ns, size_t room)
    : rendezvous_(rendezvous), deadline_ns_(deadline_ns), room_(room)
{
}

void Store::set(const std::string &key, const std::vector<char> &data)
{
    tutti_error error;
    if (rendezvous_->set(rendezvous_->self, ("gloo/" + key).c_str(), data.data(), data.size(), &error) != TUTTI_OK) {
        throw Failure(error);
    }
}

std::vector<char> Store::get_until(const std::string &key, int64_t deadline_ns)
{
    tutti_error error;
    std::vector<char> value(room_);
    size_t length = 0;
    if (rendezvous_->get(rendezvous_->self, ("gloo/" + key).c_str(), value.data(), value.size(), &length,
                         tti_remaining_ms(deadline_ns), &error) != TUTTI_OK) {
        throw Failure(error);
    }
    value.resize(std::min(length, room_));
    return value;
}

std::vector<char> Store::get(const std::string &key)
{
    return get_until(key, deadline_ns_);
}

void Store::wait(const std::vector<std::string> &keys)
{
    for (const std::string &key : keys) {
        get_until(key, deadline_ns_);
    }
}

void Store::wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &timeout)
{
    const int64_t until = std::min(deadline_ns_, tti_deadline_ns(tti_now_ns(), timeout.count()));
    for (const std::string &key : keys) {
        get_until(key, until);
    }
}

} // namespace tti

// SPDX-License-Identifier: BSD-3-Clause
// Tutti's errors as torch's exceptions: wrong arguments are ValueError, what the engine cannot do NotImplementedError,
// everything else DistBackendError. The text is Tutti's sentence.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <tutti/tutti.h>

namespace tutti_torch {

using std::chrono::milliseconds;

[[noreturn]] void throw_error(const tutti_error &error);

inline void check(tutti_status status, const tutti_error &error)
{
    if (C10_UNLIKELY(status != TUTTI_OK)) {
        throw_error(error);
    }
}

// The exception that throw_error throws.
std::exception_ptr exception_of(const tutti_error &error);

// The message of an exception, for logs and for sentences of others.
std::string text_of(const std::exception_ptr &exception);

// Tutti's deadline of a limit of torch, whose 0 means none.
inline int64_t deadline(milliseconds timeout)
{
    return timeout.count() > 0 ? static_cast<int64_t>(timeout.count()) : TUTTI_FOREVER;
}

} // namespace tutti_torch

// SPDX-License-Identifier: BSD-3-Clause
#include "error.hpp"

#include <c10/util/Exception.h>

namespace tutti_torch {

void throw_error(const tutti_error &error)
{
    std::string text = c10::str("tutti ", tutti_status_name(error.status), ": ", error.message);
    switch (error.status) {
    case TUTTI_INVALID_ARGUMENT:
    case TUTTI_DEVICE_MISMATCH:
        C10_THROW_ERROR(ValueError, std::move(text));
    case TUTTI_UNSUPPORTED:
        C10_THROW_ERROR(NotImplementedError, std::move(text));
    case TUTTI_TIMEOUT:
        if (error.deadline_ms > 0) { // that of an operation; the forming of a group has its time in the sentence
            text = c10::str("tutti TIMEOUT: timeout of ", error.deadline_ms, " ms: ", error.message);
        }
        [[fallthrough]];
    default:
        C10_THROW_ERROR(DistBackendError, std::move(text));
    }
}

std::exception_ptr exception_of(const tutti_error &error)
{
    try {
        throw_error(error);
    } catch (...) {
        return std::current_exception();
    }
}

std::string text_of(const std::exception_ptr &exception)
{
    try {
        std::rethrow_exception(exception);
    } catch (const c10::Error &error) {
        return error.what_without_backtrace();
    } catch (const std::exception &error) {
        return error.what();
    } catch (...) {
        return "unknown exception";
    }
}

} // namespace tutti_torch

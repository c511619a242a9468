// SPDX-License-Identifier: BSD-3-Clause
#include "store.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "error.hpp"

namespace tutti_torch {

StoreBridge::StoreBridge(const c10::intrusive_ptr<c10d::Store> &store) : store_(store)
{
    callbacks_.user = this;
    callbacks_.set = set;
    callbacks_.get = get;
}

std::string StoreBridge::last_failure()
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
}

tutti_status StoreBridge::fail()
{
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = text_of(std::current_exception());
    return TUTTI_BACKEND;
}

tutti_status StoreBridge::set(void *user, const char *key, const void *value, size_t length)
{
    auto *self = static_cast<StoreBridge *>(user);
    const auto *bytes = static_cast<const uint8_t *>(value);
    try {
        self->store_->set(key, std::vector<uint8_t>(bytes, bytes + length));
        return TUTTI_OK;
    } catch (...) {
        return self->fail();
    }
}

// Whether the key exists, after a wait of up to timeout_ms. It polls: a blocking wait holds the lock of the store's
// connection, and TCPStore logs a warning at the end of its limit.
static bool await_key(c10d::Store &store, const std::string &key, int64_t timeout_ms)
{
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + milliseconds(timeout_ms);
    auto pause = std::chrono::microseconds(200);
    while (!store.check({key})) {
        const auto left = end - clock::now();
        if (timeout_ms >= 0 && left <= clock::duration::zero()) {
            return false;
        }
        std::this_thread::sleep_for(timeout_ms >= 0 ? std::min<clock::duration>(pause, left) : pause);
        pause = std::min<std::chrono::microseconds>(pause * 2, milliseconds(10));
    }
    return true;
}

tutti_status StoreBridge::get(void *user, const char *key, void *value, size_t capacity, size_t *length,
                              int64_t timeout_ms)
{
    auto *self = static_cast<StoreBridge *>(user);
    try {
        if (!await_key(*self->store_, key, timeout_ms)) {
            return TUTTI_TIMEOUT;
        }
        const std::vector<uint8_t> bytes = self->store_->get(key);
        std::memcpy(value, bytes.data(), std::min(bytes.size(), capacity));
        *length = bytes.size();
        return TUTTI_OK;
    } catch (...) {
        return self->fail();
    }
}

} // namespace tutti_torch

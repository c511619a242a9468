// SPDX-License-Identifier: BSD-3-Clause
// A store of torch (TCPStore, FileStore, HashStore, PrefixStore, one in Python) as the rendezvous of a Tutti group. So
// a job needs no second port. The callbacks run on any thread; an exception of the store becomes a status, and its text
// is kept for the exception of the group's formation.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <tutti/tutti.hpp>

namespace tutti_torch {

class StoreBridge {
public:
    explicit StoreBridge(const c10::intrusive_ptr<c10d::Store> &store);

    const tutti_store_callbacks *callbacks() const { return &callbacks_; }

    // The text of the last exception; "" if there was none.
    std::string last_failure();

private:
    static tutti_status set(void *user, const char *key, const void *value, size_t length);
    static tutti_status get(void *user, const char *key, void *value, size_t capacity, size_t *length,
                            int64_t timeout_ms);
    // Stores the text of the exception that is being handled.
    tutti_status fail();

    const c10::intrusive_ptr<c10d::Store> store_;
    tutti::store_callbacks callbacks_;
    std::mutex mutex_;
    std::string failure_;
};

} // namespace tutti_torch

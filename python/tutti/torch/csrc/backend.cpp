// SPDX-License-Identifier: BSD-3-Clause
#include "backend.hpp"

#include <algorithm>
#include <torch/csrc/python_headers.h>

namespace tutti_torch {

Range::Range(const char *title, const std::vector<at::Tensor> &inputs) : function_(at::RecordScope::USER_SCOPE)
{
    if (C10_UNLIKELY(function_.isActive())) {
        function_._setAsync(); // as the ranges of all backends
        std::vector<c10::IValue> values(inputs.begin(), inputs.end());
        function_.before(title, c10::ArrayRef<const c10::IValue>(values.data(), values.size()));
    }
}

Backend::Backend(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, c10::intrusive_ptr<Options> options)
    : c10d::Backend(rank, size), options_(std::move(options)), store_(std::make_unique<StoreBridge>(store))
{
    // Names the group in flight records. The store counts how often this rank has joined at these keys: a group of the
    // same name that is formed again, perhaps by another process in the place of a dead one, must not read old records.
    const int64_t join = store->add("tutti/joins/" + std::to_string(rank), 1);
    const std::string name = "name=" + options_->group_name + "#" + std::to_string(join);
    const char *const settings[] = {name.c_str(), nullptr};
    tutti_error error;
    const tutti_status status = tutti_init(tutti::config()
                                               .rank(rank)
                                               .world_size(size)
                                               .timeout_ms(deadline(options_->timeout))
                                               .settings(settings)
                                               .store_callbacks(store_->callbacks()),
                                           &group_, &error);
    if (status != TUTTI_OK) {
        const std::string cause = store_->last_failure();
        if (!cause.empty()) {
            C10_THROW_ERROR(DistBackendError, c10::str("tutti ", tutti_status_name(status), ": ", error.message,
                                                       "; the store's error was: ", cause));
        }
        throw_error(error);
    }
    init();
}

static bool process_ends()
{
#if PY_VERSION_HEX >= 0x030d0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

// What a group with pending operations uses, until the process has ended.
struct Left {
    std::unique_ptr<StoreBridge> store;
    std::vector<std::shared_ptr<Arena>> arenas;
    std::vector<std::shared_ptr<Arena>> reserved;
};

// Does not wait for other ranks. At the end of the process pending operations stay as they are, and a rank that still
// needs this one gets PEER_LEFT from the library: an abort would fail the group on all ranks, also in operations that
// this rank has arrived at. At another time pending operations end with an error.
Backend::~Backend()
{
    if (tutti_group_destroy(group_, nullptr) != TUTTI_BUSY) {
        return;
    }
    if (process_ends()) {
        Work::leave_pending();
        new Left{std::move(store_), std::move(arenas_), std::move(reserved_)};
        return;
    }
    tutti_group_abort(group_, nullptr);
    tutti_group_destroy(group_, nullptr);
}

void Backend::abort()
{
    tutti_error error;
    const tutti_status status = tutti_group_abort(group_, &error);
    if (status != TUTTI_BAD_STATE) { // after shutdown there is nothing to abort
        check(status, error);
    }
}

// Local. Pending operations get a moment to end, since a send of this rank may be what a peer still waits for.
void Backend::shutdown()
{
    milliseconds grace = std::chrono::seconds(5);
    if (deadline(options_->timeout) != TUTTI_FOREVER) {
        grace = std::min(grace, options_->timeout);
    }
    const auto end = std::chrono::steady_clock::now() + grace;
    tutti_status status;
    while ((status = tutti_group_destroy(group_, nullptr)) == TUTTI_BUSY && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(milliseconds(1));
    }
    if (status == TUTTI_BUSY) {
        abort();
        tutti_error error;
        check(tutti_group_destroy(group_, &error), error);
    }
    arenas_.clear(); // the group's end has made their memory private
    const std::lock_guard lock(reserved_mutex_);
    reserved_.clear();
}

at::Tensor Backend::empty(const std::vector<int64_t> &shape, c10::ScalarType type)
{
    arenas_.push_back(std::make_shared<Arena>(group_, bytes_of(shape, c10::elementSize(type))));
    return *arenas_.back()->take(shape, at::TensorOptions(type));
}

void Backend::reserve(size_t bytes)
{
    auto arena = std::make_shared<Arena>(group_, bytes);
    const std::lock_guard lock(reserved_mutex_);
    reserved_.push_back(std::move(arena));
}

bool Backend::supportsTensorAlloc(c10::DeviceIndex)
{
    const std::lock_guard lock(reserved_mutex_);
    return !reserved_.empty();
}

// Local, since torch may call it on some ranks only. What does not fit is private memory, from which collectives copy.
at::Tensor Backend::allocateTensor(long size, at::TensorOptions options)
{
    if (options.device().is_cpu()) {
        const std::lock_guard lock(reserved_mutex_);
        for (const std::shared_ptr<Arena> &arena : reserved_) {
            if (auto tensor = arena->take({size}, options)) {
                return *std::move(tensor);
            }
        }
    }
    return at::empty({size}, options);
}

std::string Backend::describe() const
{
    std::vector<char> text(4096);
    tutti_error error;
    check(tutti_group_describe(group_, text.data(), text.size(), nullptr, &error), error);
    return text.data();
}

c10d::ErrorType Backend::getError()
{
    tutti_error error;
    if (tutti_group_error(group_, &error) != TUTTI_OK || error.status == TUTTI_OK) {
        return c10d::ErrorType::SUCCESS;
    }
    switch (error.status) {
    case TUTTI_TIMEOUT:
        return c10d::ErrorType::TIMEOUT;
    case TUTTI_PEER_DEAD:
    case TUTTI_PEER_LEFT:
    case TUTTI_PEER_CRASHING:
        return c10d::ErrorType::REMOTE_ERROR;
    default:
        return c10d::ErrorType::COMM_ERROR;
    }
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store> &store,
                                                 const std::vector<int> &ranks,
                                                 const c10::intrusive_ptr<Options> &options)
{
    const auto self = std::find(ranks.begin(), ranks.end(), rank_);
    if (self == ranks.end()) {
        return nullptr;
    }
    return merge(store, options, static_cast<int>(self - ranks.begin()), static_cast<int>(ranks.size()));
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store> &store,
                                                 const c10::intrusive_ptr<Options> &options, const int &rank,
                                                 const int &size)
{
    auto own = c10::make_intrusive<Options>(options ? *options : *options_);
    return c10::make_intrusive<Backend>(store, rank, size, std::move(own));
}

} // namespace tutti_torch

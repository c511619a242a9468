// SPDX-License-Identifier: BSD-3-Clause
#include "work.hpp"

#include "futures.hpp"

namespace tutti_torch {

static std::atomic<bool> left{false};

void Work::leave_pending()
{
    left.store(true, std::memory_order_relaxed); // a thread that reads the old value could have come before
}

static bool any_copy(const std::vector<Block> &blocks)
{
    for (const Block &block : blocks) {
        if (block.is_copy()) {
            return true;
        }
    }
    return false;
}

Work::Work(int rank, Call call, uint64_t sequence)
    : c10d::Work(rank, call.type, call.title, call.inputs), call_(std::move(call)), sequence_(sequence)
{
    if (any_copy(call_.writes)) {
        caller_.emplace();
    }
}

Work::~Work()
{
    for (tutti_work *work : works_) {
        tutti_work_release(work);
    }
}

// A running operation holds a reference, which on_end or refused() gives back.
tutti::call Work::expect(tutti_error *error)
{
    unfinished_.fetch_add(1, std::memory_order_relaxed);
    c10::raw::intrusive_ptr::incref(this);
    return call_.options(TUTTI_CALLBACK_ANYWHERE).error(error).callback(on_end).user(this);
}

// Other operations of this Work may be running. They keep it, and its memory, alive.
void Work::refused()
{
    unfinished_.fetch_sub(1, std::memory_order_relaxed);
    c10::raw::intrusive_ptr::decref(this);
}

void Work::on_end(tutti_status status, const tutti_error *error, void *user)
{
    if (left.load(std::memory_order_relaxed)) {
        return; // the Work stays
    }
    const auto self = c10::intrusive_ptr<Work>::reclaim(static_cast<Work *>(user));
    if (status != TUTTI_OK) {
        const std::lock_guard<std::mutex> lock(self->mutex_);
        if (!self->failure_) {
            self->failure_ = exception_of(*error);
        }
    }
    self->end_one();
}

// Acquire and release: the last thread sees what the others have written.
void Work::end_one()
{
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        complete();
    }
}

void Work::complete()
{
    std::exception_ptr failure = failure_; // all operations have ended, so no thread writes it
    if (!failure && caller_) {
        const at::ThreadLocalStateGuard guard(*caller_);
        try {
            for (const Block &block : call_.writes) {
                block.store();
            }
        } catch (...) {
            failure = std::current_exception();
        }
    }
    finish(failure);
    std::unique_lock<std::mutex> lock(mutex_);
    ended_ = true;
    if (future_) {
        lock.unlock();
        run_on_future_thread(
            [self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this)] { self->settle(*self->future_); });
    }
}

bool Work::wait(milliseconds timeout)
{
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + timeout;
    for (tutti_work *work : works_) {
        int64_t limit = TUTTI_FOREVER;
        if (timeout != kNoTimeout) {
            limit = std::max<int64_t>(0, std::chrono::ceil<milliseconds>(end - clock::now()).count());
        }
        const tutti_status status = tutti_work_wait(work, limit);
        if (status == TUTTI_FORKED) { // its end will not be seen here
            C10_THROW_ERROR(DistBackendError, c10::str("tutti FORKED: ", call_.title,
                                                       " was started before fork(); it "
                                                       "belongs to the parent process"));
        }
        if (status == TUTTI_BUSY) {
            C10_THROW_ERROR(DistBackendError,
                            c10::str("Operation timed out! ", call_.title, " has not ended within the timeout of ",
                                     timeout.count(), " ms of wait(); it goes on, and may be waited for again"));
        }
    }
    return c10d::Work::wait();
}

void Work::abort()
{
    for (tutti_work *work : works_) {
        tutti_work_cancel(work, nullptr);
    }
}

std::vector<at::Tensor> Work::result()
{
    TORCH_CHECK(isCompleted(), "Work needs to be completed before calling result(). Should call wait() before "
                               "result().");
    TORCH_CHECK(call_.outputs.size() <= 1, "work result does not support list of lists, use .getFuture() and value()");
    return call_.outputs.empty() ? std::vector<at::Tensor>() : call_.outputs[0];
}

void Work::settle(c10::ivalue::Future &future)
{
    if (exception_) {
        future.setError(exception_);
    } else if (call_.outputs.size() > 1) {
        future.markCompleted(c10::IValue(call_.outputs));
    } else {
        future.markCompleted(c10::IValue(call_.outputs.empty() ? std::vector<at::Tensor>() : call_.outputs[0]));
    }
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
{
    std::unique_lock<std::mutex> lock(mutex_);
    if (!future_) {
        if (!ended_) {
            require_future_thread();
        }
        const auto list = c10::ListType::create(c10::TensorType::get());
        future_ = c10::make_intrusive<c10::ivalue::Future>(
            call_.outputs.size() > 1 ? c10::TypePtr(c10::ListType::create(list)) : c10::TypePtr(list));
        if (ended_) {
            lock.unlock();
            settle(*future_);
        }
    }
    return future_;
}

} // namespace tutti_torch

// SPDX-License-Identifier: BSD-3-Clause
#include "futures.hpp"

#include <c10/util/Exception.h>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <system_error>
#include <thread>

namespace tutti_torch {

namespace {

// The threads are detached and the pool is never destroyed: a process may end while they wait. The child of a fork has
// none of the threads, and perhaps a mutex that one of them has locked: it begins with a new pool.
struct Pool {
    std::mutex mutex;
    std::condition_variable ready;
    std::condition_variable done;
    std::deque<std::function<void()>> tasks;
    size_t threads = 0;
    size_t idle = 0;
    size_t busy = 0; // tasks that have not ended
    bool ended = false;
};

constexpr size_t max_idle = 2;

} // namespace

static Pool *pool;

static void make_pool()
{
    pool = new Pool;
}

static void run_tasks()
{
    Pool &p = *pool;
    std::unique_lock<std::mutex> lock(p.mutex);
    while (true) {
        if (p.tasks.empty()) {
            if (p.idle == max_idle) {
                p.threads--;
                return;
            }
            p.idle++;
            p.ready.wait(lock, [&p] { return !p.tasks.empty(); });
            p.idle--;
        }
        std::function<void()> task = std::move(p.tasks.front());
        p.tasks.pop_front();
        lock.unlock();
        task();
        task = nullptr; // the end of its tensors may wait for Python's lock, whose holder may wait for the mutex
        lock.lock();
        p.busy--;
        p.done.notify_all();
    }
}

// The caller holds the mutex. Throws std::system_error if the system makes no more threads.
static void add_thread(Pool &p)
{
    std::thread([] {
        pthread_setname_np(pthread_self(), "tutti-futures");
        run_tasks();
    }).detach();
    p.threads++;
}

void begin_futures()
{
    make_pool();
    TORCH_CHECK(pthread_atfork(nullptr, nullptr, make_pool) == 0, "tutti: out of memory: no handler of fork()");
}

void require_future_thread()
{
    Pool &p = *pool;
    const std::lock_guard<std::mutex> lock(p.mutex);
    if (p.threads > 0) { // and one stays for ever
        return;
    }
    try {
        add_thread(p);
    } catch (const std::system_error &error) {
        C10_THROW_ERROR(DistBackendError,
                        c10::str("tutti NO_RESOURCE: get_future: the system makes no thread for the future (",
                                 error.what(), "); end other threads, or use wait() of the Work"));
    }
}

void run_on_future_thread(std::function<void()> task)
{
    Pool &p = *pool;
    const std::lock_guard<std::mutex> lock(p.mutex);
    if (p.ended) {
        return;
    }
    p.busy++;
    p.tasks.push_back(std::move(task));
    if (p.tasks.size() <= p.idle) {
        p.ready.notify_one();
    } else {
        try {
            add_thread(p);
        } catch (const std::system_error &) {
            // The task waits for a thread that runs another one.
        }
    }
}

void end_futures()
{
    Pool &p = *pool;
    std::unique_lock<std::mutex> lock(p.mutex);
    p.ended = true;
    p.done.wait_for(lock, std::chrono::seconds(1), [&p] { return p.busy == 0; });
}

} // namespace tutti_torch

// SPDX-License-Identifier: BSD-3-Clause
#include "futures.hpp"

#include <c10/util/Exception.h>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <pthread.h>
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
    size_t idle = 0;
    size_t busy = 0;
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
                return;
            }
            p.idle++;
            p.ready.wait(lock, [&p] { return !p.tasks.empty(); });
            p.idle--;
        }
        const std::function<void()> task = std::move(p.tasks.front());
        p.tasks.pop_front();
        lock.unlock();
        task();
        lock.lock();
        p.busy--;
        p.done.notify_all();
    }
}

void begin_futures()
{
    make_pool();
    TORCH_CHECK(pthread_atfork(nullptr, nullptr, make_pool) == 0, "tutti: out of memory: no handler of fork()");
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
        std::thread([] {
            pthread_setname_np(pthread_self(), "tutti-futures");
            run_tasks();
        }).detach();
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

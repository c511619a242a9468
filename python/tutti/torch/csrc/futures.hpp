// SPDX-License-Identifier: BSD-3-Clause
// Threads that complete futures. The then-callbacks of a future run on the thread that completes it, take Python's
// lock, and may wait for other operations, as DistributedDataParallel's PowerSGD hook does. So a lane's thread never
// completes a future. A task starts at once, on an idle thread or a new one, so tasks may wait for one another. If the
// system makes no more threads, a task waits for one of those that there are.
#pragma once

#include <functional>

namespace tutti_torch {

// The module is loaded.
void begin_futures();

// From now on there is at least one thread. Throws DistBackendError if the system makes none.
void require_future_thread();

// After require_future_thread. Does not throw, so that a lane's thread may call it.
void run_on_future_thread(std::function<void()> task);

// The process ends: waits a moment for running tasks, and drops later ones. A callback that enters Python after the
// interpreter's end would end the process by a signal.
void end_futures();

} // namespace tutti_torch

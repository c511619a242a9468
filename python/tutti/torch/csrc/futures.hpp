// SPDX-License-Identifier: BSD-3-Clause
// Threads that complete futures. The then-callbacks of a future run on the thread that completes it, take Python's
// lock, and may wait for other operations, as DistributedDataParallel's PowerSGD hook does. So a lane's thread never
// completes a future. A task starts at once, on an idle thread or a new one, so tasks may wait for one another.
#pragma once

#include <functional>

namespace tutti_torch {

// The module is loaded.
void begin_futures();

void run_on_future_thread(std::function<void()> task);

// The process ends: waits a moment for running tasks, and drops later ones. A callback that enters Python after the
// interpreter's end would end the process by a signal.
void end_futures();

} // namespace tutti_torch

// SPDX-License-Identifier: BSD-3-Clause
// The whole extension as one unit: torch's headers take most of the compiler's time, and so it reads them once.
#include "arena.cpp"
#include "backend.cpp"
#include "block.cpp"
#include "collectives.cpp"
#include "dtype.cpp"
#include "error.cpp"
#include "futures.cpp"
#include "messages.cpp"
#include "module.cpp"
#include "sparse.cpp"
#include "store.cpp"
#include "work.cpp"

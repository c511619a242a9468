/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Most ranks arrive within milliseconds, and a death is to be reported as soon. So a slice is a quarter of the time
 * waited so far, up to 4 ms, and min_slice_ms at least. A rank that has waited for a second waits for a peer that
 * computes, and polls every 100 ms.
 */
#include "base/wait/polled_wait.h"

#include "base/clock.h"

#define EAGER_NS     INT64_C(1000000000)
#define MAX_SLICE_MS 100
#define RANKS_PER_MS 4 /* about 4,000 polls in a second, of all ranks together */

int64_t tti_poll_interval_ms(int64_t least_ms, int32_t ranks)
{
    const int64_t slice = ranks / RANKS_PER_MS < MAX_SLICE_MS ? ranks / RANKS_PER_MS : MAX_SLICE_MS;
    return slice < least_ms ? least_ms : slice;
}

static int64_t slice_ms(int64_t waited_ns, int64_t min_slice_ms)
{
    const int64_t quarter_ms = waited_ns / 4000000;
    const int64_t eager_ms = quarter_ms > TTI_POLL_EAGER_MS ? TTI_POLL_EAGER_MS : quarter_ms;
    const int64_t slice = waited_ns >= EAGER_NS ? MAX_SLICE_MS : eager_ms;
    return slice < min_slice_ms ? min_slice_ms : slice;
}

bool tti_poll_cause(const struct tti_polled_wait *w, tutti_status *status, tutti_error *error)
{
    tutti_error cause;
    if ((*status != TUTTI_TIMEOUT && *status != TUTTI_PEER_LEFT) || !w->poll) {
        return false;
    }
    const tutti_status found = w->poll(w->user, &cause);
    if (found == TUTTI_OK) {
        return false;
    }
    const bool names_more = found != *status || !error || error->suspect < 0 || cause.suspect >= 0;
    *status = found;
    if (error && names_more) {
        *error = cause;
    }
    return true;
}

tutti_status tti_wait_polling(const struct tti_polled_wait *w, int64_t deadline_ns, tutti_error *error)
{
    const int64_t begun_ns = tti_now_ns();
    tutti_status status;
    bool last;
    do {
        const int64_t slice = slice_ms(tti_now_ns() - begun_ns, w->min_slice_ms);
        const int64_t left = tti_remaining_ms(deadline_ns);
        last = left >= 0 && left <= slice;
        status = w->attempt(w->user, last ? left : slice, error);
    } while (!tti_poll_cause(w, &status, error) && status == TUTTI_TIMEOUT && !last);
    return status;
}

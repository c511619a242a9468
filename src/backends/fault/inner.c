/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core compares the backends of all ranks by name, and here that is "fault" on every rank. It checks hosts and
 * processes by the struct's capabilities, which do not include the inner backend's. So the ranks exchange one more
 * record.
 */
#include "backends/fault/inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backends/record.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host/boot_id.h"

/* One rank's record. Fixed layout: it is sent between processes. */
struct record {
    int32_t status;
    char inner[16];
    char host[TTI_BOOT_ID];
    char message[300];
};

static tutti_status refuse(tutti_error *error, tutti_status status, const char *name, const char *why)
{
    return tti_error_set(error, status, "fault.backend is \"%.40s\"; %s", name, why);
}

tutti_status tti_inner_find(const tutti_open_info *info, const tutti_backend *self, const tutti_backend **inner,
                            tutti_error *error)
{
    const char *name = info->setting(info->settings, "fault.backend");
    name = name ? name : "shm";
    if (strcasecmp(name, "auto") == 0) {
        return refuse(error, TUTTI_INVALID_ARGUMENT, name, "it must name the backend to wrap, as in shm");
    }
    const tutti_backend *b = tutti_backend_find(name);
    if (!b) {
        return refuse(error, TUTTI_NOT_FOUND, name, "there is no such backend (`tutti info` lists all)");
    }
    if (b == self) {
        return refuse(error, TUTTI_INVALID_ARGUMENT, name, "it cannot wrap itself; put all rules into fault.rules");
    }
    if (b->capabilities & TUTTI_CAP_ONE_PROCESS) {
        return refuse(error, TUTTI_UNSUPPORTED, name,
                      "backends for the threads of one process cannot be wrapped; use shm, which also joins threads");
    }
    if (b->ops->init) {
        return refuse(error, TUTTI_UNSUPPORTED, name,
                      "backends that are initialised before their first group cannot be wrapped yet");
    }
    char why[200] = "";
    const int32_t available = b->ops->available(why, sizeof(why));
    if (available <= 0) {
        return refuse(error, tti_is_resource_error(-available) ? -available : TUTTI_NOT_AVAILABLE, name, why);
    }
    *inner = b;
    return TUTTI_OK;
}

static void fill_record(const tutti_backend *inner, tutti_status mine, const tutti_error *error, struct record *record)
{
    tutti_error boot_error;
    memset(record, 0, sizeof(*record));
    const tutti_status known = tti_boot_id(record->host, &boot_error);
    if (mine == TUTTI_OK && known != TUTTI_OK) {
        mine = known;
        error = &boot_error;
    }
    record->status = mine;
    snprintf(record->inner, sizeof(record->inner), "%s", inner ? inner->name : "");
    if (mine != TUTTI_OK) {
        snprintf(record->message, sizeof(record->message), "%.*s", (int)sizeof(record->message) - 1, error->message);
    }
}

static tutti_status compare(const tutti_open_info *info, const tutti_backend *inner, const struct record *own,
                            struct record *r, int32_t rank, tutti_error *error)
{
    r->inner[sizeof(r->inner) - 1] = '\0';
    r->host[sizeof(r->host) - 1] = '\0';
    r->message[sizeof(r->message) - 1] = '\0';
    tutti_status status = TUTTI_OK;
    if (r->status != TUTTI_OK) {
        status = tti_error_set(error, tti_status_of_peer(r->status), "rank %d: %s", rank, r->message);
    } else if (strcmp(r->inner, own->inner) != 0) {
        status = tti_error_set(error, TUTTI_MISMATCH, "rank %d has fault.backend %s, but rank %d %s", rank, r->inner,
                               info->rank, own->inner);
    } else if ((inner->capabilities & TUTTI_CAP_ONE_HOST) && strcmp(r->host, own->host) != 0) {
        status =
            tti_error_set(error, TUTTI_NOT_AVAILABLE,
                          "backend %s, which fault wraps, needs all ranks on one host, but rank %d and rank %d are "
                          "on different ones",
                          own->inner, rank, info->rank);
    }
    if (status != TUTTI_OK) {
        error->suspect = rank;
    }
    return status;
}

tutti_status tti_inner_agree(const tutti_open_info *info, const tutti_backend *inner, tutti_status mine,
                             tutti_error *error)
{
    struct record own;
    fill_record(inner, mine, error, &own);
    tutti_error second;
    tutti_status status = tti_record_publish(info, "fault", &own, sizeof(own), &second);
    if (mine != TUTTI_OK) {
        return mine;
    }
    if (status != TUTTI_OK) {
        *error = second;
        return status;
    }
    int64_t deadline = tti_deadline_ns(tti_now_ns(), info->timeout_ms);
    for (int32_t r = 0; r < info->world_size && status == TUTTI_OK; r++) {
        struct record record;
        status = tti_record_of(info, r, "fault", &record, sizeof(record), deadline, error);
        if (status == TUTTI_OK) {
            status = compare(info, inner, &own, &record, r, error);
        }
    }
    return status;
}

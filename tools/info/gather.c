/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the library itself: its backends, what "auto" would take, the world in the environment, the settings, and what
 * the shared-memory engine makes of this machine. */
#include <stdio.h>
#include <string.h>
#include <tutti/backend.h>

#include "backends/engine_settings.h"
#include "backends/nccl/library/options.h"
#include "core/settings/variables.h"
#include "info/info.h"
#include "kernels/kernels.h"

/* Which library a backend has found: its version, and why or where; and which settings that version cannot honour. */
static void describe_choice(const struct tti_info *info, struct tti_backend_info *entry)
{
    char version[16];
    const bool is_nccl = strcmp(entry->name, "nccl") == 0 || strcmp(entry->name, "rccl") == 0;
    const struct tti_nccl_library *library = is_nccl ? tti_nccl_library(entry->name, NULL, 0) : NULL;
    if (library) {
        tti_nccl_version_text(library->version, version);
        snprintf(entry->choice, sizeof(entry->choice), "%s %s, %.200s", library->display_name, version, library->path);
        const tutti_open_info open = {.setting = tti_setting_by_key, .settings = info->settings};
        if (info->settings_error.status == TUTTI_OK) {
            tti_nccl_setting_warnings(library, &open, entry->unheeded, sizeof(entry->unheeded));
        }
    } else if (strcmp(entry->name, "mpi") == 0) {
        memcpy(entry->choice, entry->reason, sizeof(entry->choice));
    }
}

static void gather_backends(struct tti_info *info)
{
    for (size_t i = 0; i < TTI_INFO_BACKENDS; i++) {
        const tutti_backend *backend = tutti_backend_at(i);
        if (!backend) {
            return;
        }
        struct tti_backend_info *entry = &info->backends[info->backend_count++];
        entry->name = backend->name;
        entry->priority = backend->priority;
        entry->capabilities = backend->capabilities;
        entry->available = tutti_backend_available(backend, entry->reason, sizeof(entry->reason)) == 1;
        if (entry->available) {
            describe_choice(info, entry);
            entry->reason[0] = '\0';
        }
    }
}

static void gather_devices(struct tti_info *info)
{
    static const DLDeviceType types[TTI_INFO_KINDS] = {kDLCPU, kDLCUDA, kDLROCM};
    for (int i = 0; i < TTI_INFO_KINDS; i++) {
        const struct tti_device *device = tti_device_of(types[i]);
        struct tti_devices_info *entry = &info->devices[i];
        int32_t version = 0;
        entry->name = device->name;
        entry->available = device->available(entry->reason, sizeof(entry->reason)) == 1;
        if (!entry->available) {
            continue;
        }
        entry->reason[0] = '\0';
        entry->count = device->count();
        entry->driver = device->version(&version, NULL) == TUTTI_OK ? version : 0;
        for (int n = 0; n < entry->count && n < TTI_INFO_DEVICES; n++) {
            if (device->name_of(n, entry->names[n], sizeof(entry->names[n]), NULL) != TUTTI_OK) {
                entry->names[n][0] = '\0';
            }
        }
    }
}

/* The rule of the core, for tensors on the CPU: the highest priority that fits where the ranks are; for threads, one
 * made for threads first. */
static void choose_auto(struct tti_info *info)
{
    for (int i = 0; i < info->backend_count; i++) {
        const struct tti_backend_info *backend = &info->backends[i];
        if (!backend->available || backend->priority < 0 || (backend->capabilities & TUTTI_CAP_NO_HOST)) {
            continue;
        }
        bool for_threads = (backend->capabilities & TUTTI_CAP_ONE_PROCESS) != 0;
        if (!for_threads && !info->auto_processes) {
            info->auto_processes = backend->name;
        }
        if (for_threads && !info->auto_threads) {
            info->auto_threads = backend->name;
        }
    }
    if (!info->auto_threads) {
        info->auto_threads = info->auto_processes;
    }
}

/* As rank 0 of a group of this machine does. */
static void gather_tuning(struct tti_info *info, bool again)
{
    const struct tti_settings *settings = info->settings;
    if (info->settings_error.status != TUTTI_OK) {
        return;
    }
    if (again) {
        tti_calibrate_force(&info->calibration);
    } else {
        tti_calibrate(tti_calibrate_mode(tti_setting(settings, TTI_SET_ENGINE_CALIBRATE)), &info->calibration);
    }
    const tutti_open_info open = {.setting = tti_setting_by_key, .settings = settings};
    struct tti_tuning_overrides overrides;
    tti_tuning_overrides_from_settings(&open, &overrides);
    for (int i = 0; i < TTI_INFO_SIZES; i++) {
        tti_tuning_fit(tti_info_ranks(i), (int)tti_cpu_count(), &info->calibration.profile, &overrides,
                       &info->tunings[i]);
    }
}

const char *tti_info_source_name(enum tti_calibrate_source source)
{
    return source == TTI_CALIBRATE_FILE       ? "from a file"
           : source == TTI_CALIBRATE_MEASURED ? "measured now"
                                              : "built in";
}

void tti_info_gather(struct tti_info *info, bool again)
{
    memset(info, 0, sizeof(*info));
    tti_info_system(&info->system);
    info->isa = tti_kernels_isa();
    tti_unknown_variables(info->unknown_variables, sizeof(info->unknown_variables));
    info->settings_error.status = tti_settings_resolve(NULL, NULL, &info->settings, &info->settings_error);
    gather_devices(info);
    gather_backends(info);
    choose_auto(info);
    if (info->settings) {
        info->site_error.status =
            tti_site_find(tti_setting(info->settings, TTI_SET_SHM_DIRECTORY), &info->site, &info->site_error);
    } else { /* the directory is unknown */
        info->site_error = info->settings_error;
    }
    info->world_error.status = tti_world_from_environment(false, &info->world, &info->world_error);
    gather_tuning(info, again);
}

/* Hashes; eight digits distinguish two. */
void tti_info_site(const struct tti_info *info, char *text, size_t capacity)
{
    const struct tti_site *s = &info->site;
    char directory[64] = "none";
    if (info->site_error.status != TUTTI_OK) {
        snprintf(text, capacity, "%s", info->site_error.message);
        return;
    }
    if (s->directory[1] != 0) {
        snprintf(directory, sizeof(directory), "%llx:%llx", (unsigned long long)s->directory[0],
                 (unsigned long long)s->directory[1]);
    }
    snprintf(text, capacity, "boot %08x, user %u, network %08x, directory %s", (unsigned)s->boot, s->user,
             (unsigned)s->network, directory);
}

void tti_info_capabilities(uint32_t capabilities, char *text, size_t capacity)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {
        {TUTTI_CAP_RANK_ORDER, "rank_order"},
        {TUTTI_CAP_ROUND_ONCE, "round_once"},
        {TUTTI_CAP_SAME_BITS, "same_bits"},
        {TUTTI_CAP_CHECKS_CALLS, "checks_calls"},
        {TUTTI_CAP_CANCEL, "cancel"},
        {TUTTI_CAP_CANCEL_FLAGGED, "cancel_flagged"},
        {TUTTI_CAP_DROPS_NAN, "drops_nan"},
        {TUTTI_CAP_WIRE, "wire"},
        {TUTTI_CAP_OWN_THREAD, "own_thread"},
        {TUTTI_CAP_HEAP, "heap"},
        {TUTTI_CAP_RECOVER, "recover"},
        {TUTTI_CAP_GROW, "grow"},
        {TUTTI_CAP_ONE_PROCESS, "one_process"},
        {TUTTI_CAP_ONE_HOST, "one_host"},
        {TUTTI_CAP_CUDA, "cuda"},
        {TUTTI_CAP_ROCM, "rocm"},
        {TUTTI_CAP_NO_HOST, "no_host"},
    };
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && used < capacity; i++) {
        if (capabilities & names[i].bit) {
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? " " : "", names[i].name);
        }
    }
}

const char *tti_info_type_name(tutti_config_type type)
{
    switch (type) {
    case TUTTI_CONFIG_INT:
        return "int";
    case TUTTI_CONFIG_BYTES:
        return "bytes";
    case TUTTI_CONFIG_BOOL:
        return "bool";
    case TUTTI_CONFIG_CHOICE:
        return "choice";
    case TUTTI_CONFIG_LIST:
        return "list";
    default:
        return "string";
    }
}

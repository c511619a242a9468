/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti info` for people: one fact a line, backends and settings as tables. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "info/info.h"

__attribute__((format(printf, 2, 3))) static void fact(const char *name, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    printf("  %-18s ", name);
    vprintf(format, values);
    printf("\n");
    va_end(values);
}

static void print_machine(const struct tti_info *info)
{
    const struct tti_system_info *system = &info->system;
    char text[512];
    printf("Machine\n");
    fact("cpu", "%s", system->cpu);
    fact("kernels", "%s", info->isa);
    fact("cpus available", "%d (%s)", system->cpu_count, system->cpus);
    snprintf(text, sizeof(text), "%g CPUs' worth of time", system->cpu_quota);
    fact("cgroup quota", "%s", system->cpu_quota > 0 ? text : "none");
    fact("system", "Linux %s %s", system->kernel, system->machine);
    fact("page size", "%" PRId64 " bytes; huge pages: %" PRId64 " KiB", system->page_size,
         system->huge_page_size / 1024);
    fact("memory available", "%" PRId64 " MiB", system->memory_available / (1024 * 1024));
    tti_info_site(info, text, sizeof(text));
    fact("host", "%s", text);
    fact("sealed memfd", "%s", system->memfd[0] ? system->memfd : "works");
    fact("futex_waitv", "%s", system->futex_waitv[0] ? system->futex_waitv : "works");
}

/* Every kind that can be used, by name, and why the others cannot. */
static void print_devices(const struct tti_info *info)
{
    printf("\nDevices\n");
    for (int i = 0; i < TTI_INFO_KINDS; i++) {
        const struct tti_devices_info *kind = &info->devices[i];
        char name[24];
        if (!kind->available) {
            fact(kind->name, "no: %s", kind->reason);
        }
        for (int n = 0; n < kind->count && n < TTI_INFO_DEVICES; n++) {
            snprintf(name, sizeof(name), kind->count > 1 ? "%s:%d" : "%s", kind->name, n);
            fact(name, "%s", kind->names[n][0] ? kind->names[n] : "without a name");
        }
        if (kind->count > TTI_INFO_DEVICES) {
            fact(kind->name, "%d in all", kind->count);
        }
        if (kind->driver > 0) {
            snprintf(name, sizeof(name), "%s driver", kind->name);
            fact(name, "%d", kind->driver);
        }
    }
}

static void print_backends(const struct tti_info *info)
{
    printf("\nBackends                priority  available\n");
    for (int i = 0; i < info->backend_count; i++) {
        const struct tti_backend_info *backend = &info->backends[i];
        char priority[16];
        snprintf(priority, sizeof(priority), "%d", (int)backend->priority);
        printf("  %-21s %8s  %s%s\n", backend->name, backend->priority < 0 ? "-" : priority,
               backend->available ? (*backend->choice ? "yes: " : "yes") : "no: ",
               backend->available ? backend->choice : backend->reason);
        if (*backend->unheeded) {
            printf("  %-21s %8s  not possible: %s\n", "", "", backend->unheeded);
        }
    }
    printf("  auto takes %s for processes of this host, %s for threads\n",
           info->auto_processes ? info->auto_processes : "nothing",
           info->auto_threads ? info->auto_threads : "nothing");
    printf("  processes are of one host, whatever containers they are in, if boot, user, and network or directory are "
           "the same; --group shows it\n");
}

static void print_world(const struct tti_info *info)
{
    const struct tti_world *world = &info->world;
    printf("\nWorld in the environment\n");
    if (info->world_error.status != TUTTI_OK) {
        fact("error", "%s", info->world_error.message);
        return;
    }
    fact("launcher", "%s", world->family);
    fact("rank", "%d of %d", world->rank, world->size);
    if (world->local_size >= 0 && world->local_rank >= 0) {
        fact("rank on this host", "%d of %d", world->local_rank, world->local_size);
    }
    fact("store", "%s", world->store_url[0] ? world->store_url : "none needed");
}

static void print_hop(const char *name, int64_t ns, int64_t mbs)
{
    char text[128];
    snprintf(text, sizeof(text), "%" PRId64 " ns a hop, %" PRId64 " MB/s", ns, mbs);
    fact(name, "%s", ns > 0 ? text : "not seen yet");
}

static void print_profile(const struct tti_info *info)
{
    const struct tti_calibration *c = &info->calibration;
    const struct tti_profile *p = &c->profile;
    const time_t when = (time_t)p->measured_s;
    struct tm tm;
    char text[640];
    printf("\nProfile of this machine (docs/performance.md)\n");
    if (info->settings_error.status != TUTTI_OK) {
        fact("error", "%s", info->settings_error.message);
        return;
    }
    fact("source", "%s", tti_info_source_name(c->source));
    if (p->measured_s > 0 && localtime_r(&when, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %z", &tm) > 0) {
        fact("measured", "%s", text);
    }
    fact("file", "%s", c->path[0] ? c->path : "none");
    if (c->note[0]) {
        fact("note", "%s", c->note);
    }
    print_hop("near CPUs", p->near_ns, p->near_mbs);
    print_hop("far CPUs", p->far_ns, p->far_mbs);
    fact("in cache", "copy %" PRId64 ", fold %" PRId64 " MB/s", p->copy_mbs, p->fold_mbs);
    fact("in memory", "copy %" PRId64 ", past the caches %" PRId64 " MB/s", p->memory_mbs, p->stream_mbs);
    fact("scheduler", "yield %" PRId64 ", switch %" PRId64 ", wake %" PRId64 " ns", p->yield_ns, p->switch_ns,
         p->wake_ns);
    fact("caches", "second level %" PRId64 " KiB; third %" PRId64 " KiB for %" PRId64 " CPUs", p->l2_bytes / 1024,
         p->l3_bytes / 1024, p->l3_cpus);
    fact("virtual CPUs", "%s",
         p->cpus_stay == TTI_CPUS_MOVE ? "yes: near in one minute, far in the next, perhaps" : "no");
}

/* In bytes, or in the largest unit that divides it. */
static const char *size_text(uint64_t bytes, char text[24])
{
    if (bytes >= TTI_TUNING_NEVER) {
        return "never";
    }
    static const char units[] = " KMG";
    int unit = 0;
    while (unit < 3 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 24, unit > 0 ? "%" PRIu64 "%c" : "%" PRIu64, bytes, units[unit]);
    return text;
}

static void print_thresholds(const struct tti_info *info)
{
    if (info->settings_error.status != TUTTI_OK) {
        return;
    }
    printf("\nThresholds on the CPUs available (bytes)\n");
    printf("  ranks  packets  one_shot   window    stage      far    small  zero_copy   stream\n");
    for (int i = 0; i < TTI_INFO_SIZES; i++) {
        const struct tti_tuning *t = &info->tunings[i];
        char text[8][24];
        printf("  %5d %8s %9s %8s %8s %8s %8s %10s %8s\n", tti_info_ranks(i), size_text(tti_info_packets(t), text[0]),
               size_text(t->one_shot, text[1]), size_text(t->window, text[2]), size_text(t->stage, text[3]),
               size_text(t->stage_far, text[4]), size_text(t->stage_small, text[5]), size_text(t->zero_copy, text[6]),
               size_text(t->streams[TTI_STREAM_DIRECT], text[7]));
    }
}

static void print_bounds(const tutti_config_key_info *key)
{
    if (key->type == TUTTI_CONFIG_INT || key->type == TUTTI_CONFIG_BYTES) {
        printf("%s%s%s from %" PRId64 " to %" PRId64, key->choices, *key->choices ? " or " : "",
               tti_info_type_name(key->type), key->minimum, key->maximum);
    } else if (key->type == TUTTI_CONFIG_CHOICE) {
        printf("one of %s", key->choices);
    } else if (key->type == TUTTI_CONFIG_LIST) {
        printf("NAME=VALUE;NAME=VALUE; as a setting, %s.NAME=VALUE adds one%s%s", key->key,
               *key->choices ? "; names: " : "", key->choices);
    } else {
        printf("%s", tti_info_type_name(key->type));
    }
}

static void print_settings(const struct tti_info *info)
{
    printf("\nSettings (config or environment)\n");
    bool valid = info->settings_error.status == TUTTI_OK;
    if (!valid) {
        fact("error", "%s", info->settings_error.message);
    }
    tutti_config_key_info key = {.size = sizeof(key)};
    for (size_t i = 0; tutti_config_key(i, &key) == TUTTI_OK; i++) {
        const char *value = valid ? tti_setting_by_key(info->settings, key.key) : NULL;
        printf("  %s = %s", key.key, value && *value ? value : valid ? "\"\"" : "?");
        if (value && strcmp(value, key.default_value) != 0) {
            printf(" (default %s)", *key.default_value ? key.default_value : "\"\"");
        }
        printf("\n      %s: %s (", key.environment, key.help);
        print_bounds(&key);
        printf(")\n");
    }
}

void tti_info_print_text(const struct tti_info *info, bool settings)
{
    printf("Tutti %s\n\n", tutti_version_string());
    print_machine(info);
    print_devices(info);
    print_backends(info);
    print_world(info);
    if (info->unknown_variables[0] != '\0') {
        printf("\nUnknown environment variables, which have no effect\n  %s\n", info->unknown_variables);
    }
    print_profile(info);
    print_thresholds(info);
    if (settings) {
        print_settings(info);
    }
}

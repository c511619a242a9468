/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tutti info` for programs. Names are part of the interface: new ones may come, none changes its meaning. Text of the
 * machine that is not UTF-8 becomes null.
 */
#include <jansson.h>
#include <stdio.h>

#include "info/info.h"
#include "tools.h"

/* A string; null for NULL and for bytes that are not UTF-8. */
static json_t *text(const char *bytes)
{
    json_t *string = bytes ? json_string(bytes) : NULL;
    return string ? string : json_null();
}

/* "works" and "reason" of something that was tried. */
static json_t *tried(const char *why)
{
    return json_pack("{s:b, s:o}", "works", why[0] == '\0', "reason", text(why));
}

static json_t *pack_machine(const struct tti_info *info)
{
    const struct tti_system_info *system = &info->system;
    char site[160];
    tti_info_site(info, site, sizeof(site));
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:s, s:o, s:o}", "kernel", text(system->kernel), "architecture",
                     text(system->machine), "page_size", (json_int_t)system->page_size, "huge_page_size",
                     (json_int_t)system->huge_page_size, "memory_available", (json_int_t)system->memory_available,
                     "host", site, "sealed_memfd", tried(system->memfd), "futex_waitv", tried(system->futex_waitv));
}

static json_t *pack_cpu(const struct tti_info *info)
{
    const struct tti_system_info *system = &info->system;
    return json_pack("{s:o, s:s, s:i, s:s, s:f}", "model", text(system->cpu), "isa", info->isa, "available",
                     system->cpu_count, "list", system->cpus, "quota", system->cpu_quota);
}

/* Appends a new value to an array that may be NULL already; NULL when memory is exhausted. */
static json_t *append(json_t *array, json_t *value)
{
    if (!array || !value || json_array_append_new(array, value) != 0) {
        json_decref(array);
        return NULL;
    }
    return array;
}

static json_t *pack_devices(const struct tti_info *info)
{
    json_t *array = json_array();
    for (int i = 0; i < TTI_INFO_KINDS && array; i++) {
        const struct tti_devices_info *kind = &info->devices[i];
        json_t *names = json_array();
        for (int n = 0; n < kind->count && n < TTI_INFO_DEVICES && names; n++) {
            names = append(names, kind->names[n][0] ? text(kind->names[n]) : json_null());
        }
        array =
            append(array, json_pack("{s:s, s:b, s:o, s:i, s:o, s:o}", "type", kind->name, "available",
                                    (int)kind->available, "reason", text(kind->reason), "count", kind->count, "names",
                                    names, "driver", kind->driver > 0 ? json_integer(kind->driver) : json_null()));
    }
    return array;
}

static json_t *pack_backends(const struct tti_info *info)
{
    json_t *array = json_array();
    for (int i = 0; i < info->backend_count && array; i++) {
        const struct tti_backend_info *backend = &info->backends[i];
        char capabilities[256];
        tti_info_capabilities(backend->capabilities, capabilities, sizeof(capabilities));
        array = append(array, json_pack("{s:s, s:b, s:o, s:i, s:s, s:o}", "name", backend->name, "available",
                                        (int)backend->available, "reason", text(backend->reason), "priority",
                                        (int)backend->priority, "capabilities", capabilities, "not_possible",
                                        text(backend->unheeded)));
    }
    return array;
}

static json_t *pack_world(const struct tti_info *info)
{
    const struct tti_world *world = &info->world;
    if (info->world_error.status != TUTTI_OK) {
        return json_pack("{s:o}", "error", text(info->world_error.message));
    }
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:o}", "launcher", world->family, "rank", world->rank, "size",
                     world->size, "local_rank", world->local_rank, "local_size", world->local_size, "store",
                     text(world->store_url));
}

/* The fields of the profile by the names that its file has; null = not known. */
static json_t *pack_profile(const struct tti_info *info)
{
    const struct tti_calibration *c = &info->calibration;
    json_t *root =
        json_pack("{s:s, s:o, s:o}", "source", tti_info_source_name(c->source), "file",
                  c->path[0] ? text(c->path) : json_null(), "note", c->note[0] ? text(c->note) : json_null());
    for (int i = 0; root && i < TTI_PROFILE_FIELDS; i++) {
        const int64_t value = tti_profile_value(&c->profile, i);
        json_object_set_new(root, tti_profile_fields[i].name, value ? json_integer(value) : json_null());
    }
    return root;
}

/* Bytes; null = never. */
static json_t *pack_thresholds(const struct tti_info *info)
{
    json_t *array = json_array();
    for (int i = 0; i < TTI_INFO_SIZES && array; i++) {
        const struct tti_tuning *t = &info->tunings[i];
        array = append(array, json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "ranks", tti_info_ranks(i),
                                        "packets", (json_int_t)tti_info_packets(t), "one_shot", (json_int_t)t->one_shot,
                                        "window", (json_int_t)t->window, "stage", (json_int_t)t->stage, "stage_far",
                                        (json_int_t)t->stage_far, "stage_small", (json_int_t)t->stage_small,
                                        "zero_copy", (json_int_t)t->zero_copy, "stream",
                                        t->streams[TTI_STREAM_DIRECT] < TTI_TUNING_NEVER
                                            ? json_integer((json_int_t)t->streams[TTI_STREAM_DIRECT])
                                            : json_null()));
    }
    return array;
}

static json_t *pack_settings(const struct tti_info *info)
{
    bool valid = info->settings_error.status == TUTTI_OK;
    json_t *array = json_array();
    tutti_config_key_info key = {.size = sizeof(key)};
    for (size_t i = 0; array && tutti_config_key(i, &key) == TUTTI_OK; i++) {
        const char *value = valid ? tti_setting_by_key(info->settings, key.key) : NULL;
        array = append(array, json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:I, s:I, s:s}", "key", key.key, "type",
                                        tti_info_type_name(key.type), "environment", key.environment, "default",
                                        key.default_value, "value", text(value), "choices", key.choices, "minimum",
                                        (json_int_t)key.minimum, "maximum", (json_int_t)key.maximum, "help", key.help));
    }
    return array;
}

bool tti_json_usable(const char *tool)
{
    (void)tool;
    return true;
}

bool tti_info_print_json(const struct tti_info *info, bool settings)
{
    json_t *root =
        json_pack("{s:s, s:o, s:o, s:o, s:{s:s?, s:s?}, s:o, s:o, s:s}", "version", tutti_version_string(), "cpu",
                  pack_cpu(info), "system", pack_machine(info), "backends", pack_backends(info), "auto", "processes",
                  info->auto_processes, "threads", info->auto_threads, "devices", pack_devices(info), "world",
                  pack_world(info), "unknown_variables", info->unknown_variables);
    bool good = root != NULL;
    if (good && info->settings_error.status == TUTTI_OK) {
        good = json_object_set_new(root, "profile", pack_profile(info)) == 0 &&
               json_object_set_new(root, "thresholds", pack_thresholds(info)) == 0;
    }
    if (good && settings) {
        good = json_object_set_new(root, "settings", pack_settings(info)) == 0;
        if (good && info->settings_error.status != TUTTI_OK) {
            good = json_object_set_new(root, "settings_error", text(info->settings_error.message)) == 0;
        }
    }
    good = good && json_dumpf(root, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;
    json_decref(root);
    return good;
}

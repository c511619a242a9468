/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings, in the library's terms. The library reads most of them from variables of the process, once, at its
 * first use. So Tutti sets the variables before the first group, and all later groups of the process have the same
 * values, with either library. A setting that is not given leaves its variable as it is.
 */
#include "backends/nccl/library/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/process/fork.h"
#include "base/text.h"

/* Versions that changed what a setting means. */
#define CONFIG_CHANNELS 21700 /* the number of channels is a setting of a communicator */
#define ALGO_BY_KIND    22400 /* NCCL_ALGO must name the collective: only all_reduce has trees */
#define MORE_CHANNELS   22500 /* NCCL has 64 channels instead of 32 */

/* The value that a setting gives to a variable. */
struct env_request {
    const char *setting; /* without the backend's name: "algo" */
    const char *variable;
    const char *value; /* NULL: the variable is to be absent */
    bool listed;       /* by the setting "env", for any variable; values of other settings ignore case */
};

struct env_requests {
    struct env_request *all;
    size_t count;
    char *pairs;    /* the setting "env", cut into names and values */
    char debug[16]; /* the setting "debug" in capitals */
};

static bool in_use; /* under the lock: the library may have read its variables */
static struct tti_fork_mutex lock = TTI_FORK_MUTEX_INIT;

/* A setting of this backend; NULL if it has its default. */
static const char *setting_of(const struct tti_nccl_library *library, const tutti_open_info *info, const char *name)
{
    char key[48];
    snprintf(key, sizeof(key), "%s.%s", library->backend, name);
    const char *text = info->setting(info->settings, key);
    return text && *text && strcmp(text, "auto") != 0 ? text : NULL;
}

bool tti_nccl_native_min_max(const struct tti_nccl_library *library, const tutti_open_info *info)
{
    const char *text = setting_of(library, info, "native_min_max");
    return text && strcmp(text, "1") == 0;
}

/* "nccl.algo", "nccl.env.NCCL_ALGO" */
static const char *key_of(const struct tti_nccl_library *library, const struct env_request *env_request, char text[128])
{
    snprintf(text, 128, "%s.%s%s%s", library->backend, env_request->setting, env_request->listed ? "." : "",
             env_request->listed ? env_request->variable : "");
    return text;
}

static bool same_value(const struct env_request *env_request, const char *value)
{
    if (!env_request->value || !value) {
        return env_request->value == value;
    }
    return env_request->listed ? strcmp(env_request->value, value) == 0 : strcasecmp(env_request->value, value) == 0;
}

static void add_request(struct env_requests *env_requests, const char *setting, const char *variable, const char *value)
{
    env_requests->all[env_requests->count++] =
        (struct env_request){.setting = setting, .variable = variable, .value = value};
}

static void add_own(struct env_requests *env_requests, const struct tti_nccl_library *library,
                    const tutti_open_info *info)
{
    const char *algo = setting_of(library, info, "algo");
    const char *channels = setting_of(library, info, "channels");
    const char *debug = setting_of(library, info, "debug");
    const char *buffer = setting_of(library, info, "buffer_size");
    if (algo) {
        static const char *const values[2][2] = {{"Ring", "Tree"}, {"allreduce:ring", "allreduce:tree"}};
        add_request(env_requests, "algo", "NCCL_ALGO",
                    values[library->version >= ALGO_BY_KIND][strcmp(algo, "tree") == 0]);
    }
    if (buffer) {
        add_request(env_requests, "buffer_size", "NCCL_BUFFSIZE", buffer);
    }
    if (channels && library->version < CONFIG_CHANNELS) {
        add_request(env_requests, "channels", "NCCL_MIN_NCHANNELS", channels);
        add_request(env_requests, "channels", "NCCL_MAX_NCHANNELS", channels);
    }
    if (debug) {
        /* none: not every version has a value for it */
        const bool none = strcmp(debug, "none") == 0;
        snprintf(env_requests->debug, sizeof(env_requests->debug), "%s", debug);
        for (char *c = env_requests->debug; *c; c++) {
            *c = (char)toupper((unsigned char)*c);
        }
        add_request(env_requests, "debug", "NCCL_DEBUG", none ? NULL : env_requests->debug);
    }
}

/* Adds a pair of the setting "env". It replaces an earlier pair of that name; it must not contradict another
 * setting. */
static tutti_status add_pair(struct env_requests *env_requests, const struct tti_nccl_library *library,
                             const char *name, const char *value, tutti_error *error)
{
    const struct env_request pair = {.setting = "env", .variable = name, .value = value, .listed = true};
    for (size_t i = 0; i < env_requests->count; i++) {
        struct env_request *other = &env_requests->all[i];
        if (strcmp(other->variable, name) != 0) {
            continue;
        }
        if (other->listed) {
            other->value = value;
        } else if (!same_value(other, value)) {
            char key[2][128];
            return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                                 "%s asks for %s%s%s, and %s for %.100s: leave one of the two settings out",
                                 key_of(library, other, key[0]), other->value ? "" : "no ", other->value ? "" : name,
                                 other->value ? other->value : "", key_of(library, &pair, key[1]), value);
        }
        return TUTTI_OK;
    }
    env_requests->all[env_requests->count++] = pair;
    return TUTTI_OK;
}

/* All requested variables, each once. The strings belong to `info` and `env_requests`. */
static tutti_status collect(struct env_requests *env_requests, const struct tti_nccl_library *library,
                            const tutti_open_info *info, tutti_error *error)
{
    const char *list = setting_of(library, info, "env");
    size_t most = 6; /* add_own's, and one pair */
    for (const char *c = list; c && *c; c++) {
        most += *c == ';';
    }
    env_requests->all = calloc(most, sizeof(*env_requests->all));
    env_requests->pairs = strdup(list ? list : "");
    if (!env_requests->all || !env_requests->pairs) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for the settings of %s", library->backend);
    }
    add_own(env_requests, library, info);
    tutti_status status = TUTTI_OK;
    char *rest = env_requests->pairs;
    for (char *pair = strsep(&rest, ";"); pair && status == TUTTI_OK; pair = strsep(&rest, ";")) {
        char *equals = strchr(pair, '='); /* the core has checked the form; an empty last pair has none */
        if (equals) {
            *equals = '\0';
            status = add_pair(env_requests, library, pair, equals + 1, error);
        }
    }
    return status;
}

static void release(struct env_requests *env_requests)
{
    free(env_requests->all);
    free(env_requests->pairs);
}

static tutti_status set_variable(const struct tti_nccl_library *library, const struct env_request *env_request,
                                 tutti_error *error)
{
    if (same_value(env_request, getenv(env_request->variable))) {
        return TUTTI_OK;
    }
    if ((env_request->value ? setenv(env_request->variable, env_request->value, 1) : unsetenv(env_request->variable)) !=
        0) {
        char key[128];
        return tti_error_system(error, errno, "%s: the variable %s cannot be set", key_of(library, env_request, key),
                                env_request->variable);
    }
    return TUTTI_OK;
}

static tutti_status compare_variable(const struct tti_nccl_library *library, const struct env_request *env_request,
                                     tutti_error *error)
{
    const char *value = getenv(env_request->variable);
    char key[128];
    if (same_value(env_request, value)) {
        return TUTTI_OK;
    }
    return tti_error_set(error, TUTTI_BAD_STATE,
                         "%s asks for %s%s%s%.100s, but this process uses NCCL or RCCL %s %s%s%.100s, which they read "
                         "once: give all groups of a process the same",
                         key_of(library, env_request, key), env_request->value ? "" : "no ", env_request->variable,
                         env_request->value ? "=" : "", env_request->value ? env_request->value : "",
                         value ? "with" : "without", env_request->variable, value ? "=" : "", value ? value : "");
}

tutti_status tti_nccl_apply_options(const struct tti_nccl_library *library, const tutti_open_info *info,
                                    tutti_error *error)
{
    struct env_requests env_requests = {0};
    tutti_status status = collect(&env_requests, library, info, error);
    if (status == TUTTI_OK) {
        tti_fork_mutex_lock(&lock);
        for (size_t i = 0; status == TUTTI_OK && i < env_requests.count; i++) {
            status = in_use ? compare_variable(library, &env_requests.all[i], error)
                            : set_variable(library, &env_requests.all[i], error);
        }
        in_use = in_use || status == TUTTI_OK;
        tti_fork_mutex_unlock(&lock);
    }
    release(&env_requests);
    return status;
}

tti_nccl_config tti_nccl_config_of(const struct tti_nccl_library *library, const tutti_open_info *info)
{
    tti_nccl_config config = {.size = sizeof(config),
                              .magic = TTI_NCCL_CONFIG_MAGIC,
                              .version = TTI_NCCL_CONFIG_VERSION,
                              .blocking = 0,
                              .cga_cluster_size = TTI_NCCL_UNDEFINED,
                              .min_ctas = TTI_NCCL_UNDEFINED,
                              .max_ctas = TTI_NCCL_UNDEFINED,
                              .split_share = TTI_NCCL_UNDEFINED};
    const char *channels = setting_of(library, info, "channels");
    if (channels && library->version >= CONFIG_CHANNELS) {
        config.min_ctas = config.max_ctas = (int)strtol(channels, NULL, 10);
    }
    return config;
}

__attribute__((format(printf, 2, 3))) static void add_sentence(struct tti_text *t, const char *format, ...)
{
    if (t->length > 0) {
        tti_append(t, "; ");
    }
    va_list arguments;
    va_start(arguments, format);
    tti_append_list(t, format, arguments);
    va_end(arguments);
}

static void ignored_channels(const struct tti_nccl_library *library, const char *channels, struct tti_text *t)
{
    static const char *const above[] = {"NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"};
    char version[16];
    for (size_t i = 0; library->version >= CONFIG_CHANNELS && i < sizeof(above) / sizeof(above[0]); i++) {
        const char *value = getenv(above[i]);
        if (value && strcmp(value, channels) != 0) {
            add_sentence(t, "%s.channels=%s has no effect: %s=%s of the environment overrides it", library->backend,
                         channels, above[i], value);
        }
    }
    if (library->device->type == kDLCUDA && library->version < MORE_CHANNELS && strtol(channels, NULL, 10) > 32) {
        tti_nccl_version_text(library->version, version);
        add_sentence(t, "%s.channels=%s counts as 32, the most that %s %s has", library->backend, channels,
                     library->display_name, version);
    }
}

size_t tti_nccl_setting_warnings(const struct tti_nccl_library *library, const tutti_open_info *info, char *text,
                                 size_t capacity)
{
    static const char *const by_variable[] = {"algo", "buffer_size", "channels", "debug", "env"};
    const char *threshold = setting_of(library, info, "tree_threshold");
    const char *channels = setting_of(library, info, "channels");
    const char *blocking = getenv("NCCL_COMM_BLOCKING");
    struct tti_text t = {.at = text, .capacity = capacity};
    if (capacity > 0) {
        text[0] = '\0';
    }
    if (threshold) {
        add_sentence(&t,
                     "%s.tree_threshold=%s has no effect: %s has had no such threshold since 2.5, and chooses "
                     "for each size by its model of the machine (%s.algo selects ring or tree for all)",
                     library->backend, threshold, library->display_name, library->backend);
    }
    if (channels) {
        ignored_channels(library, channels, &t);
    }
    if (blocking && strcmp(blocking, "1") == 0) {
        add_sentence(&t, "NCCL_COMM_BLOCKING=1 of the environment makes calls of %s block, and no deadline ends them",
                     library->display_name);
    }
    for (size_t i = 0; library->loaded && i < sizeof(by_variable) / sizeof(by_variable[0]); i++) {
        const bool of_communicator = strcmp(by_variable[i], "channels") == 0 && library->version >= CONFIG_CHANNELS;
        if (setting_of(library, info, by_variable[i]) && !of_communicator) {
            add_sentence(&t,
                         "%s.%s comes too late if the program has used %s before: it was in the process "
                         "already, and reads its variables once",
                         library->backend, by_variable[i], library->display_name);
        }
    }
    return t.length;
}

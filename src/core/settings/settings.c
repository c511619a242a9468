/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of all settings, and the code that resolves them for one group. One row of the table has everything about a
 * setting: key, environment variable, default, choices, range, help. `tutti info --config` and the errors are made from
 * the same rows, so they cannot differ. Each value is checked once, when it is stored, and is kept as text in its plain
 * form (a number as decimal digits, a bool as 0 or 1). So readers need no checks of their own.
 */
#include "core/settings/settings.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/number.h"
#include "engine/memory/layout.h"

#define KIB    INT64_C(1024)
#define DAY_MS (INT64_C(24) * 3600 * 1000)

/* In the order of the enum; keys ascend, so that lists read well. */
static const tutti_config_key_info table[TTI_SETTINGS] = {
    [TTI_SET_BACKEND] = {0, TUTTI_CONFIG_STRING, "backend", "TUTTI_BACKEND", "auto", "",
                         "run the group on this backend: auto, a name that `tutti info` lists, or one per device type "
                         "(cpu:shm,cuda:nccl); the same on all ranks",
                         0, 0},
    [TTI_SET_CHECK_CALLS] = {0, TUTTI_CONFIG_BOOL, "check_calls", "TUTTI_CHECK_CALLS", "0", "",
                             "compare the calls of all ranks before each collective, on every backend: if they differ, "
                             "all ranks get MISMATCH at once; costs one more exchange per call; the same on all ranks",
                             0, 1},
    [TTI_SET_DEVICE] =
        {0, TUTTI_CONFIG_CHOICE, "device", "TUTTI_DEVICE", "auto", "auto|cpu|cuda|rocm",
         "use tensors on this kind of device; auto = on the CPU, or on a device if the backend takes no CPU tensors", 0,
         0},
    [TTI_SET_DEVICE_CHUNK] = {0, TUTTI_CONFIG_BYTES, "device.chunk", "TUTTI_DEVICE_CHUNK", "1048576", "",
                              "copy device tensors through host memory in chunks of this many bytes, if the backend "
                              "cannot use device memory; the same on all ranks",
                              4 * KIB, 1024 * KIB *KIB},
    [TTI_SET_DEVICE_INDEX] =
        {0, TUTTI_CONFIG_INT, "device_index", "TUTTI_DEVICE_INDEX", "-1", "",
         "use the device with this index; -1 = the rank's index on this host, modulo the number of devices", -1, 4096},
    [TTI_SET_LANES] =
        {0, TUTTI_CONFIG_INT, "lanes", "TUTTI_LANES", "1", "",
         "give the group this many lanes, independent ordered streams of operations; the same on all ranks", 1,
         TUTTI_MAX_LANES},
    [TTI_SET_NAME] =
        {0, TUTTI_CONFIG_STRING, "name", "TUTTI_NAME", "", "",
         "separate this world from others at the same store; over callbacks new for each world; the same on "
         "all ranks; flight records show a code of it",
         0, 0},
    [TTI_SET_STORE] = {0, TUTTI_CONFIG_STRING, "store", "TUTTI_STORE", "", "",
                       "find the other ranks at this rendezvous: unix:NAME, tcp://HOST:PORT, file:PATH or memory:NAME; "
                       "empty = the rendezvous of the launcher",
                       0, 0},
    [TTI_SET_TIMEOUT_MS] = {0, TUTTI_CONFIG_INT, "timeout_ms", "TUTTI_TIMEOUT_MS", "300000", "",
                            "end every call with TIMEOUT after this many milliseconds, unless the call has a deadline "
                            "of its own; -1 = never",
                            -1, 365 * DAY_MS},
    [TTI_SET_ENGINE_CALIBRATE] =
        {0, TUTTI_CONFIG_CHOICE, "engine.calibrate", "TUTTI_ENGINE_CALIBRATE", "auto", "auto|off|again",
         "choose where thresholds that are auto come from: auto = a measurement of this machine, kept in a file; off = "
         "built-in values; again = a new measurement, which replaces the file",
         0, 0},
    [TTI_SET_ENGINE_HEAP] = {0, TUTTI_CONFIG_BOOL, "engine.heap", "TUTTI_ENGINE_HEAP", "1", "",
                             "share the memory of tutti_alloc and tutti_register between the ranks; no = leave it "
                             "private; the same on all ranks",
                             0, 1},
    [TTI_SET_ENGINE_HEAP_CAPACITY] =
        {0, TUTTI_CONFIG_BYTES, "engine.heap_capacity", "TUTTI_ENGINE_HEAP_CAPACITY", "0", "",
         "let tutti_alloc give a rank at most this many bytes of address space; 0 = as many as the machine has memory",
         0, INT64_C(1) << 40},
    [TTI_SET_ENGINE_ONE_SHOT] = {0, TUTTI_CONFIG_BYTES, "engine.one_shot", "TUTTI_ENGINE_ONE_SHOT", "auto", "auto",
                                 "all_reduce up to this many bytes in one step, in which every rank reduces whole "
                                 "tensors; auto = by the measurement of this machine",
                                 0, 64 * KIB *KIB},
    [TTI_SET_ENGINE_PACKETS] = {0, TUTTI_CONFIG_BYTES, "engine.packets", "TUTTI_ENGINE_PACKETS", "auto", "auto",
                                "send up to this many bytes, but at least 100, together with the arrival; auto = by "
                                "the measurement of this machine",
                                0, TTI_INLINE_MOST},
    [TTI_SET_ENGINE_REDUCE_SLICED_BYTES] =
        {0, TUTTI_CONFIG_BYTES, "engine.reduce_sliced_bytes", "TUTTI_ENGINE_REDUCE_SLICED_BYTES", "auto", "auto",
         "reduce from this many bytes on by slices, one for each rank, instead of all on the root; auto = with 8 and "
         "more ranks that have a CPU each, by the measurement of this machine",
         0, INT64_C(1) << 60},
    [TTI_SET_ENGINE_SINGLE_COPY] =
        {0, TUTTI_CONFIG_BOOL, "engine.single_copy", "TUTTI_ENGINE_SINGLE_COPY", "1", "",
         "let the kernel copy private tensors between processes (process_vm_readv), where this is allowed and faster",
         0, 1},
    [TTI_SET_ENGINE_SINGLE_COPY_BYTES] =
        {0, TUTTI_CONFIG_BYTES, "engine.single_copy_bytes", "TUTTI_ENGINE_SINGLE_COPY_BYTES", "auto", "auto",
         "use single copy from this many bytes on, wherever the ranks run; auto = between ranks that are far from each "
         "other, for messages above 256K where it costs less than their ring, and on some CPUs for a large all_to_all; "
         "on Zen 5 never",
         0, 64 * KIB *KIB},
    [TTI_SET_ENGINE_SPIN_US] =
        {0, TUTTI_CONFIG_INT, "engine.spin_us", "TUTTI_ENGINE_SPIN_US", "-1", "",
         "spin for this many microseconds before a waiting rank yields; -1 = by the number of ranks per CPU", -1,
         1000000},
    [TTI_SET_ENGINE_STAGE] = {0, TUTTI_CONFIG_BYTES, "engine.stage", "TUTTI_ENGINE_STAGE", "auto", "auto",
                              "give each rank a staging ring of this many bytes per lane, for private tensors; auto = "
                              "by the measurement of this machine",
                              256 * KIB, 1024 * KIB *KIB},
    [TTI_SET_ENGINE_STREAM_BYTES] = {0, TUTTI_CONFIG_BYTES, "engine.stream_bytes", "TUTTI_ENGINE_STREAM_BYTES", "auto",
                                     "auto",
                                     "write results past the caches if the results of all ranks have at least this "
                                     "many bytes together; auto = by operation and processor (docs/performance.md)",
                                     0, INT64_C(1) << 60},
    [TTI_SET_ENGINE_WINDOW] =
        {0, TUTTI_CONFIG_BYTES, "engine.window", "TUTTI_ENGINE_WINDOW", "auto", "auto",
         "stage this many bytes of a tensor in one step, at most an eighth of engine.stage, which grows with it; "
         "auto = by the measurement of this machine; the same on all ranks",
         16 * KIB, 64 * KIB *KIB},
    [TTI_SET_ENGINE_YIELD_US] =
        {0, TUTTI_CONFIG_INT, "engine.yield_us", "TUTTI_ENGINE_YIELD_US", "-1", "",
         "yield for this many microseconds before a waiting rank sleeps; -1 = by the number of ranks per CPU", -1,
         1000000},
    [TTI_SET_ENGINE_ZERO_COPY] = {0, TUTTI_CONFIG_BOOL, "engine.zero_copy", "TUTTI_ENGINE_ZERO_COPY", "1", "",
                                  "read and write tensors of other ranks in place, if the ranks are threads of one "
                                  "process; the same on all ranks",
                                  0, 1},
    [TTI_SET_ENGINE_ZERO_COPY_BYTES] = {0, TUTTI_CONFIG_BYTES, "engine.zero_copy_bytes", "TUTTI_ENGINE_ZERO_COPY_BYTES",
                                        "auto", "auto",
                                        "read and write tensors in the heap in place from this many bytes on; auto = "
                                        "by the measurement of this machine",
                                        0, 64 * KIB *KIB},
    [TTI_SET_FAULT_BACKEND] = {0, TUTTI_CONFIG_STRING, "fault.backend", "TUTTI_FAULT_BACKEND", "shm", "",
                               "run this backend below the backend fault", 0, 0},
    [TTI_SET_FAULT_RULES] =
        {0, TUTTI_CONFIG_STRING, "fault.rules", "TUTTI_FAULT_RULES", "", "",
         "inject faults into the backend fault by these rules, as in all_reduce:delay=2ms;send:error=TIMEOUT@3", 0, 0},
    [TTI_SET_FLIGHT] = {0, TUTTI_CONFIG_CHOICE, "flight", "TUTTI_FLIGHT", "on", "off|on|full",
                        "record the operations of each rank: on = without times for small calls; full = with times for "
                        "all calls; off = nothing",
                        0, 0},
    [TTI_SET_GLOO_INTERFACE] = {0, TUTTI_CONFIG_STRING, "gloo.interface", "TUTTI_GLOO_INTERFACE", "", "",
                                "connect over this network interface; empty = the fastest interface over which all "
                                "ranks reach each other, found by a trial, or loopback if all ranks are on one host",
                                0, 0},
    [TTI_SET_GLOO_SEGMENT] = {0, TUTTI_CONFIG_BYTES, "gloo.segment", "TUTTI_GLOO_SEGMENT", "262144", "",
                              "send large tensors in chunks of this many bytes; the value of rank 0 counts", 4 * KIB,
                              64 * KIB *KIB},
    [TTI_SET_HIER_CHUNK] =
        {0, TUTTI_CONFIG_BYTES, "hier.chunk", "TUTTI_HIER_CHUNK", "0", "",
         "pass large tensors between the steps inside hosts and the steps between hosts in chunks "
         "of this many bytes, so that the steps overlap; 0 = by the number of hosts; the same on all "
         "ranks",
         0, 1024 * KIB *KIB},
    [TTI_SET_HIER_INNER] = {0, TUTTI_CONFIG_STRING, "hier.inner", "TUTTI_HIER_INNER", "auto", "",
                            "use this backend inside each host; auto = the best one available; the same on all ranks",
                            0, 0},
    [TTI_SET_HIER_OUTER] =
        {0, TUTTI_CONFIG_STRING, "hier.outer", "TUTTI_HIER_OUTER", "auto", "",
         "use this backend between hosts; auto = the best one that joins several hosts; the same on all ranks", 0, 0},
    [TTI_SET_MPI_BLOCKING] =
        {0, TUTTI_CONFIG_CHOICE, "mpi.blocking", "TUTTI_MPI_BLOCKING", "auto", "auto|always|never",
         "call MPI's blocking collectives, which no deadline can end; auto = never; the same on all ranks", 0, 0},
    [TTI_SET_MPI_BUFFER_SIZE] =
        {0, TUTTI_CONFIG_BYTES, "mpi.buffer_size", "TUTTI_MPI_BUFFER_SIZE", "1048576", "",
         "use a scratch buffer of this many bytes for data that MPI cannot take directly; the value of rank 0 counts",
         4 * KIB, 1024 * KIB *KIB},
    [TTI_SET_MPI_CUDA_AWARE] =
        {0, TUTTI_CONFIG_CHOICE, "mpi.cuda_aware", "TUTTI_MPI_CUDA_AWARE", "auto", "auto|yes|no",
         "pass device memory to MPI; auto = if the MPI library says that it takes device memory; the same on all ranks",
         0, 0},
    [TTI_SET_MPI_ENV] = {0, TUTTI_CONFIG_LIST, "mpi.env", "TUTTI_MPI_ENV", "", "",
                         "set these environment variables before MPI starts", 0, 0},
    [TTI_SET_MPI_PROFILING] =
        {0, TUTTI_CONFIG_BOOL, "mpi.profiling", "TUTTI_MPI_PROFILING", "0", "",
         "count and time the operations of each group; each rank writes its table to stderr when it destroys the group",
         0, 1},
    [TTI_SET_MPI_THREAD_LEVEL] =
        {0, TUTTI_CONFIG_CHOICE, "mpi.thread_level", "TUTTI_MPI_THREAD_LEVEL", "multiple",
         "single|funneled|serialized|multiple",
         "request this thread level when Tutti starts MPI; below multiple, Tutti makes its MPI calls one at a time", 0,
         0},
    [TTI_SET_MPI_TUNING] = {0, TUTTI_CONFIG_LIST, "mpi.tuning", "TUTTI_MPI_TUNING", "",
                            "all_gather|all_gather_v|all_reduce|all_to_all|barrier|broadcast|gather|reduce|"
                            "reduce_scatter|reduce_scatter_block|scatter",
                            "choose algorithms for MPI's blocking collectives, by the names or numbers of the MPI "
                            "library, before MPI starts",
                            0, 0},
    /* RCCL has the same settings under keys of its own: a job may set both, and each row is one line of the lists. */
    [TTI_SET_NCCL_ALGO] = {0, TUTTI_CONFIG_CHOICE, "nccl.algo", "TUTTI_NCCL_ALGO", "auto", "auto|ring|tree",
                           "run all_reduce of every size on this algorithm; auto = the choice of NCCL", 0, 0},
    [TTI_SET_NCCL_BUFFER_SIZE] =
        {0, TUTTI_CONFIG_BYTES, "nccl.buffer_size", "TUTTI_NCCL_BUFFER_SIZE", "auto", "auto",
         "use buffers of this many bytes between two devices, for each channel; auto = the choice of NCCL (4M)",
         64 * KIB, 1024 * KIB *KIB},
    [TTI_SET_NCCL_CHANNELS] = {0, TUTTI_CONFIG_INT, "nccl.channels", "TUTTI_NCCL_CHANNELS", "auto", "auto",
                               "use this many channels side by side; auto = the choice of NCCL", 1, 64},
    [TTI_SET_NCCL_DEBUG] = {0, TUTTI_CONFIG_CHOICE, "nccl.debug", "TUTTI_NCCL_DEBUG", "auto",
                            "auto|none|version|warn|info|trace",
                            "write log messages of NCCL up to this level; auto = the level of NCCL_DEBUG", 0, 0},
    [TTI_SET_NCCL_ENV] = {0, TUTTI_CONFIG_LIST, "nccl.env", "TUTTI_NCCL_ENV", "", "",
                          "set these environment variables before NCCL is first used", 0, 0},
    [TTI_SET_NCCL_HOST_STAGING] =
        {0, TUTTI_CONFIG_BOOL, "nccl.host_staging", "TUTTI_NCCL_HOST_STAGING", "0", "",
         "copy tensors in host memory to the device and back, if the group's device is cpu; no = refuse such a group",
         0, 1},
    [TTI_SET_NCCL_NATIVE_MIN_MAX] = {0, TUTTI_CONFIG_BOOL, "nccl.native_min_max", "TUTTI_NCCL_NATIVE_MIN_MAX", "0", "",
                                     "use the minimum and maximum of NCCL for floats, which drop NaNs; no = compute "
                                     "them in host memory, where they give NaN",
                                     0, 1},
    [TTI_SET_NCCL_TREE_THRESHOLD] = {0, TUTTI_CONFIG_BYTES, "nccl.tree_threshold", "TUTTI_NCCL_TREE_THRESHOLD", "auto",
                                     "auto",
                                     "use trees for all_reduce up to this many bytes; versions since 2.5 ignore this, "
                                     "and tutti_group_describe says so",
                                     0, INT64_C(1) << 40},
    [TTI_SET_RCCL_ALGO] = {0, TUTTI_CONFIG_CHOICE, "rccl.algo", "TUTTI_RCCL_ALGO", "auto", "auto|ring|tree",
                           "run all_reduce of every size on this algorithm; auto = the choice of RCCL", 0, 0},
    [TTI_SET_RCCL_BUFFER_SIZE] =
        {0, TUTTI_CONFIG_BYTES, "rccl.buffer_size", "TUTTI_RCCL_BUFFER_SIZE", "auto", "auto",
         "use buffers of this many bytes between two devices, for each channel; auto = the choice of RCCL (4M)",
         64 * KIB, 1024 * KIB *KIB},
    [TTI_SET_RCCL_CHANNELS] = {0, TUTTI_CONFIG_INT, "rccl.channels", "TUTTI_RCCL_CHANNELS", "auto", "auto",
                               "use this many channels side by side; auto = the choice of RCCL", 1, 128},
    [TTI_SET_RCCL_DEBUG] = {0, TUTTI_CONFIG_CHOICE, "rccl.debug", "TUTTI_RCCL_DEBUG", "auto",
                            "auto|none|version|warn|info|trace",
                            "write log messages of RCCL up to this level; auto = the level of NCCL_DEBUG", 0, 0},
    [TTI_SET_RCCL_ENV] = {0, TUTTI_CONFIG_LIST, "rccl.env", "TUTTI_RCCL_ENV", "", "",
                          "set these environment variables before RCCL is first used", 0, 0},
    [TTI_SET_RCCL_HOST_STAGING] =
        {0, TUTTI_CONFIG_BOOL, "rccl.host_staging", "TUTTI_RCCL_HOST_STAGING", "0", "",
         "copy tensors in host memory to the device and back, if the group's device is cpu; no = refuse such a group",
         0, 1},
    [TTI_SET_RCCL_NATIVE_MIN_MAX] = {0, TUTTI_CONFIG_BOOL, "rccl.native_min_max", "TUTTI_RCCL_NATIVE_MIN_MAX", "0", "",
                                     "use the minimum and maximum of RCCL for floats, which drop NaNs; no = compute "
                                     "them in host memory, where they give NaN",
                                     0, 1},
    [TTI_SET_RCCL_TREE_THRESHOLD] = {0, TUTTI_CONFIG_BYTES, "rccl.tree_threshold", "TUTTI_RCCL_TREE_THRESHOLD", "auto",
                                     "auto",
                                     "use trees for all_reduce up to this many bytes; versions since 2.5 ignore this, "
                                     "and tutti_group_describe says so",
                                     0, INT64_C(1) << 40},
    [TTI_SET_SHM_DIRECTORY] =
        {0, TUTTI_CONFIG_STRING, "shm.directory", "TUTTI_SHM_DIRECTORY", "/dev/shm", "",
         "share memory through this directory between ranks of one host in different network namespaces (containers): "
         "all of them need the same directory, under any path of up to 48 bytes",
         0, 0},
};

tutti_status tutti_config_key(size_t index, tutti_config_key_info *info)
{
    if (!info || info->size == 0) {
        return TUTTI_INVALID_ARGUMENT;
    }
    if (index >= TTI_SETTINGS) {
        return TUTTI_NOT_FOUND;
    }
    uint32_t size = info->size < sizeof(*info) ? info->size : (uint32_t)sizeof(*info);
    memcpy(info, &table[index], size);
    info->size = size;
    return TUTTI_OK;
}

static int find(const char *key, size_t length)
{
    for (int i = 0; i < TTI_SETTINGS; i++) {
        if (strlen(table[i].key) == length && strncmp(table[i].key, key, length) == 0) {
            return i;
        }
    }
    return -1;
}

static bool parse_number(const tutti_config_key_info *row, const char *text, int64_t *number)
{
    return row->type == TUTTI_CONFIG_BYTES ? tti_parse_bytes(text, row->minimum, row->maximum, number)
                                           : tti_parse_integer(text, row->minimum, row->maximum, number);
}

static bool parse_bool(const char *text, int64_t *number)
{
    static const char *const words[] = {"0", "no", "off", "false", "1", "yes", "on", "true"};
    for (int i = 0; i < 8; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *number = i / 4;
            return true;
        }
    }
    return false;
}

static bool is_choice(const char *choices, const char *text, size_t length)
{
    for (const char *c = memchr(text, '|', length) ? NULL : choices; length > 0 && c;
         c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL) {
        if (strncmp(c, text, length) == 0 && (c[length] == '|' || c[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* NAME=VALUE;NAME=VALUE with names among the choices, if there are any. */
static bool is_list(const char *choices, const char *text)
{
    for (const char *pair = text; *pair; pair += strcspn(pair, ";"), pair += *pair == ';') {
        const size_t length = strcspn(pair, "=;");
        if (length == 0 || pair[length] != '=' || (*choices && !is_choice(choices, pair, length))) {
            return false;
        }
    }
    return true;
}

/* Checks `text` and stores it in its plain form. `origin` is the key or the variable that it came from. */
static tutti_status store(struct tti_settings *settings, int which, const char *origin, const char *text,
                          tutti_error *error)
{
    const tutti_config_key_info *row = &table[which];
    char *value = settings->values[which];
    int64_t number;
    switch (row->type) {
    case TUTTI_CONFIG_INT:
    case TUTTI_CONFIG_BYTES:
        if (is_choice(row->choices, text, strlen(text))) {
            break; /* a name instead of a number */
        }
        if (!parse_number(row, text, &number)) {
            return tti_error_set(
                error, TUTTI_INVALID_ARGUMENT, "%s is \"%.60s\"; it must be %s%sa number from %lld to %lld%s", origin,
                text, row->choices, *row->choices ? " or " : "", (long long)row->minimum, (long long)row->maximum,
                row->type == TUTTI_CONFIG_BYTES ? ", K, M and G allowed" : "");
        }
        snprintf(value, TTI_SETTING_MAX, "%lld", (long long)number);
        return TUTTI_OK;
    case TUTTI_CONFIG_BOOL:
        if (!parse_bool(text, &number)) {
            return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s is \"%.60s\"; it must be yes or no", origin, text);
        }
        snprintf(value, TTI_SETTING_MAX, "%lld", (long long)number);
        return TUTTI_OK;
    case TUTTI_CONFIG_CHOICE:
        if (!is_choice(row->choices, text, strlen(text))) {
            return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s is \"%.60s\"; it must be one of %s", origin, text,
                                 row->choices);
        }
        break;
    case TUTTI_CONFIG_LIST:
        if (!is_list(row->choices, text)) {
            return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s is \"%.60s\"; it must be NAME=VALUE;NAME=VALUE%s%s",
                                 origin, text, *row->choices ? ", with names among " : "", row->choices);
        }
        break;
    default:
        break;
    }
    if (strlen(text) >= TTI_SETTING_MAX) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s is longer than %d bytes", origin, TTI_SETTING_MAX - 1);
    }
    snprintf(value, TTI_SETTING_MAX, "%s", text);
    return TUTTI_OK;
}

static tutti_status from_environment(struct tti_settings *settings, tutti_error *error)
{
    for (int i = 0; i < TTI_SETTINGS; i++) {
        const char *text = getenv(table[i].environment);
        if (text) {
            tutti_status status = store(settings, i, table[i].environment, text, error);
            if (status != TUTTI_OK) {
                return status;
            }
        }
    }
    return TUTTI_OK;
}

/* The list that "KEY.NAME=VALUE" adds a pair to, or -1; `*pair` becomes NAME=VALUE. */
static int find_list(const char *text, const char **pair)
{
    const char *dot = text;
    while ((dot = strpbrk(dot, ".=")) && *dot == '.') {
        const int which = find(text, (size_t)(dot - text));
        *pair = ++dot;
        if (which >= 0 && table[which].type == TUTTI_CONFIG_LIST) {
            return which;
        }
    }
    return -1;
}

static tutti_status add_to_list(struct tti_settings *settings, int which, const char *pair, tutti_error *error)
{
    char more[TTI_SETTING_MAX + 1]; /* one longer than fits is noticed by store */
    const char *before = tti_setting(settings, which);
    const size_t length = strlen(before);
    snprintf(more, sizeof(more), "%s%s%s", before, length > 0 && before[length - 1] != ';' ? ";" : "", pair);
    return store(settings, which, table[which].key, more, error);
}

static tutti_status from_list(const char *const *list, struct tti_settings *settings, tutti_error *error)
{
    for (; list && *list; list++) {
        const char *equals = strchr(*list, '=');
        const char *pair = NULL;
        int which = equals ? find(*list, (size_t)(equals - *list)) : -1;
        tutti_status status;
        if (which >= 0) {
            status = store(settings, which, table[which].key, equals + 1, error);
        } else if (equals && (which = find_list(*list, &pair)) >= 0) {
            status = add_to_list(settings, which, pair, error);
        } else if (equals) {
            status = tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                                   "the setting \"%.60s\" is unknown (`tutti info --config` lists all)", *list);
        } else {
            status = tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                                   "the setting \"%.60s\" has no value: write it as key=value (`tutti info --config` "
                                   "lists all keys)",
                                   *list);
        }
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

static tutti_status from_fields(const tutti_config *config, struct tti_settings *settings, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    char number[24];
    if (config->backend) {
        status = store(settings, TTI_SET_BACKEND, "config.backend", config->backend, error);
    }
    if (status == TUTTI_OK && config->device) {
        status = store(settings, TTI_SET_DEVICE, "config.device", config->device, error);
    }
    if (status == TUTTI_OK && config->device && strcasecmp(config->device, "cpu") != 0 &&
        strcasecmp(config->device, "auto") != 0) {
        snprintf(number, sizeof(number), "%d", config->device_index);
        status = store(settings, TTI_SET_DEVICE_INDEX, "config.device_index", number, error);
    }
    if (status == TUTTI_OK && config->store) {
        status = store(settings, TTI_SET_STORE, "config.store", config->store, error);
    }
    if (status == TUTTI_OK && config->lanes != 0) {
        snprintf(number, sizeof(number), "%d", config->lanes);
        status = store(settings, TTI_SET_LANES, "config.lanes", number, error);
    }
    if (status == TUTTI_OK && config->timeout_ms != 0) {
        snprintf(number, sizeof(number), "%lld", (long long)config->timeout_ms);
        status = store(settings, TTI_SET_TIMEOUT_MS, "config.timeout_ms", number, error);
    }
    return status;
}

struct tti_settings *tti_settings_retain(struct tti_settings *settings)
{
    /* relaxed: the caller has a reference */
    atomic_fetch_add_explicit(&settings->references, 1, memory_order_relaxed);
    return settings;
}

void tti_settings_release(struct tti_settings *settings)
{
    /* acq_rel: the last one frees after all others have read */
    if (settings && atomic_fetch_sub_explicit(&settings->references, 1, memory_order_acq_rel) == 1) {
        free(settings);
    }
}

static bool asks_for_something(const tutti_config *config)
{
    return config && (config->backend || config->device || config->store || config->lanes != 0 ||
                      config->timeout_ms != 0 || (config->settings && *config->settings));
}

static tutti_status resolve(const tutti_config *config, const struct tti_settings *inherited,
                            struct tti_settings *settings, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    if (inherited) {
        memcpy(settings->values, inherited->values, sizeof(settings->values));
    } else {
        for (int i = 0; i < TTI_SETTINGS; i++) {
            snprintf(settings->values[i], TTI_SETTING_MAX, "%s", table[i].default_value);
        }
        status = from_environment(settings, error);
    }
    if (status == TUTTI_OK && config && (status = from_list(config->settings, settings, error)) == TUTTI_OK) {
        status = from_fields(config, settings, error);
    }
    if (status == TUTTI_OK && tti_setting_number(settings, TTI_SET_TIMEOUT_MS) == 0) {
        snprintf(settings->values[TTI_SET_TIMEOUT_MS], TTI_SETTING_MAX, "%d", TUTTI_TIMEOUT_MS);
    }
    return status;
}

tutti_status tti_settings_resolve(const tutti_config *config, struct tti_settings *inherited,
                                  struct tti_settings **settings, tutti_error *error)
{
    if (inherited && !asks_for_something(config)) {
        *settings = tti_settings_retain(inherited);
        return TUTTI_OK;
    }
    struct tti_settings *s = malloc(sizeof(*s));
    tutti_status status;
    if (s) {
        atomic_init(&s->references, 1);
        status = resolve(config, inherited, s, error);
    } else {
        status = tti_error_set(error, TUTTI_NO_MEMORY, "no memory for the settings of a group");
    }
    if (status != TUTTI_OK) {
        free(s);
        s = NULL;
    }
    *settings = s;
    return status;
}

const char *tti_setting(const struct tti_settings *settings, int which)
{
    return settings->values[which];
}

int64_t tti_setting_number(const struct tti_settings *settings, int which)
{
    return strtoll(settings->values[which], NULL, 10);
}

const char *tti_setting_by_key(const void *settings, const char *key)
{
    int which = find(key, strlen(key));
    return which < 0 ? NULL : tti_setting(settings, which);
}

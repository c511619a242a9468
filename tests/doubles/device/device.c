/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The devices as a whole: when they exist, which of them, and how they end. A fork's child has none, because their
 * threads stayed in the parent: every call is refused, as in the vendors' libraries. When the process ends, queued work
 * is dropped. Host functions and kernels that run at that time are not waited for, since they may never return.
 */
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device_state.h"

struct tti_double_state tti_double = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Set in a fork's child, which has one thread then, and read by its threads: relaxed. The lock is not used there,
 * because another thread of the parent may have held it. */
static atomic_bool forked;
static pthread_once_t clock_once = PTHREAD_ONCE_INIT;

static struct table {
    void **objects;
    size_t count;
    size_t capacity;
} tables[TTI_DOUBLE_HANDLES];

/* Not canonical, so no access through a handle can succeed. */
static const uintptr_t handle_base[TTI_DOUBLE_HANDLES] = {0x5354000000000000u, 0x4556000000000000u};

static void *handle_of(enum tti_double_handle type, size_t index)
{
    const uintptr_t value = handle_base[type] + 16 * (index + 1);
    void *handle = NULL;
    memcpy(&handle, &value, sizeof(handle));
    return handle;
}

/* Where the object of a handle is kept; NULL if there is no such handle. */
static void **object_of(enum tti_double_handle type, const void *handle)
{
    const uintptr_t number = (uintptr_t)handle - handle_base[type];
    const size_t index = number / 16 - 1;
    return number % 16 == 0 && index < tables[type].count ? &tables[type].objects[index] : NULL;
}

void *tti_double_handle_new(enum tti_double_handle type, void *object)
{
    struct table *table = &tables[type];
    if (table->count == table->capacity) {
        const size_t capacity = table->capacity ? 2 * table->capacity : 64;
        void **objects = realloc(table->objects, capacity * sizeof(*objects));
        if (!objects) {
            return NULL;
        }
        table->objects = objects;
        table->capacity = capacity;
    }
    table->objects[table->count] = object;
    return handle_of(type, table->count++);
}

void *tti_double_handle_get(enum tti_double_handle type, const void *handle)
{
    void **object = object_of(type, handle);
    return object ? *object : NULL;
}

void tti_double_handle_drop(enum tti_double_handle type, const void *handle)
{
    void **object = object_of(type, handle);
    if (object) {
        *object = NULL;
    }
}

void tti_double_handle_drop_all(enum tti_double_handle type, int device, bool (*of)(void *object, int device))
{
    for (size_t i = 0; i < tables[type].count; i++) {
        if (tables[type].objects[i] && of(tables[type].objects[i], device)) {
            tables[type].objects[i] = NULL;
        }
    }
}

static void set_clock(void)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) || pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) ||
        pthread_cond_init(&tti_double.changed, &attributes)) {
        fprintf(stderr, "%s: no condition variable\n", tti_double_vendor.variable);
        abort();
    }
    pthread_condattr_destroy(&attributes);
}

int64_t tti_double_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void tti_double_sleep(int64_t nanoseconds)
{
    const int64_t until = tti_double_now() + nanoseconds;
    const struct timespec time = {until / 1000000000, until % 1000000000};
    pthread_cond_timedwait(&tti_double.changed, &tti_double.lock, &time);
}

static void in_child(void)
{
    atomic_store_explicit(&forked, true, memory_order_relaxed);
}

static bool is_child(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}

/* The devices that the vendor's variable lets this process see: "1,0". The first that does not exist ends the list. */
static void see_devices(const struct tti_double_settings *settings)
{
    const char *text = getenv(tti_double_vendor.visible);
    for (int i = 0; !text && i < settings->devices; i++) {
        tti_double.devices[tti_double.count++].physical = i;
    }
    while (text && *text && tti_double.count < TTI_DOUBLE_DEVICES) {
        char *end = NULL;
        errno = 0;
        const long index = strtol(text, &end, 10);
        if (end == text || errno || index < 0 || index >= settings->devices) {
            break;
        }
        tti_double.devices[tti_double.count++].physical = (int)index;
        text = *end == ',' ? end + 1 : "";
    }
}

int tti_double_init(void)
{
    const struct tti_double_settings *settings = tti_double_settings();
    pthread_once(&clock_once, set_clock);
    pthread_mutex_lock(&tti_double.lock);
    int code = settings->init;
    if (!code && !tti_double.initialised) {
        tti_double.count = 0;
        see_devices(settings);
        if (tti_double.count == 0) {
            code = TTI_DOUBLE_NO_DEVICE;
        } else if (pthread_atfork(NULL, NULL, in_child)) {
            code = TTI_DOUBLE_OUT_OF_MEMORY;
        } else {
            tti_double.initialised = true;
        }
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

static _Thread_local bool in_host_function;

int tti_double_enter_early(const char *function)
{
    if (is_child()) {
        return TTI_DOUBLE_NOT_INITIALIZED;
    }
    tti_double_settings();
    pthread_mutex_lock(&tti_double.lock);
    int code = tti_double_fault_for_call(TTI_DOUBLE_FAIL, function);
    if (tti_double.ending) {
        code = TTI_DOUBLE_DEINITIALIZED;
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code ? code : tti_double_foreign_code(0) ? TTI_DOUBLE_NOT_PERMITTED : TTI_DOUBLE_OK;
}

int tti_double_enter(const char *function)
{
    int code = tti_double_enter_early(function);
    if (!code) {
        pthread_mutex_lock(&tti_double.lock);
        code = tti_double.initialised ? TTI_DOUBLE_OK : TTI_DOUBLE_NOT_INITIALIZED;
        pthread_mutex_unlock(&tti_double.lock);
    }
    return code;
}

bool tti_double_foreign_code(int change)
{
    in_host_function = in_host_function ? change >= 0 : change > 0;
    return in_host_function;
}

int tti_double_count(void)
{
    return tti_double.count;
}

int tti_double_version(void)
{
    return tti_double_settings()->version;
}

int tti_double_physical(int device)
{
    return tti_double.devices[device].physical;
}

/* The same in every process of this machine, different on another one and after a restart. */
void tti_double_uuid(int device, unsigned char uuid[TTI_DOUBLE_UUID])
{
    char boot[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(boot, sizeof(boot), file)) {
            boot[0] = 0;
        }
        fclose(file);
    }
    char name[128];
    snprintf(name, sizeof(name), "%s %d %s", tti_double_vendor.variable, tti_double_physical(device), boot);
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, once more for each octet of the identifier */
    for (int i = 0; i < TTI_DOUBLE_UUID; i++) {
        for (const char *c = name; *c; c++) {
            hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
        }
        uuid[i] = (unsigned char)(hash >> 40);
    }
}

int tti_double_sticky(int device)
{
    pthread_mutex_lock(&tti_double.lock);
    const int code = tti_double.devices[device].error;
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

int tti_double_synchronize(int device)
{
    pthread_mutex_lock(&tti_double.lock);
    const int code = tti_double_device_drain(device);
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

void tti_double_reset(int device)
{
    pthread_mutex_lock(&tti_double.lock);
    tti_double_streams_close(device);
    tti_double_events_close(device);
    tti_double_blocks_close(device);
    tti_double.devices[device].error = 0;
    pthread_mutex_unlock(&tti_double.lock);
}

void *tti_double_shadow(const void *pointer, size_t bytes, int *device)
{
    if (is_child()) {
        return NULL;
    }
    void *shadow = NULL;
    pthread_mutex_lock(&tti_double.lock);
    const struct tti_double_block *block = tti_double_block_at((uintptr_t)pointer);
    const size_t offset = block ? (uintptr_t)pointer - block->begin : 0;
    if (block && bytes <= block->bytes - offset) {
        shadow = block->shadow + offset;
        if (device) {
            *device = block->kind == TTI_DOUBLE_PINNED || block->kind == TTI_DOUBLE_REGISTERED ? -1 : block->device;
        }
    }
    pthread_mutex_unlock(&tti_double.lock);
    return shadow;
}

/* Runs after the process' own exit handlers, so those can still use the devices. */
__attribute__((destructor)) static void end_process(void)
{
    if (is_child()) {
        return;
    }
    pthread_mutex_lock(&tti_double.lock);
    tti_double.ending = true;
    if (tti_double.initialised) {
        pthread_cond_broadcast(&tti_double.changed);
        for (struct tti_double_stream *s = tti_double.streams; s; s = s->next) {
            pthread_cond_signal(&s->wanted);
        }
        while (tti_double.workers > 0) {
            pthread_cond_wait(&tti_double.changed, &tti_double.lock);
        }
    }
    pthread_mutex_unlock(&tti_double.lock);
}

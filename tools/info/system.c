/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine under the library. What the engine relies on is tried out rather than guessed from version numbers:
 * containers and seccomp filters take away system calls that the kernel has.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host/cpu.h"
#include "base/host/cpu_set.h"
#include "base/host/text_file.h"
#include "base/wait/futex_waitv.h"
#include "info/info.h"

#define LIMIT_NS 1000000000 /* of a wait that should end at once */

/* "NUMBER kB" behind the key; 0: there is none. */
static int64_t bytes_of(const char *text, const char *key)
{
    char value[64];
    long long kib = 0;
    return tti_find_value(text, key, value, sizeof(value)) && sscanf(value, "%lld kB", &kib) == 1 ? kib * 1024 : 0;
}

static void why_not(char *text, size_t capacity, const char *what)
{
    snprintf(text, capacity, "%s: %s", what, strerror(errno));
}

/* A memory file, mapped by its owner and sealed against writes of other processes, as each rank's segment is. */
static void try_memfd(char *why, size_t capacity)
{
    why[0] = '\0';
    size_t length = (size_t)sysconf(_SC_PAGESIZE);
    int fd = memfd_create("tutti-info", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        why_not(why, capacity, "memfd_create");
        return;
    }
    void *memory = MAP_FAILED;
    if (ftruncate(fd, (off_t)length) != 0) {
        why_not(why, capacity, "ftruncate");
    } else if ((memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        why_not(why, capacity, "mmap");
    } else if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
        why_not(why, capacity, "sealing against future writes (Linux 5.1)");
    }
    if (memory != MAP_FAILED) {
        munmap(memory, length);
    }
    close(fd);
}

/* Waits for a word that has changed already: where the call exists, it fails with EAGAIN at once. */
static void try_futex_waitv(char *why, size_t capacity)
{
    const uint32_t word = 1;
    const struct tti_waitv entry = {.value = 0, .address = (uintptr_t)&word, .flags = TTI_WAITV_U32};
    why[0] = '\0';
    if (tti_waitv(&entry, 1, tti_now_ns() + LIMIT_NS) != -1) {
        errno = EPROTO;
    }
    if (errno != EAGAIN) {
        why_not(why, capacity, "futex_waitv (Linux 5.16)");
    }
}

void tti_info_system(struct tti_system_info *system)
{
    memset(system, 0, sizeof(*system));
    struct utsname name;
    if (uname(&name) == 0) {
        snprintf(system->kernel, sizeof(system->kernel), "%s", name.release);
        snprintf(system->machine, sizeof(system->machine), "%s", name.machine);
    }
    if (!tti_cpu_model(system->cpu, sizeof(system->cpu))) {
        snprintf(system->cpu, sizeof(system->cpu), "unknown");
    }
    struct tti_cpus cpus;
    if (tti_cpus_allowed(&cpus)) {
        tti_cpus_format(&cpus, system->cpus, sizeof(system->cpus));
        system->cpu_count = (int)tti_cpus_count(&cpus);
    }
    system->cpu_quota = tti_cpu_quota();
    system->page_size = sysconf(_SC_PAGESIZE);
    char memory[4096];
    tti_read_text(memory, sizeof(memory), "/proc/meminfo");
    system->huge_page_size = bytes_of(memory, "Hugepagesize");
    system->memory_available = bytes_of(memory, "MemAvailable");
    try_memfd(system->memfd, sizeof(system->memfd));
    try_futex_waitv(system->futex_waitv, sizeof(system->futex_waitv));
}

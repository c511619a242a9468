/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libraries that --vs may name, with their settings. The settings t and tm are the best known ones for one host: t
 * makes more messages eager and copies through shared memory instead of asking the kernel to; tm also keeps malloc from
 * giving temporary buffers back after each call, whose pages would have to be faulted in again.
 */
#include "bench/compare/contenders.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/beside/plugin.h"
#include "bench/compare/comparison.h"
#include "bench/measure/collectives.h"
#include "run/process/launch.h"

#define KEEP_MEMORY "MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=8589934592", "MALLOC_TOP_PAD_=67108864"

static const char *const openmpi_launch[] = {"--allow-run-as-root", "--oversubscribe", NULL};
static const char *const openmpi_tuned[] = {
    "--allow-run-as-root",   "--oversubscribe", "--mca", "btl_vader_single_copy_mechanism", "none",   "--mca",
    "btl_vader_eager_limit", "32768",           "--mca", "btl_vader_max_send_size",         "131072", NULL};
static const char *const mpich_launch[] = {NULL};
static const char *const keep_memory[] = {KEEP_MEMORY, NULL};
static const char *const mpich_tuned[] = {"UCX_TLS=self,posix", NULL};
static const char *const mpich_tuned_memory[] = {"UCX_TLS=self,posix", KEEP_MEMORY, NULL};

#define OPENMPI(settings, launch, environment)                                                                         \
    {                                                                                                                  \
        "openmpi", settings, "mpirun.openmpi", launch, environment, "openmpi", "openmpi-bin", "libopenmpi-dev", NULL   \
    }
#define MPICH(settings, environment)                                                                                   \
    {                                                                                                                  \
        "mpich", settings, "mpiexec.mpich", mpich_launch, environment, "mpich", "mpich", "libmpich-dev", NULL          \
    }

static const struct tti_compare_setup setups[TTI_COMPARE_CONTENDERS] = {
    OPENMPI("default", openmpi_launch, NULL),
    OPENMPI("t", openmpi_tuned, NULL),
    OPENMPI("tm", openmpi_tuned, keep_memory),
    MPICH("default", NULL),
    MPICH("t", mpich_tuned),
    MPICH("tm", mpich_tuned_memory),
    {"gloo", "ring", NULL, NULL, NULL, "gloo:ring", NULL, "libgloo-dev", NULL},
    {"gloo", "bcube", NULL, NULL, NULL, "gloo:bcube", NULL, "libgloo-dev", "all_reduce"},
};

static bool complain(const char *word, const char *why)
{
    fprintf(stderr, "tutti bench: --vs %s: %s\n", word, why);
    return false;
}

static bool has_cells(const struct tti_comparison *c, const struct tti_compare_setup *setup)
{
    return !setup->only || tti_bench_chosen(c->options, tti_bench_find(setup->only));
}

/* A contender that is named twice counts once, so there is always room. */
static void add(struct tti_comparison *c, const struct tti_compare_setup *setup)
{
    for (int i = 0; i < c->contender_count; i++) {
        if (c->contenders[i].setup == setup) {
            return;
        }
    }
    struct tti_compare_contender *contender = &c->contenders[c->contender_count++];
    const bool plain = strcmp(setup->settings, "default") == 0;
    *contender = (struct tti_compare_contender){.setup = setup};
    snprintf(contender->name, sizeof(contender->name), "%s%s%s", setup->library, plain ? "" : "/",
             plain ? "" : setup->settings);
}

/* LIBRARY stands for all of its settings, LIBRARY/SETTINGS for these. */
static bool add_word(struct tti_comparison *c, const char *word)
{
    const size_t length = strcspn(word, "/");
    const char *settings = word[length] == '/' ? word + length + 1 : NULL;
    bool library = false;
    bool found = false;
    for (size_t i = 0; i < TTI_COMPARE_CONTENDERS; i++) {
        const struct tti_compare_setup *setup = &setups[i];
        if (strlen(setup->library) != length || strncmp(setup->library, word, length) != 0) {
            continue;
        }
        library = true;
        if (settings ? strcmp(settings, setup->settings) == 0 : has_cells(c, setup)) {
            found = true;
            add(c, setup);
        }
    }
    if (!library) {
        return complain(word, "there is no such contender; there are openmpi, mpich and gloo");
    }
    return found || complain(word, "that library has no such settings; there are default, t and tm for openmpi and "
                                   "mpich, ring and bcube for gloo");
}

bool tti_compare_contenders(struct tti_comparison *c)
{
    bool good = true;
    char word[64];
    for (const char *list = c->compare->vs; good && list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL) {
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(list, ","), list);
        good = *word != '\0' ? add_word(c, word) : complain(c->compare->vs, "a name is empty");
    }
    return good;
}

void tti_compare_contender_free(struct tti_compare_contender *contender)
{
    free(contender->launcher);
    free(contender->missing);
    free(contender->failure);
    *contender = (struct tti_compare_contender){0};
}

/* ---- what is there ---- */

static void miss(struct tti_compare_contender *contender, const char *what, const char *package, const char *then)
{
    if (!contender->missing &&
        asprintf(&contender->missing, "%s; to have it: install %s (the name in Debian)%s", what, package, then) < 0) {
        contender->missing = strdup("it was not found");
    }
}

void tti_compare_find_programs(struct tti_comparison *c)
{
    for (int i = 0; i < c->contender_count; i++) {
        struct tti_compare_contender *contender = &c->contenders[i];
        const struct tti_compare_setup *setup = contender->setup;
        char why[512];
        char path[PATH_MAX];
        if (!has_cells(c, setup)) {
            contender->missing = strdup("its settings are about all_reduce alone, which is not measured");
            continue;
        }
        if (setup->launcher && tti_run_find_program(setup->launcher, &contender->launcher, why, sizeof(why)) != 0) {
            miss(contender, why, setup->install, "");
        }
        if (!tti_beside_find(setup->library, path, sizeof(path))) {
            miss(contender, "this build has no plug-in file for it", setup->develop, " and build again");
        }
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who takes part, with which settings, and how it is started. The settings t and tm are the best known ones for one
 * host: t makes more messages eager and copies through shared memory instead of asking the kernel to; tm also keeps
 * malloc from giving temporary buffers back after each call, whose pages would have to be faulted in again.
 */
#include "bench/compare/compare.h"

#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/beside.h"
#include "run/run.h"

#define KEEP_MEMORY "MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=8589934592", "MALLOC_TOP_PAD_=67108864"

static const char *const openmpi_launch[] = {"--allow-run-as-root", "--oversubscribe", NULL};
static const char *const openmpi_tuned[] = {
    "--allow-run-as-root",   "--oversubscribe", "--mca", "btl_vader_single_copy_mechanism", "none",   "--mca",
    "btl_vader_eager_limit", "32768",           "--mca", "btl_vader_max_send_size",         "131072", NULL};
static const char *const mpich_launch[] = {NULL};
static const char *const keep_memory[] = {KEEP_MEMORY, NULL};
static const char *const mpich_tuned[] = {"UCX_TLS=self,posix", NULL};
static const char *const mpich_tuned_memory[] = {"UCX_TLS=self,posix", KEEP_MEMORY, NULL};

/* Kinds of contenders by how they start. */
enum kind { BY_LAUNCHER, BY_TUTTI, BY_ITSELF };

static const struct known {
    const char *library;
    const char *settings; /* the first of a library are its defaults */
    enum kind kind;
    const char *launcher;
    const char *const *launch;
    const char *const *environment;
    const char *beside;
    const char *install; /* packages of Debian: to run it, and to build its plug-in */
    const char *develop;
    const char *only; /* the one collective that these settings are about; or NULL */
} known[] = {
    {"openmpi", "default", BY_LAUNCHER, "mpirun.openmpi", openmpi_launch, NULL, "openmpi", "openmpi-bin",
     "libopenmpi-dev", NULL},
    {"openmpi", "t", BY_LAUNCHER, "mpirun.openmpi", openmpi_tuned, NULL, "openmpi", "openmpi-bin", "libopenmpi-dev",
     NULL},
    {"openmpi", "tm", BY_LAUNCHER, "mpirun.openmpi", openmpi_tuned, keep_memory, "openmpi", "openmpi-bin",
     "libopenmpi-dev", NULL},
    {"mpich", "default", BY_LAUNCHER, "mpiexec.mpich", mpich_launch, NULL, "mpich", "mpich", "libmpich-dev", NULL},
    {"mpich", "t", BY_LAUNCHER, "mpiexec.mpich", mpich_launch, mpich_tuned, "mpich", "mpich", "libmpich-dev", NULL},
    {"mpich", "tm", BY_LAUNCHER, "mpiexec.mpich", mpich_launch, mpich_tuned_memory, "mpich", "mpich", "libmpich-dev",
     NULL},
    {"gloo", "ring", BY_TUTTI, NULL, NULL, NULL, "gloo:ring", "libgloo-dev", "libgloo-dev", NULL},
    {"gloo", "bcube", BY_TUTTI, NULL, NULL, NULL, "gloo:bcube", "libgloo-dev", "libgloo-dev", "all_reduce"},
    {"torch", "default", BY_ITSELF, NULL, NULL, NULL, NULL, "python3-torch", NULL, NULL},
};

#define KNOWN (sizeof(known) / sizeof(known[0]))

const char *const tti_compare_profiles[] = {
    [TTI_COMPARE_ALL] = "all", [TTI_COMPARE_DEFAULTS] = "defaults", [TTI_COMPARE_TUNED] = "tuned"};

bool tti_compare_profile_parse(const char *name, enum tti_compare_profile *profile)
{
    for (size_t i = 0; i < sizeof(tti_compare_profiles) / sizeof(tti_compare_profiles[0]); i++) {
        if (strcmp(name, tti_compare_profiles[i]) == 0) {
            *profile = (enum tti_compare_profile)i;
            return true;
        }
    }
    return false;
}

static bool complain(const char *word, const char *why)
{
    fprintf(stderr, "tutti bench: --vs %s: %s\n", word, why);
    return false;
}

/* The next place in the list; NULL if there is none, or if the name is in it already (*twice). */
static struct tti_compare_contender *next(struct tti_comparison *c, const char *name, bool *twice)
{
    *twice = false;
    for (int i = 0; i < c->contender_count; i++) {
        *twice = *twice || strcmp(c->contenders[i].name, name) == 0;
    }
    if (*twice || c->contender_count == TTI_COMPARE_CONTENDERS) {
        return NULL;
    }
    struct tti_compare_contender *contender = &c->contenders[c->contender_count];
    *contender = (struct tti_compare_contender){.name = strdup(name)};
    return contender;
}

/* Fills in what depends on the kind; a contender that is named twice counts once. */
static bool add(struct tti_comparison *c, const char *name, const struct known *entry, const char *own,
                const char *program)
{
    bool twice = false;
    struct tti_compare_contender *contender = next(c, name, &twice);
    if (twice) {
        return true;
    }
    if (!contender) {
        return complain(name, "too many contenders");
    }
    c->contender_count++;
    contender->library = entry ? entry->library : own ? "tutti" : "exec";
    contender->settings = entry ? entry->settings : own ? strchr(own, ':') + 1 : "";
    contender->launch = entry ? entry->launch : NULL;
    contender->environment = entry ? entry->environment : NULL;
    contender->only = entry ? entry->only : NULL;
    contender->own = own != NULL;
    const char *beside = own ? own : entry ? entry->beside : NULL;
    contender->beside = beside ? strdup(beside) : NULL;
    contender->path = program ? strdup(program) : NULL;
    if (own && contender->beside) {
        contender->settings = strchr(contender->beside, ':') + 1;
    }
    const bool good =
        contender->name && (!beside || contender->beside != NULL) && (!program || contender->path != NULL);
    return good || complain(name, "out of memory");
}

static bool wanted(const struct tti_comparison *c, const struct known *entry)
{
    if (entry->only && !tti_bench_chosen(c->options, tti_bench_find(entry->only))) {
        return false;
    }
    const bool first = entry == known || strcmp(entry[-1].library, entry->library) != 0;
    const bool several = entry + 1 < known + KNOWN && strcmp(entry[1].library, entry->library) == 0;
    switch (c->compare->profile) {
    case TTI_COMPARE_DEFAULTS:
        return first;
    case TTI_COMPARE_TUNED:
        return !first || !several || entry->kind != BY_LAUNCHER;
    default:
        return true;
    }
}

static bool add_known(struct tti_comparison *c, const char *word)
{
    const size_t length = strcspn(word, "/");
    const char *settings = word[length] == '/' ? word + length + 1 : NULL;
    bool library = false;
    bool found = false;
    for (size_t i = 0; i < KNOWN; i++) {
        const struct known *entry = &known[i];
        if (strlen(entry->library) != length || strncmp(entry->library, word, length) != 0) {
            continue;
        }
        library = true;
        if (settings ? strcmp(settings, entry->settings) != 0 : !wanted(c, entry)) {
            continue;
        }
        char name[64];
        const bool plain = strcmp(entry->settings, "default") == 0;
        snprintf(name, sizeof(name), "%s%s%s", entry->library, plain ? "" : "/", plain ? "" : entry->settings);
        found = true;
        if (!add(c, name, entry, NULL, NULL)) {
            return false;
        }
    }
    if (!library) {
        return complain(word, "there is no such contender; there are openmpi, mpich, gloo, torch, exec:PATH and "
                              "tutti:KEY=VALUE");
    }
    return found || complain(word, "that library has no such settings; there are default, t and tm for openmpi and "
                                   "mpich, ring and bcube for gloo");
}

static bool add_word(struct tti_comparison *c, const char *word)
{
    if (strncmp(word, "exec:", 5) == 0) {
        return word[5] != '\0' ? add(c, word, NULL, NULL, word + 5) : complain(word, "exec: takes a program");
    }
    if (strncmp(word, "tutti:", 6) == 0) {
        return strchr(word, '=') ? add(c, word, NULL, word, NULL)
                                 : complain(word, "tutti: takes settings, as in tutti:engine_window=64K");
    }
    return add_known(c, word);
}

/* A further setting of `tutti:key=value,key=value`, and no contender of its own. */
static bool continues(const char *word, const char *rest)
{
    const size_t name = strcspn(rest, "=:/,");
    return strncmp(word, "tutti:", 6) == 0 && rest[name] == '=';
}

bool tti_compare_contenders(struct tti_comparison *c)
{
    char *list = strdup(c->compare->vs);
    bool good = list != NULL;
    for (char *word = list; good && word;) {
        char *comma = strchr(word, ',');
        while (comma && continues(word, comma + 1)) {
            comma = strchr(comma + 1, ',');
        }
        if (comma) {
            *comma = '\0';
        }
        good = *word != '\0' ? add_word(c, word) : complain(c->compare->vs, "a name is empty");
        word = comma ? comma + 1 : NULL;
    }
    free(list);
    return good;
}

void tti_compare_contender_free(struct tti_compare_contender *contender)
{
    free(contender->name);
    free(contender->beside);
    free(contender->path);
    free(contender->script);
    free(contender->missing);
    free(contender->failure);
    *contender = (struct tti_compare_contender){0};
}

/* ---- what is there ---- */

static const struct known *known_of(const struct tti_compare_contender *contender)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (strcmp(known[i].library, contender->library) == 0 && strcmp(known[i].settings, contender->settings) == 0) {
            return &known[i];
        }
    }
    return NULL;
}

/* A file of the installation, or of the build tree, by the place of this program. */
static char *find_file(const char *self, const char *name)
{
    static const char *const places[] = {"", "/.."};
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s", self);
    const char *base = dirname(folder);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char *path = NULL;
        if (asprintf(&path, "%s%s/%s", base, places[i], name) < 0) {
            return NULL;
        }
        if (access(path, R_OK) == 0) {
            return path;
        }
        free(path);
    }
    return NULL;
}

static void miss(struct tti_compare_contender *contender, const char *what, const char *install)
{
    if (!contender->missing && asprintf(&contender->missing, "%s; to have it: %s", what, install) < 0) {
        contender->missing = strdup("it was not found");
    }
}

/* The part of this program that calls the library. */
static void find_plugin(struct tti_compare_contender *contender, const struct known *entry)
{
    char path[PATH_MAX];
    char install[160];
    if (!tti_beside_find(entry->library, path, sizeof(path))) {
        snprintf(install, sizeof(install), "install %s (the name in Debian) and build again", entry->develop);
        miss(contender, "this build has no plug-in file for it", install);
    }
}

static void find_launcher(struct tti_compare_contender *contender, const struct known *entry)
{
    char why[512];
    char package[128];
    if (tti_run_find_program(entry->launcher, &contender->path, why, sizeof(why)) != 0) {
        snprintf(package, sizeof(package), "install %s (the name in Debian)", entry->install);
        miss(contender, why, package);
    }
}

static void find_torch(const struct tti_comparison *c, struct tti_compare_contender *contender)
{
    contender->script = find_file(c->self, "share/tutti/bench/torch_gloo.py");
    if (!contender->script) {
        miss(contender, "share/tutti/bench/torch_gloo.py was not found", "install Tutti, or use the one in its tree");
    }
}

void tti_compare_find_programs(struct tti_comparison *c)
{
    for (int i = 0; i < c->contender_count; i++) {
        struct tti_compare_contender *contender = &c->contenders[i];
        const struct known *entry = known_of(contender);
        if (contender->only && !tti_bench_chosen(c->options, tti_bench_find(contender->only))) {
            contender->missing = strdup("its settings are about all_reduce alone, which is not measured");
        } else if (entry && entry->kind == BY_LAUNCHER) {
            find_launcher(contender, entry);
            find_plugin(contender, entry);
        } else if (entry && entry->kind == BY_TUTTI) {
            find_plugin(contender, entry);
        } else if (entry && entry->kind == BY_ITSELF) {
            find_torch(c, contender);
        } else if (!entry && !contender->own) {
            char why[512];
            char *path = NULL;
            if (tti_run_find_program(contender->path, &path, why, sizeof(why)) != 0) {
                miss(contender, why, "give the path of a program");
            } else {
                free(contender->path);
                contender->path = path;
            }
        }
    }
}

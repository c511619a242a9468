/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A misspelt variable, as TUTTI_BACKND, has no effect. This finds variables TUTTI_... that no part of Tutti reads, and
 * the known name that is nearest: by the distance of Levenshtein, in which a missing character costs half of a wrong or
 * additional one, so that TUTTI_WINDOW is near TUTTI_ENGINE_WINDOW.
 *
 * The library itself prints nothing: `tutti run`, `tutti info` and tutti_group_describe show the list. An application
 * may have variables of its own that begin likewise.
 *
 * Cost: for each unknown variable, the product of the lengths of two names, for all known names.
 */
#include "core/settings/variables.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tutti/config.h>
#include <unistd.h>

#define PREFIX  "TUTTI_"
#define LONGEST 64 /* of a name that is compared */

/* Those without a setting: of launchers, of libraries to open, of the Python package, of the tools. */
static const char *const others[] = {
    "TUTTI_RANK",
    "TUTTI_WORLD_SIZE",
    "TUTTI_LOCAL_RANK",
    "TUTTI_LOCAL_WORLD_SIZE",
    "TUTTI_NODE_RANK",
    "TUTTI_NODES",
    "TUTTI_JOB",
    "TUTTI_JOB_TOKEN",
    "TUTTI_JOB_TOKEN_FILE",
    "TUTTI_RESTART_COUNT",
    "TUTTI_HOST_ID",
    "TUTTI_CACHE_DIR",
    "TUTTI_ISA",
    "TUTTI_PLUGIN_PATH",
    "TUTTI_TRACE_DIR",
    "TUTTI_FLIGHT_FD",
    "TUTTI_CUDA_LIBRARY",
    "TUTTI_HIP_LIBRARY",
    "TUTTI_MPI_LIBRARY",
    "TUTTI_NCCL_LIBRARY",
    "TUTTI_RCCL_LIBRARY",
    "TUTTI_SODIUM_LIBRARY",
    "TUTTI_LIBRARY",
    "TUTTI_TORCH_CACHE",
    "TUTTI_BENCH_PEERS",
};

/* Of the build, the scripts and the tests; with '_' at the end, all that begin so. Nobody is led to them. */
static const char *const internal[] = {
    "TUTTI_BUILD",          "TUTTI_SOURCE",        "TUTTI_SANITIZE",       "TUTTI_WANTED",
    "TUTTI_VENDOR_INCLUDE", "TUTTI_CHECK_STARTED", "TUTTI_CHECK_SABOTAGE", "TUTTI_DOUBLE_",
    "TUTTI_FUZZ_",          "TUTTI_LEDGER_",       "TUTTI_STRESS_",        "TUTTI_TEST_",
};

/* Known name `index`, settings first; NULL after the last one. */
static const char *known_name(size_t index)
{
    tutti_config_key_info row = {.size = sizeof(row)};
    size_t settings = 0;
    if (tutti_config_key(index, &row) == TUTTI_OK) {
        return row.environment;
    }
    while (tutti_config_key(settings, &row) == TUTTI_OK) {
        settings++;
    }
    index -= settings;
    return index < sizeof(others) / sizeof(others[0]) ? others[index] : NULL;
}

static bool is_internal(const char *name)
{
    for (size_t i = 0; i < sizeof(internal) / sizeof(internal[0]); i++) {
        const size_t length = strlen(internal[i]);
        if (internal[i][length - 1] == '_' ? strncmp(name, internal[i], length) == 0 : strcmp(name, internal[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* What it costs to make the name `to` of `from`; both are shorter than LONGEST. */
static int distance(const char *from, const char *to)
{
    enum { MISSING = 1, WRONG = 2, ADDITIONAL = 2 };
    int row[LONGEST + 1]; /* row[j]: from the beginning of `from` to the first j characters of `to` */
    const int length = (int)strlen(to);
    for (int j = 0; j <= length; j++) {
        row[j] = j * MISSING;
    }
    for (int i = 0; from[i] != '\0'; i++) {
        int diagonal = row[0];
        row[0] += ADDITIONAL;
        for (int j = 1; j <= length; j++) {
            const int replaced = diagonal + (from[i] == to[j - 1] ? 0 : WRONG);
            diagonal = row[j];
            row[j] = smaller(replaced, smaller(row[j] + ADDITIONAL, row[j - 1] + MISSING));
        }
    }
    return row[length];
}

void tti_add_unknown_variable(const char *assignment, char *text, size_t capacity)
{
    char name[LONGEST];
    const size_t length = strcspn(assignment, "=");
    const size_t used = strlen(text);
    const char *nearest = NULL;
    if (strncmp(assignment, PREFIX, strlen(PREFIX)) != 0 || length >= sizeof(name)) {
        return;
    }
    snprintf(name, sizeof(name), "%.*s", (int)length, assignment);
    int least = (int)(length - strlen(PREFIX)) + 2; /* names that are farther away are no help */
    const char *known;
    for (size_t i = 0; (known = known_name(i)) != NULL; i++) {
        const int cost = distance(name, known);
        if (cost == 0) {
            return;
        }
        nearest = cost < least ? known : nearest;
        least = smaller(cost, least);
    }
    if (!is_internal(name)) {
        snprintf(text + used, capacity - used, "%s%s%s%s%s", used > 0 ? ", " : "", name, nearest ? " (" : "",
                 nearest ? nearest : "", nearest ? "?)" : "");
    }
}

void tti_unknown_variables(char *text, size_t capacity)
{
    text[0] = '\0';
    for (char **assignment = environ; assignment && *assignment; assignment++) {
        tti_add_unknown_variable(*assignment, text, capacity);
    }
}

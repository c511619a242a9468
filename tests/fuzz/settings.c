/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Configuration and the world from the environment. A line "NAME=value" is a variable, ":key=value" an entry of the
 * list of settings, "?number" the timeout of the struct. PMI_FD and the like are left out: they name descriptors,
 * behind which a conversation begins.
 */
#include "fuzz.h"

#include "core/launchers/world.h"
#include "core/settings/settings.h"

#define ENTRIES 16
#define LINE    400

/* Upper case, digits and underscores; nothing that the C library or a sanitizer reads. */
static int is_ours(const char *name, size_t length)
{
    static const char *const families[] = {"TUTTI_",        "OMPI_", "PMI_",   "PMIX_",  "SLURM_", "MASTER_",
                                           "TORCHELASTIC_", "RANK",  "WORLD_", "LOCAL_", "MPI_"};
    if (strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != length || strncmp(name, "PMI_FD", 6) == 0 ||
        strncmp(name, "PMI_PORT", 8) == 0) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        if (strncmp(name, families[i], strlen(families[i])) == 0) {
            return 1;
        }
    }
    return 0;
}

static void check_error(tutti_status status, const tutti_error *error)
{
    fuzz_expect(status == TUTTI_OK ||
                    (error->status == status && error->message[0] && memchr(error->message, 0, sizeof(error->message))),
                "an error without a sentence");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    char lines[ENTRIES][LINE];
    char names[ENTRIES][LINE];
    const char *settings[ENTRIES + 1] = {NULL};
    int variables = 0;
    int entries = 0;
    tutti_config config;
    tutti_config_init(&config);
    for (int i = 0; i < ENTRIES && fuzz_line(&in, lines[i], LINE); i++) {
        char *equals = strchr(lines[i], '=');
        if (lines[i][0] == ':') {
            settings[entries++] = lines[i] + 1;
        } else if (lines[i][0] == '?') {
            config.timeout_ms = strtoll(lines[i] + 1, NULL, 10);
        } else if (equals && is_ours(lines[i], (size_t)(equals - lines[i]))) {
            *equals = '\0';
            strcpy(names[variables], lines[i]);
            setenv(names[variables++], equals + 1, 1);
        }
    }
    config.settings = settings;

    struct tti_settings *resolved;
    struct tti_world world;
    tutti_error error;
    tutti_status status = tti_settings_resolve(&config, NULL, &resolved, &error);
    check_error(status, &error);
    if (status == TUTTI_OK) {
        fuzz_expect(tti_setting_number(resolved, TTI_SET_LANES) >= 1 &&
                        tti_setting_number(resolved, TTI_SET_LANES) <= 16,
                    "a number of lanes out of bounds");
        const tutti_config same = {.size = sizeof(same), .backend = tti_setting(resolved, TTI_SET_BACKEND)};
        struct tti_settings *inherited;
        status = tti_settings_resolve(&same, resolved, &inherited, &error);
        check_error(status, &error);
        fuzz_expect(status == TUTTI_OK && memcmp(inherited->values, resolved->values, sizeof(resolved->values)) == 0,
                    "a sub-group has other settings than its parent");
        tti_settings_release(inherited);
        tti_settings_release(resolved);
    }
    status = tti_world_from_environment(false, &world, &error);
    check_error(status, &error);
    fuzz_expect(status != TUTTI_OK || (world.size > 0 && world.rank >= 0 && world.rank < world.size),
                "a rank outside its world");
    while (variables > 0) {
        unsetenv(names[--variables]);
    }
    return 0;
}

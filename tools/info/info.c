/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `tutti info`. */
#include "info/info.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/options.h"
#include "tools.h"

enum { OPTION_JSON = 256, OPTION_CONFIG, OPTION_CALIBRATE, OPTION_GROUP, OPTION_PLUGIN };

struct choices {
    bool json;
    bool config;
    bool calibrate;
    bool group;
};

static const struct argp_option argp_options[] = {
    {"calibrate", OPTION_CALIBRATE, NULL, 0, "Measure the costs of this machine again, and keep them for later groups",
     0},
    {"config", OPTION_CONFIG, NULL, 0,
     "Also show the settings: key, value, default, environment variable, meaning, bounds", 0},
    {"group", OPTION_GROUP, NULL, 0,
     "Join the job that the environment describes, and describe only its group, as text; on all ranks of the job", 0},
    {"json", OPTION_JSON, NULL, 0, "Print as JSON", 0},
    {"plugin", OPTION_PLUGIN, "FILE", 0, "Load the backend in this plug-in file, and show it among the others", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct choices *choices = state->input;
    switch (key) {
    case OPTION_JSON:
        choices->json = true;
        return 0;
    case OPTION_CONFIG:
        choices->config = true;
        return 0;
    case OPTION_CALIBRATE:
        choices->calibrate = true;
        return 0;
    case OPTION_GROUP:
        choices->group = true;
        return 0;
    case OPTION_PLUGIN:
        tti_plugin_option(state, argument);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s' is not an option; tutti info takes no other arguments", argument);
        return 0;
    case ARGP_KEY_END:
        if (choices->group && (choices->json || choices->config || choices->calibrate)) {
            argp_error(state, "--group describes only the group, as text: leave out %s",
                       choices->json     ? "--json"
                       : choices->config ? "--config"
                                         : "--calibrate");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Whether this process measured the machine; if not, prints why. */
static bool was_measured(const struct tti_info *info)
{
    if (info->calibration.source == TTI_CALIBRATE_MEASURED) {
        return true;
    }
    fprintf(stderr, "tutti info: --calibrate: %s\n",
            info->settings_error.status != TUTTI_OK ? info->settings_error.message : info->calibration.note);
    return false;
}

/* What tutti_group_describe says of the job's group. */
static int show_group(void)
{
    static char text[65536];
    tutti_error error;
    tutti_group *group = NULL;
    tutti_status status = tutti_init(NULL, &group, &error);
    if (status == TUTTI_OK && (status = tutti_group_describe(group, text, sizeof(text), NULL, &error)) == TUTTI_OK) {
        fputs(text, stdout);
        status = tutti_barrier(group, TUTTI_CALL(.error = &error)); /* one rank may serve what others still need */
    }
    if (status != TUTTI_OK) {
        fprintf(stderr, "tutti info: %s\n", error.message);
    }
    tutti_group_destroy(group, NULL);
    tutti_finalize(NULL);
    return status == TUTTI_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int tutti_tool_info(int argc, char **argv)
{
    static const char doc[] =
        "Show the version, the CPU, all backends with the reason if one cannot be used, the world that the launcher "
        "described in the environment, the measured costs of this machine, and the thresholds computed from them.\v"
        "Exit code: 0; 1 if the output cannot be written, --calibrate could measure nothing, or the group of --group "
        "cannot be made; 2 if the command line is wrong.\n\n"
        "Examples:\n"
        "  tutti info\n"
        "  tutti info --json | jq -r '.backends[] | select(.available) | .name'\n"
        "  tutti info --calibrate\n"
        "  tutti run -n 2 tutti info --group\n"
        "  tutti info --config";
    const struct argp argp = {argp_options, parse, NULL, doc, NULL, NULL, NULL};
    struct choices choices = {0};
    tti_options_read(&argp, argc, argv, 0, &choices);
    if (choices.json && !tti_json_usable("tutti info")) {
        return EXIT_FAILURE;
    }
    if (choices.group) {
        return show_group();
    }
    struct tti_info *info = malloc(sizeof(*info));
    if (!info) {
        fprintf(stderr, "tutti info: out of memory\n");
        return EXIT_FAILURE;
    }
    tti_info_gather(info, choices.calibrate);
    bool good = true;
    if (choices.json) {
        good = tti_info_print_json(info, choices.config);
    } else {
        tti_info_print_text(info, choices.config);
    }
    if (!good) {
        fprintf(stderr, "tutti info: cannot write the output\n");
    }
    good = (!choices.calibrate || was_measured(info)) && good;
    tti_settings_release(info->settings);
    free(info);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

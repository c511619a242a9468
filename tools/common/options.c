/* SPDX-License-Identifier: BSD-3-Clause */
/* The forms of arguments that several sub-commands take, and the sentences that refuse other ones. */
#include "common/options.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/backend.h>

#include "base/number.h"
#include "tools.h"

void tti_options_read(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
    argp_err_exit_status = TTI_EXIT_USAGE;
    if (argp_parse(argp, argc, argv, flags, NULL, input) != 0) {
        exit(TTI_EXIT_USAGE);
    }
}

int64_t tti_number_option(struct argp_state *state, const char *option, const char *text, int64_t minimum,
                          int64_t maximum)
{
    int64_t value = minimum;
    if (!tti_parse_integer(text, minimum, maximum, &value)) {
        argp_error(state, "%s takes a number from %" PRId64 " to %" PRId64 ", not '%s'", option, minimum, maximum,
                   text);
    }
    return value;
}

/* Milliseconds of a unit; 0 if there is no such unit. */
static double unit_of(const char *text)
{
    if (strcmp(text, "m") == 0 || strcmp(text, "h") == 0) {
        return *text == 'm' ? 60e3 : 3600e3;
    }
    return strcmp(text, "") == 0 || strcmp(text, "s") == 0 ? 1e3 : 0;
}

int64_t tti_duration_option(struct argp_state *state, const char *option, const char *text)
{
    /* strtod accepts "0x10", "inf" and leading blanks; a typing mistake must not become another duration */
    const size_t digits = strspn(text, "0123456789.");
    char *end = NULL;
    const double exact = strtod(text, &end) * unit_of(text + digits);
    const bool good = digits > 0 && end == text + digits && unit_of(end) > 0 && exact <= 365.0 * 24 * 3600e3;
    if (!good) {
        argp_error(state, "%s takes seconds (as in 90, 0.5, 5m, 2h), not '%s'", option, text);
    }
    const int64_t ms = good ? (int64_t)exact : 0;
    return ms + ((double)ms < exact);
}

int tti_word_option(struct argp_state *state, const char *option, const char *words, const char *text)
{
    char list[80] = "";
    size_t used = 0;
    const char *word = words;
    for (int number = 0; *word != '\0'; number++) {
        const size_t length = strcspn(word, "|");
        const bool last = word[length] == '\0';
        if (strlen(text) == length && strncmp(text, word, length) == 0) {
            return number;
        }
        const char *before = number == 0 ? "" : last ? " or " : ", ";
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%.*s", before, (int)length, word);
        word += length + !last;
    }
    argp_error(state, "%s takes %s, not '%s'", option, list, text);
    return 0;
}

void tti_plugin_option(struct argp_state *state, const char *file)
{
    char path[PATH_MAX];
    tutti_error error;
    /* the loader looks for a name without a slash in the folders of the system's libraries */
    snprintf(path, sizeof(path), "%s%s", strchr(file, '/') ? "" : "./", file);
    if (tutti_backend_load(path, &error) != TUTTI_OK) {
        argp_failure(state, 1, 0, "--plugin %s: %s", file, error.message);
    }
}

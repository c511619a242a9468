/* SPDX-License-Identifier: BSD-3-Clause */
/* Defaults of the public structs for languages without designated initialisers, and the version. */
#include <string.h>
#include <tutti/tutti.h>

#define TEXT_OF(x)            #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

void tutti_config_init(tutti_config *config)
{
    if (config) {
        memset(config, 0, sizeof(*config));
        config->size = (uint32_t)sizeof(*config);
    }
}

int32_t tutti_version(void)
{
    return TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH;
}

const char *tutti_version_string(void)
{
    return VERSION_TEXT(TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Defaults of the public structs, for languages without designated initialisers, and the version. */
#include <tutti/tutti.h>

#define TEXT_OF(x)            #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

void tutti_config_init(tutti_config *config)
{
    if (config) {
        *config = (tutti_config){.size = (uint32_t)sizeof(*config)};
    }
}

void tutti_store_callbacks_init(tutti_store_callbacks *callbacks)
{
    if (callbacks) {
        *callbacks = (tutti_store_callbacks){.size = (uint32_t)sizeof(*callbacks)};
    }
}

void tutti_config_key_info_init(tutti_config_key_info *info)
{
    if (info) {
        *info = (tutti_config_key_info){.size = (uint32_t)sizeof(*info)};
    }
}

void tutti_null_record_init(tutti_null_record *record)
{
    if (record) {
        *record = (tutti_null_record){.size = (uint32_t)sizeof(*record)};
    }
}

void tutti_bucketer_options_init(tutti_bucketer_options *options)
{
    if (options) {
        *options = (tutti_bucketer_options){.size = (uint32_t)sizeof(*options)};
    }
}

void tutti_message_init(tutti_message *message)
{
    if (message) {
        *message = (tutti_message){.size = (uint32_t)sizeof(*message)};
    }
}

void tutti_call_init(tutti_call *call)
{
    if (call) {
        *call = (tutti_call){.size = (uint32_t)sizeof(*call)};
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

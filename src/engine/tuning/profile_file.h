/* SPDX-License-Identifier: BSD-3-Clause */
/* Profiles in files. */
#ifndef TTI_ENGINE_TUNING_PROFILE_FILE_H
#define TTI_ENGINE_TUNING_PROFILE_FILE_H

#include "engine/tuning/profile.h"

/* A profile holds for machines that are equal in all of this. */
struct tti_machine {
    char cpu[128];
    char kernel[128];
    char isa[16];
    int cpus; /* online */
};

void tti_machine_find(struct tti_machine *machine);

/* The text of a file; its length, or 0 if it does not fit. */
size_t tti_profile_format(const struct tti_machine *machine, const struct tti_profile *profile, char *text,
                          size_t capacity);

/* The inverse. False unless the text is a complete, plausible profile of this machine in this version of the format. */
bool tti_profile_parse(const char *text, const struct tti_machine *machine, struct tti_profile *profile);

/* Reads the first usable file / writes into the first usable folder. `path` gets its path. False: `note` gets the
 * reason, or "" if there is no file; `profile` stays as it is. */
bool tti_profile_load(const struct tti_machine *machine, struct tti_profile *profile, char *path, size_t path_capacity,
                      char *note, size_t note_capacity);
bool tti_profile_save(const struct tti_machine *machine, const struct tti_profile *profile, char *path,
                      size_t path_capacity, char *note, size_t note_capacity);

#endif

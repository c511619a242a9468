/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding out what this machine costs: measured once, kept in a file, and in the process. */
#ifndef TTI_ENGINE_CALIBRATE_H
#define TTI_ENGINE_CALIBRATE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/tuning/profile.h"

/* What the setting engine.calibrate says. */
enum tti_calibrate_mode {
    TTI_CALIBRATE_AUTO, /* the file, or else a measurement, which makes one */
    TTI_CALIBRATE_OFF,  /* the built-in figures                             */
    TTI_CALIBRATE_AGAIN /* a measurement, once in each process              */
};

enum tti_calibrate_source { TTI_CALIBRATE_BUILT_IN, TTI_CALIBRATE_FILE, TTI_CALIBRATE_MEASURED };

/* Where the figures came from. */
struct tti_calibration {
    struct tti_profile profile; /* complete */
    enum tti_calibrate_source source;
    char path[512]; /* of the file that was read or written; "" = none */
    char note[256]; /* what did not work; "" = nothing */
};

/* "auto", "off", "again"; anything else and NULL are auto. */
enum tti_calibrate_mode tti_calibrate_mode(const char *text);

/* The profile for this process. Never fails: whatever cannot be found out is built in. After the first time it costs
 * nothing, except with AGAIN, which measures once more if nobody in this process has yet. */
void tti_calibrate(enum tti_calibrate_mode mode, struct tti_calibration *calibration);

/* The same, whatever this process knows already. */
void tti_calibrate_force(struct tti_calibration *calibration);

/* ---- calibrate.c ---------------------------------------------------------------------------------------------------- */

/* Most that a measurement takes, as long as its threads get their CPUs. */
#define TTI_CALIBRATE_LIMIT_MS 20

/* Measures with two threads of its own on two CPUs of the caller's affinity mask; with one CPU, what one can tell. What could
 * not be measured is 0. False if nothing could. */
bool tti_calibrate_measure(struct tti_profile *profile);

/* ---- calibrate_cpus.c ----------------------------------------------------------------------------------------------- */

/* CPUs of the caller's mask to measure with: the first one; the next that is no thread of the same core; and one that has
 * another third-level cache, if the system says so. How many there are. */
#define TTI_CALIBRATE_CPUS 3
int tti_calibrate_cpus(int cpus[TTI_CALIBRATE_CPUS]);

/* The caches of this CPU, and whether it may move; 0 = not known. */
void tti_calibrate_topology(int cpu, struct tti_profile *profile);

/* ---- calibrate_file.c ------------------------------------------------------------------------------------------------- */

/* What a profile is true of. */
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

/* The way back. False for anything but a whole, plausible profile of this machine in this version of the format. */
bool tti_profile_parse(const char *text, const struct tti_machine *machine, struct tti_profile *profile);

/* Reads the first usable file / writes it, into the first folder that allows it. `path` tells which. False with the reason
 * in `note`: "" if there simply is none. */
bool tti_profile_load(const struct tti_machine *machine, struct tti_profile *profile, char *path, size_t path_capacity,
                      char *note, size_t note_capacity);
bool tti_profile_save(const struct tti_machine *machine, const struct tti_profile *profile, char *path,
                      size_t path_capacity, char *note, size_t note_capacity);

#endif

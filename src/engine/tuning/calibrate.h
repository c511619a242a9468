/* SPDX-License-Identifier: BSD-3-Clause */
/* The profile of this machine: measured once, kept in a file and in the process. */
#ifndef TTI_ENGINE_TUNING_CALIBRATE_H
#define TTI_ENGINE_TUNING_CALIBRATE_H

#include "engine/tuning/profile.h"

/* Values of the setting engine.calibrate. */
enum tti_calibrate_mode {
    TTI_CALIBRATE_AUTO, /* from the file; else from a measurement, which writes the file */
    TTI_CALIBRATE_OFF,  /* the built-in profile */
    TTI_CALIBRATE_AGAIN /* a measurement, once in each process */
};

enum tti_calibrate_source { TTI_CALIBRATE_BUILT_IN, TTI_CALIBRATE_FILE, TTI_CALIBRATE_MEASURED };

/* A profile and its origin. */
struct tti_calibration {
    struct tti_profile profile; /* complete */
    enum tti_calibrate_source source;
    char path[512]; /* of the file that was read or written; "" = none */
    char note[256]; /* what failed; "" = nothing */
};

/* "auto", "off", "again"; NULL and other texts mean auto. */
enum tti_calibrate_mode tti_calibrate_mode(const char *text);

/* The profile for this process. Never fails: unknown figures are built in. Later calls cost nothing, except the first
 * with AGAIN, which measures. */
void tti_calibrate(enum tti_calibrate_mode mode, struct tti_calibration *calibration);

/* Always measures. */
void tti_calibrate_force(struct tti_calibration *calibration);

#endif

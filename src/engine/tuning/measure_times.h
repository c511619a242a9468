/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of a measurement. Each fills fields of the profile; those with a result return false at the deadline. */
#ifndef TTI_ENGINE_TUNING_MEASURE_TIMES_H
#define TTI_ENGINE_TUNING_MEASURE_TIMES_H

#include "engine/tuning/measurement.h"

/* Binds the calling thread. */
bool tti_measurement_pin(int cpu);
/* An exchange with the partner CPU m->cpus[partner], and copying what that has written. */
bool tti_measurement_partner(struct tti_measurement *m, int me, int partner);
/* Thread 0 alone: inside the second-level cache, from memory, past the caches, and yielding. */
void tti_measurement_alone(struct tti_measurement *m);
/* Until the other thread rouses it, the calling one sleeps. */
bool tti_measurement_sleep(struct tti_measurement *m);
void tti_measurement_rouse(struct tti_measurement *m);
/* Waking the other thread, which sleeps. */
bool tti_measurement_wakes(struct tti_measurement *m, int me);
/* Yielding to each other, both on one CPU. */
void tti_measurement_switches(struct tti_measurement *m, int me);

#endif

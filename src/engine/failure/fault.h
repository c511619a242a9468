/* SPDX-License-Identifier: BSD-3-Clause */
/* Failing the group, and learning that another rank has failed it: fault.c. A failed group stays failed. */
#ifndef TTI_ENGINE_FAILURE_FAULT_H
#define TTI_ENGINE_FAILURE_FAULT_H

#include "engine/lane.h"

/* OK if the group has not failed and `publisher` (-1: no rank in particular) has not left. The lane's call, or NULL, is
 * the one that waits. error NULL: the caller asks again later, so the failure does not count as reported. */
tutti_status tti_fault_check(struct tti_engine *e, struct tti_lane *lane, int publisher, tutti_error *error);

/* tti_fault_check for a lane, if the alarm word, which is `alarm` now, has changed since the lane last checked. */
tutti_status tti_fault_check_alarm(struct tti_lane *lane, uint32_t alarm);

/* tti_fault_check for messages under way. A death interrupts each of them, so each returns it. */
tutti_status tti_fault_check_messages(struct tti_engine *e, tutti_error *error);

/* If the rank's process has ended, records that: a death fails the group. Takes some 50 us. */
void tti_fault_check_peer(struct tti_engine *e, int rank);

/* The group's first failure; OK if there is none. */
tutti_status tti_fault_first(struct tti_engine *e, tutti_error *error);

/* Fails the group with *error: writes this rank's record, raises the alarm. Returns error->status. lane NULL:
 * messages. */
tutti_status tti_fault_raise(struct tti_engine *e, struct tti_lane *lane, const uint64_t *suspects, tutti_error *error);

/* The same with one suspect; -1: none. */
tutti_status tti_fault_raise_suspect(struct tti_engine *e, struct tti_lane *lane, int rank, tutti_error *error);

/* The deadline of the lane's call has passed: fails the group, with every late rank as a suspect. */
tutti_status tti_fault_timeout(struct tti_lane *lane, int publisher);

/* Fails the group for a reason outside the engine. Without a suspect in *cause, the ranks that have not arrived at the
 * lane's newest call become suspects; if there is none, this rank is the suspect. */
void tti_fault_abort(struct tti_engine *e, int32_t lane, const tutti_error *cause);

/* Fails the group because the application revokes or aborts it: `how` is REVOKE or ABORT. */
void tti_fault_revoke(struct tti_engine *e, tutti_operation how);

/* Records that a rank's process has died or dumps core, and fails the group. */
void tti_fault_death(struct tti_engine *e, int rank);

/* Records that a rank's process has ended by exit(): for this process the rank has left. */
void tti_fault_left(struct tti_engine *e, int rank);

/* This rank does not join a group that others may have formed with the segment which it has offered. They get the
 * cause, if there is one, as of a rank that has failed. */
void tti_fault_decline(unsigned char *segment, const struct tti_layout *layout, const tutti_error *cause);

/* This rank leaves: calls of peers that need it end with PEER_LEFT. */
void tti_fault_leave(struct tti_engine *e);

#endif

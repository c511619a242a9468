/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer that is measured beside Tutti: how it joins, its memory and data, and its calls. */
#include "bench/beside/beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bench/beside/plugin.h"
#include "bench/measure/agree.h"
#include "bench/measure/buffers.h"
#include "bench/measure/data.h"
#include "bench/measure/patterns.h"

#define SETTINGS 64 /* at most */

static int gather_for_peer(const struct tti_bench_peer_job *job, const void *mine, void *all, size_t bytes)
{
    struct tti_bench *b = job->user;
    const int64_t part = (int64_t)bytes;
    const int64_t whole = part * b->size;
    const DLTensor in = tutti_tensor_1d((void *)mine, &part, TUTTI_U8);
    DLTensor out = tutti_tensor_1d(all, &whole, TUTTI_U8);
    return tutti_all_gather(b->group, &in, &out, 0, TUTTI_CALL(.error = &b->error)) != TUTTI_OK;
}

#define PLACEMENT "placement="

/* Another group of Tutti's has its buffers where the first one has them, unless its settings say otherwise. */
static bool wants_heap(const char *settings, bool otherwise)
{
    const char *said = strstr(settings, PLACEMENT);
    return said ? strncmp(said + strlen(PLACEMENT), "heap", 4) == 0 : otherwise;
}

/* Cuts "key=value,key=value" into a list closed by NULL. `backend=NAME` is no setting but the configuration's, and
 * `placement=private` or `heap` none at all. */
static bool cut_settings(char *text, const char *list[SETTINGS + 1], const char **backend)
{
    static const char key[] = "backend=";
    char *rest = NULL;
    int count = 0;
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (strncmp(word, key, sizeof(key) - 1) == 0) {
            *backend = word + sizeof(key) - 1;
        } else if (strcmp(word, PLACEMENT "private") == 0 || strcmp(word, PLACEMENT "heap") == 0) {
            continue;
        } else if (count == SETTINGS) {
            return false;
        } else {
            list[count++] = word;
        }
    }
    list[count] = NULL;
    return true;
}

/* The same ranks once more. A setting that was not named is the default or the environment's, as for the first
 * group. */
static bool open_group(struct tti_bench *b, struct tti_beside *beside)
{
    const char *list[SETTINGS + 1];
    const char *backend = tutti_group_backend(b->group);
    char *text = strdup(beside->settings);
    if (!text || !cut_settings(text, list, &backend)) {
        free(text);
        return tti_bench_print_error(b, "--beside", text ? "too many settings" : "out of memory");
    }
    const tutti_status status = tutti_group_split(
        b->group, 0, b->rank, TUTTI_CONFIG(.backend = backend, .settings = list), &beside->view.group, &b->error);
    free(text);
    if (status != TUTTI_OK) {
        return tti_bench_print_error(b, "--beside " TTI_BESIDE_OWN, b->error.message);
    }
    beside->is_open = true;
    snprintf(beside->version, sizeof(beside->version), "tutti %s", tutti_version_string());
    return true;
}

/* Opens the library, if every rank has found it: one rank alone would wait in it for the others. */
static bool enter(struct tti_bench *b, struct tti_beside *beside, const struct tti_bench_peer *peer, char *why,
                  size_t capacity)
{
    int64_t missing = !peer;
    if (!tti_bench_agree(b, &missing, 1, TUTTI_MAX) || missing || !peer) {
        return false;
    }
    const bool threads = (tutti_group_capabilities(b->group) & TUTTI_CAP_ONE_PROCESS) != 0;
    beside->job = (struct tti_bench_peer_job){
        .rank = b->rank, .size = b->size, .threads = threads, .user = b, .all_gather = gather_for_peer};
    beside->peer = peer;
    return peer->open(&beside->job, beside->settings, &beside->session, beside->version, sizeof(beside->version), why,
                      capacity) == 0;
}

static bool open_peer(struct tti_bench *b, struct tti_beside *beside)
{
    char why[256] = "";
    const struct tti_bench_peer *peer = tti_beside_load(beside->name, why, sizeof(why));
    beside->is_open = enter(b, beside, peer, why, sizeof(why));
    return beside->is_open ||
           tti_bench_print_error(b, b->options->beside, why[0] != '\0' ? why : "another rank cannot open it");
}

/* The peer that the argument of --beside names, without memory yet. */
static bool name(struct tti_bench *b)
{
    const char *words = b->options->beside;
    const size_t length = strcspn(words, ":");
    struct tti_beside *beside = calloc(1, sizeof(*beside));
    if (!beside) {
        return tti_bench_print_error(b, words, "out of memory");
    }
    b->beside = beside;
    beside->settings = words[length] == ':' ? words + length + 1 : "";
    snprintf(beside->name, sizeof(beside->name), "%.*s", (int)length, words);
    beside->is_tutti = strcmp(beside->name, TTI_BESIDE_OWN) == 0;
    snprintf(beside->label, sizeof(beside->label), "%s%s%s", beside->name, beside->is_tutti ? ":" : "",
             beside->is_tutti ? beside->settings : "");
    beside->view = *b;
    beside->view.left = NULL;
    beside->view.right = NULL;
    beside->heap = beside->is_tutti && wants_heap(beside->settings, b->options->heap);
    return true;
}

bool tti_beside_open(struct tti_bench *b)
{
    /* agreed on before and behind: opening is collective, and a rank that has no peer must not measure one */
    int64_t failed = !name(b);
    if (tti_bench_agree(b, &failed, 1, TUTTI_MAX) && !failed) {
        failed = !tti_bench_open_memory(&b->beside->view, b->beside->heap);
    }
    if (!failed && tti_bench_agree(b, &failed, 1, TUTTI_MAX) && !failed) {
        failed = !(b->beside->is_tutti ? open_group(b, b->beside) : open_peer(b, b->beside));
        if (tti_bench_agree(b, &failed, 1, TUTTI_MAX) && !failed) {
            return true;
        }
    }
    tti_beside_close(b);
    return false;
}

void tti_beside_close(struct tti_bench *b)
{
    struct tti_beside *beside = b->beside;
    if (!beside) {
        return;
    }
    tti_bench_close_memory(&beside->view, beside->heap); /* its group's, if it is open */
    if (beside->is_open && beside->is_tutti) {
        tutti_group_destroy(beside->view.group, NULL);
    } else if (beside->is_open) {
        beside->peer->close(beside->session);
    }
    free(beside);
    b->beside = NULL;
}

bool tti_beside_prepare(struct tti_bench *b)
{
    struct tti_bench *view = &b->beside->view;
    const tutti_reduce_op op = b->collective->traits & TTI_BENCH_REDUCES ? b->options->op : 0;
    const uint32_t promises = b->beside->is_tutti ? tutti_group_capabilities(view->group) : 0;
    view->collective = b->collective;
    b->beside->too_slow = false;
    view->lead_ns = b->lead_ns;
    view->data = tti_bench_data_create(b->size, b->options->dtype, op, TUTTI_WIRE_FULL, promises);
    return view->data != NULL;
}

void tti_beside_release(struct tti_bench *b)
{
    tti_bench_data_destroy(b->beside->view.data);
    b->beside->view.data = NULL;
}

static struct tti_bench_peer_call call_of(const struct tti_beside *beside, int64_t count, bool in_place)
{
    const struct tti_bench *b = &beside->view;
    const bool reduces = (b->collective->traits & TTI_BENCH_REDUCES) != 0;
    return (struct tti_bench_peer_call){.kind = b->collective->kind,
                                        .dtype = b->options->dtype,
                                        .redop = reduces ? b->options->op : 0,
                                        .root = b->options->root,
                                        .count = count,
                                        .in_place = in_place,
                                        .pattern = b->collective->pattern};
}

bool tti_beside_supports(const struct tti_beside *beside, int64_t count, bool in_place)
{
    const struct tti_bench_peer_call call = call_of(beside, count, in_place);
    return beside->is_tutti || beside->peer->supports(beside->session, &call);
}

static tutti_status call_peer(const struct tti_beside *beside, const struct tti_bench_peer_call *call,
                              tutti_error *error)
{
    char why[256]; /* written by a failing call, so that other calls do not pay for it */
    why[0] = '\0';
    if (beside->peer->call(beside->session, call, why, sizeof(why)) == 0) {
        return TUTTI_OK;
    }
    return tti_error_set(error, TUTTI_BACKEND, "%s failed: %s", beside->name, why);
}

tutti_status tti_beside_call(const struct tti_beside *beside, struct tti_bench_tensors *t, int64_t count, bool in_place,
                             const tutti_call *call)
{
    if (beside->is_tutti) {
        return tti_bench_call(&beside->view, t, call);
    }
    struct tti_bench_peer_call native = call_of(beside, count, in_place);
    native.in = t->operation.input ? t->operation.input->data : NULL;
    native.out = t->operation.output ? t->operation.output->data : NULL;
    return call_peer(beside, &native, call->error);
}

tutti_status tti_beside_barrier(const struct tti_beside *beside, tutti_error *error)
{
    if (beside->is_tutti) {
        return tutti_barrier(beside->view.group, TUTTI_CALL(.error = error));
    }
    const struct tti_bench_peer_call native = {.kind = TUTTI_OP_BARRIER, .dtype = TUTTI_U8};
    return call_peer(beside, &native, error);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of models. Decisions 43 (Zen 5), 53 and 56 (Zen 3), 42, 52, 54 and 55 (all) have the measurements. Claims
 * and a small ring were not measured on Intel's CPUs, stores past the caches to far receivers and for cold outputs on
 * Zen 3 only. What was not measured is as on Zen 4, or absent.
 */
#include "engine/tuning/models.h"

#define KIB UINT64_C(1024)

static const struct tti_model models[] = {
    [TTI_MODEL_OTHER] = {.far_ring = true,
                         .claims = true,
                         .two_lines = TTI_PACKET_LINES_MOST,
                         .single_copy_messages = true,
                         .single_copy = TTI_TUNING_NEVER,
                         .single_copy_many = 1024 * KIB,
                         .streams = {[TTI_STREAM_DIRECT] = {8, 8},
                                     [TTI_STREAM_EXCHANGED] = {8, 8},
                                     [TTI_STREAM_ROOTED] = {8, 8},
                                     [TTI_STREAM_ALL_GATHER] = {8, 16},
                                     [TTI_STREAM_ALL_TO_ALL] = {8, 8},
                                     [TTI_STREAM_MESSAGES] = {8, 8}}},
    [TTI_MODEL_INTEL] = {.far_ring = true,
                         .two_lines = TTI_PACKET_LINES_MOST,
                         .single_copy_messages = true,
                         .single_copy = 65536 * KIB,
                         .single_copy_many = 1024 * KIB,
                         .measured = true,
                         .streams = {[TTI_STREAM_DIRECT] = {8, 8},
                                     [TTI_STREAM_EXCHANGED] = {8, 8},
                                     [TTI_STREAM_ROOTED] = {8, 8},
                                     [TTI_STREAM_ALL_GATHER] = {6, 0},
                                     [TTI_STREAM_ALL_TO_ALL] = {6, 0},
                                     [TTI_STREAM_MESSAGES] = {8, 0},
                                     [TTI_STREAM_FOLDED] = {6, 0}}},
    [TTI_MODEL_ZEN_5] = {.two_one_shot = true,
                         .two_lines = TTI_PACKET_LINES_LEAST,
                         .small_ring = 512 * KIB,
                         .single_copy = TTI_TUNING_NEVER,
                         .single_copy_many = TTI_TUNING_NEVER,
                         .measured = true,
                         .streams = {[TTI_STREAM_DIRECT] = {8, 8},
                                     [TTI_STREAM_EXCHANGED] = {8, 8},
                                     [TTI_STREAM_ROOTED] = {8, 8},
                                     [TTI_STREAM_ALL_GATHER] = {8, 16},
                                     [TTI_STREAM_ALL_TO_ALL] = {8, 4},
                                     [TTI_STREAM_MESSAGES] = {8, 8}}},
    [TTI_MODEL_ZEN_3] = {
        .far_ring = true,
        .stream_to_far = true,
        .two_lines = 4,
        .small_ring = 256 * KIB,
        .single_copy_messages = true,
        .single_copy = TTI_TUNING_NEVER,
        .single_copy_many = 1024 * KIB,
        .measured = true,
        .streams = {[TTI_STREAM_DIRECT] = {8, 8},
                    [TTI_STREAM_EXCHANGED] = {4, 4},
                    [TTI_STREAM_ROOTED] = {4, 5},
                    [TTI_STREAM_ALL_GATHER] = {4, 6},
                    [TTI_STREAM_ALL_TO_ALL] = {4, 4},
                    [TTI_STREAM_MESSAGES] = {8, 8}},
        .streams_if_cold = {
            [TTI_STREAM_ROOTED] = {1, 1}, [TTI_STREAM_ALL_GATHER] = {2, 2}, [TTI_STREAM_ALL_TO_ALL] = {2, 2}}}};

const struct tti_model *tti_model_of(const struct tti_profile *profile)
{
    const int64_t last = (int64_t)(sizeof(models) / sizeof(models[0])) - 1;
    const bool known = profile->model >= TTI_MODEL_OTHER && profile->model <= last;
    return &models[known ? profile->model : TTI_MODEL_OTHER];
}

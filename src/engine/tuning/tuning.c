/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thresholds from a profile of the machine (profile.h): an analytical cost model. docs/performance.md compares it with
 * measurements. P ranks on C CPUs, R = P/C; n bytes; m = n/P. Times in ns for each rank.
 *
 * E is the cost of one more epoch. With a CPU for each rank: a hop, and STEP for the instructions around it
 * (publishing, polling, the bookkeeping of a span). With fewer CPUs, all R ranks of a CPU run once more in an epoch.
 * Each costs a switch, the polling before it yields, and PEER for each peer that it polls. The bytes count R times,
 * too, so R cancels out.
 *
 * A byte costs `own` in the rank's own caches (copying and folding differ little: the slower counts), and `remote` if
 * another CPU has written it last. Where ranks share CPUs, one in C of the others' bytes comes from the own CPU. The
 * first of R ranks fetches the rest, and the others find it in the cache: remote' = own + (remote - own)(1 - 1/C)/R.
 *
 * Virtual CPUs may be near each other now and far apart later: a missing figure of the two is the built-in one. If both
 * exist, one_shot and zero_copy are the geometric mean of what fits either, which is off by equal factors in both.
 * Every number has bounds. Within them a wrong profile costs time, never a result.
 */
#include "engine/tuning/tuning.h"

#include <stddef.h>

#include "engine/memory/layout.h"

#define KIB UINT64_C(1024)

#define SINGLE_COPY_RANKS 16
#define WINDOWS           8         /* of a stage: see TTI_STAGE_SPANS */
#define WINDOW_UNIT       (8 * KIB) /* so that TTI_STAGE_SPANS windows and slices are whole pages */
#define LEAST_SLOT        128 /* scatter and all_to_all give each rank a slot of a window; all_to_all_v also 16 B */

#define STEP                250.0 /* ns */
#define PEER                120.0 /* ns */
#define PACKETS_SAVE        950.0 /* ns of hop, for one line each */
#define PACKETS_SHARED_CPUS 16    /* lines of all ranks */
#define STREAM_GAIN         1.05  /* least gain that counts, as a factor */

#define STAGE_LEAST    (1024 * KIB)
#define STAGE_MOST     (4096 * KIB)
#define FAR_MOST       (16384 * KIB)
#define SMALL_STREAM   (16 * KIB)
#define ONE_SHOT_LEAST 512
#define ONE_SHOT_MOST  (256 * KIB)
#define ZERO_LEAST     (1 * KIB)
#define ZERO_MOST      (64 * KIB)
#define RING_MOST      (UINT64_C(1) << 31)
#define SLICED_RANKS   8
#define PACKETS_RANKS  64 /* with more ranks, unpacking takes too much memory */

/* RING_MOST at most. */
static uint64_t power_of_two(uint64_t least)
{
    uint64_t power = 1;
    while (power < least && power < RING_MOST) {
        power *= 2;
    }
    return power;
}

static double between(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

static uint64_t bounded(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Whole cache lines, so that similar profiles give equal numbers. */
static uint64_t lines(double bytes)
{
    return ((uint64_t)bytes + 32) / 64 * 64;
}

/* Newton's method, which needs no mathematics library; x from 1 to 1e12. */
static double root(double x)
{
    double r = x;
    for (int i = 0; i < 60; i++) {
        r = (r + x / r) / 2;
    }
    return r;
}

/* The costs of a group whose CPUs are all near each other, or all far apart. */
struct setting {
    double ranks;
    double epoch;  /* ns */
    double own;    /* ns a byte */
    double remote; /* ns a byte */
};

static bool ranks_share_cpus(int size, int cpus)
{
    return cpus > 0 && cpus < size;
}

static struct setting setting_of(int size, int cpus, const struct tti_profile *p, double hop_ns, int64_t remote_mbs)
{
    struct setting s = {.ranks = size, .epoch = hop_ns + STEP};
    s.own = 1000.0 / (double)(p->fold_mbs < p->copy_mbs ? p->fold_mbs : p->copy_mbs);
    /* a copy loads from the other CPU and stores into its own caches */
    const double loaded = 2000.0 / (double)remote_mbs - s.own;
    s.remote = loaded > s.own ? loaded : s.own;
    if (ranks_share_cpus(size, cpus)) {
        s.epoch = (double)p->switch_ns + TTI_SHARED_SPIN_NS + PEER * (s.ranks - 1);
        s.remote = s.own + (s.remote - s.own) * (1 - 1.0 / cpus) * cpus / s.ranks;
    }
    return s;
}

/*
 * one_shot: one-shot all_reduce has one epoch less than two-shot, and folds the whole vector instead of a slice.
 *   one-shot  stage 2n;        fold (P - 1) n remote + 2n;                                  E
 *   two-shot  stage 2(n - m);  fold (P - 1) m remote + 3m, then (n - m) remote + (n - m);   2E
 * They are equal at n = E / ((2/P - (1 - 1/P) + 2 - 3/P) own + (P - 2)(1 - 1/P) remote). On Zen 5 two ranks with a
 * CPU each gain up to a whole window (docs/decisions/0043).
 */
static double one_shot_for(const struct setting *s)
{
    const double part = 1 / s->ranks;
    const double a_byte = (2 * part - (1 - part) + 2 - 3 * part) * s->own + (s->ranks - 2) * (1 - part) * s->remote;
    return between(s->epoch / a_byte, ONE_SHOT_LEAST, ONE_SHOT_MOST);
}

/*
 * zero_copy: compared with one-shot all_reduce, which stands for all staged algorithms. Zero-copy has one epoch more,
 * fetches n remote bytes and writes n. It saves P own bytes and P - 1 remote ones: a write to a stage, whose lines
 * have left the caches, costs as much as a fetch. It also saves the stage's bookkeeping, about STEP.
 * So n = (E - STEP) / (P own + (P - 1) remote).
 */
static double zero_copy_for(const struct setting *s)
{
    const double a_byte = s->ranks * s->own + (s->ranks - 1) * s->remote;
    return between((s->epoch - STEP) / a_byte, ZERO_LEAST, ZERO_MOST);
}

/* The geometric mean over near and far, as far as they are known. */
static uint64_t over_states(int size, int cpus, const struct tti_profile *p, double (*rule)(const struct setting *))
{
    double product = 1;
    int states = 0;
    if (p->near_ns > 0) {
        const struct setting s = setting_of(size, cpus, p, (double)p->near_ns, p->near_mbs);
        product *= rule(&s);
        states++;
    }
    if (p->far_ns > 0) {
        const struct setting s = setting_of(size, cpus, p, (double)p->far_ns, p->far_mbs);
        product *= rule(&s);
        states++;
    }
    return lines(states == 2 ? root(product) : product);
}

static uint64_t all_reduce_one_shot_for(int size, int cpus, const struct tti_profile *p)
{
    const bool whole_window = size == 2 && !ranks_share_cpus(size, cpus) && tti_model_of(p)->two_one_shot;
    return whole_window ? TTI_TUNING_NEVER : over_states(size, cpus, p, one_shot_for);
}

/*
 * reduce_sliced: a flat tree has one epoch less than two-shot, and its root loads P - 1 vectors. Two-shot is faster
 * from n = E / ((1 + 1/P) own + (P - 2)(1 - 1/P) remote) on, which is one_shot's formula but for own/P, so that one
 * is used. Only with a CPU for each rank: otherwise the bytes of all ranks count, which are the same. And from
 * SLICED_RANKS on, where the simulation (docs/scaling.md) shows more gain than it may be wrong.
 */
static uint64_t reduce_sliced_for(int size, int cpus, const struct tti_profile *p)
{
    const bool gains = size >= SLICED_RANKS && !ranks_share_cpus(size, cpus);
    return gains ? over_states(size, cpus, p, one_shot_for) : TTI_TUNING_NEVER;
}

/* Bytes that fit the arrival and so many packets. */
static uint64_t lines_of(double packets)
{
    return TTI_PAYLOAD + (uint64_t)packets * TTI_PACKET_DATA;
}

static double lines_most(int size, const struct tti_profile *p)
{
    return size == 2 ? tti_model_of(p)->two_lines : TTI_PACKET_LINES_MOST;
}

/*
 * packets: a packet is a cache line that its readers still hold from 32 calls ago. The writer invalidates it and each
 * reader fetches it, a hop each, but several at a time. A stage's lines are in no cache, but their bookkeeping costs
 * PACKETS_SAVE, in the same unit: so many ns buy a line for each ns of hop. Where ranks are both near and far, far
 * counts, because the loss there is larger than the gain near. Where ranks share CPUs, a rank seldom waits for a line,
 * but it unpacks those of all ranks: PACKETS_SHARED_CPUS of them cost as much as the stage's bookkeeping.
 */
static uint64_t packets_for(int size, int cpus, const struct tti_profile *p)
{
    if (size > PACKETS_RANKS) {
        return 0;
    }
    if (ranks_share_cpus(size, cpus)) {
        const uint64_t each = (uint64_t)PACKETS_SHARED_CPUS / (uint64_t)size;
        return each > 0 ? lines_of((double)each) : 0;
    }
    const double hop = (double)(p->far_ns > 0 ? p->far_ns : p->near_ns);
    return lines_of(between(PACKETS_SAVE / hop, TTI_PACKET_LINES_LEAST, lines_most(size, p)));
}

/* A rank reads one rank's packets only: as many lines as ever pay, wherever the CPUs are (docs/decisions/0042). */
static uint64_t packets_root_for(int size, int cpus, const struct tti_profile *p)
{
    const bool fewer = size > PACKETS_RANKS || ranks_share_cpus(size, cpus);
    return fewer ? packets_for(size, cpus, p) : lines_of(lines_most(size, p));
}

/*
 * stage: a ring of twice the readers' second-level cache, which then evicts its lines before they are written again
 * (docs/decisions/0015). The rings of all ranks under one third-level cache fit into half of it, but no ring is
 * smaller than the second-level cache.
 */
static uint64_t stage_for(int size, int cpus, const struct tti_profile *p)
{
    const uint64_t l2 = (uint64_t)p->l2_bytes;
    const uint64_t a_cpu = ranks_share_cpus(size, cpus) ? (uint64_t)(size + cpus - 1) / (uint64_t)cpus : 1;
    const uint64_t neighbours =
        bounded((uint64_t)p->l3_cpus * a_cpu, 1, (uint64_t)size); /* ranks under one third-level cache */
    uint64_t most = (uint64_t)p->l3_bytes / 2 / neighbours;
    most = most < l2 ? l2 : most;
    return bounded(2 * l2 < most ? 2 * l2 : most, STAGE_LEAST, STAGE_MOST);
}

/*
 * small_from_root, small_gather, small_reduce: the small ring serves calls of any size, too, where its lines do not
 * leave the second-level caches before they are read: broadcast, scatter and gather of two ranks with a CPU each,
 * gather of ranks that share CPUs, reduce of four and more a CPU. It has to hold TTI_STAGE_SPANS of a call's spans.
 */
static uint64_t small_from_root_for(int size, int cpus)
{
    return size == 2 && !ranks_share_cpus(size, cpus) ? TTI_TUNING_NEVER : SMALL_STREAM;
}

static uint64_t small_gather_for(int size, int cpus)
{
    return size == 2 || ranks_share_cpus(size, cpus) ? TTI_TUNING_NEVER : SMALL_STREAM;
}

static bool four_ranks_a_cpu(int size, int cpus)
{
    return cpus > 0 && size >= 4 * cpus;
}

static uint64_t small_reduce_for(int size, int cpus)
{
    return four_ranks_a_cpu(size, cpus) ? TTI_TUNING_NEVER : SMALL_STREAM;
}

/*
 * stage_far: the lines of this ring leave the readers' third-level cache, too, where lines of other CPUs stay for about
 * a quarter of its size (measured, Zen 4). It is at least twice the first ring, and at most 16 MiB, to bound memory.
 */
static uint64_t stage_far_for(uint64_t stage, const struct tti_profile *p)
{
    if (!tti_model_of(p)->far_ring) {
        return 0;
    }
    const uint64_t quarter = power_of_two((uint64_t)p->l3_bytes / 4);
    return bounded(quarter, 2 * stage, FAR_MOST < 2 * stage ? 2 * stage : FAR_MOST);
}

/* stage_small: half of the second-level cache, for small calls. */
static uint64_t stage_small_for(uint64_t stage, const struct tti_profile *p)
{
    const uint64_t least = tti_model_of(p)->small_ring;
    return least > 0 ? bounded(power_of_two((uint64_t)p->l2_bytes) / 2, least, stage / 2) : 0;
}

/* Bytes of all last-level caches of the ranks. */
static uint64_t caches_of(int size, int cpus, const struct tti_profile *p)
{
    const uint64_t used = (uint64_t)(ranks_share_cpus(size, cpus) ? cpus : size);
    return (uint64_t)p->l3_bytes * ((used + (uint64_t)p->l3_cpus - 1) / (uint64_t)p->l3_cpus);
}

static bool streams_gain(const struct tti_profile *p)
{
    return (double)p->stream_mbs >= STREAM_GAIN * (double)p->memory_mbs;
}

static uint64_t stream_from(int size, int cpus, const struct tti_profile *p, struct tti_eighths limit)
{
    const uint64_t eighths = ranks_share_cpus(size, cpus) ? limit.shared_cpus : limit.own_cpus;
    return eighths > 0 ? caches_of(size, cpus, p) / 8 * eighths : TTI_TUNING_NEVER;
}

/*
 * streams: stores past the caches win if the results leave them anyway: inputs, outputs and stages of all ranks share
 * the last-level caches. From which part of the caches on depends on the model and on what writes
 * (docs/decisions/0042 and 0055), and there must be a gain at all: the profile measures it for a copy from memory to
 * memory. All_gather, all_to_all and folds read lines that other cores have just written. Of them that figure says
 * little, and decides only where the model was not measured.
 *
 * streams_if_cold: smaller results, too, if the lines of their output are in no cache (docs/decisions/0056).
 */
static uint64_t stream_for(int size, int cpus, const struct tti_profile *p, enum tti_stream_kind kind)
{
    const struct tti_model *m = tti_model_of(p);
    const bool by_model = kind == TTI_STREAM_ALL_GATHER || kind == TTI_STREAM_ALL_TO_ALL || kind == TTI_STREAM_FOLDED;
    const bool gains = (by_model && m->measured) || streams_gain(p);
    return gains ? stream_from(size, cpus, p, m->streams[kind]) : TTI_TUNING_NEVER;
}

static uint64_t stream_if_cold_for(int size, int cpus, const struct tti_profile *p, enum tti_stream_kind kind)
{
    const bool gains = stream_for(size, cpus, p, kind) != TTI_TUNING_NEVER;
    return gains ? stream_from(size, cpus, p, tti_model_of(p)->streams_if_cold[kind]) : TTI_TUNING_NEVER;
}

/*
 * single_copy: the kernel copies a large all_to_all of far ranks on Intel's CPUs, and wherever many ranks with a CPU
 * each use up the bandwidth of memory, of which that takes less; but never on Zen 5. On Zen 4 a stage whose results
 * go past the caches is faster (docs/decisions/0052). Messages compare what both cost (p2p/large/single_copy.c).
 */
static uint64_t single_copy_for(int size, int cpus, const struct tti_profile *p)
{
    const struct tti_model *m = tti_model_of(p);
    const bool many = size >= SINGLE_COPY_RANKS && !ranks_share_cpus(size, cpus);
    return many ? m->single_copy_many : m->single_copy;
}

static uint64_t single_copy_messages_for(const struct tti_profile *p, const struct tti_tuning_overrides *overrides)
{
    return !overrides->no_single_copy && (tti_model_of(p)->single_copy_messages || overrides->single_copy >= 0);
}

static uint64_t override_or(int64_t wish, uint64_t otherwise)
{
    return wish >= 0 ? (uint64_t)wish : otherwise;
}

void tti_tuning_fit(int size, int cpus, const struct tti_profile *profile, const struct tti_tuning_overrides *overrides,
                    struct tti_tuning *tuning)
{
    struct tti_profile p = *profile;
    tti_profile_complete(&p);
    if (p.cpus_stay == TTI_CPUS_MOVE) {
        tti_profile_assume_hops(&p);
    }
    uint64_t stage = overrides->stage > 0 ? (uint64_t)overrides->stage : stage_for(size, cpus, &p);
    uint64_t window = overrides->window > 0 ? (uint64_t)overrides->window : stage / WINDOWS;
    uint64_t least = (uint64_t)size * LEAST_SLOT;
    window = window < least ? least : window;
    window = (window + WINDOW_UNIT - 1) / WINDOW_UNIT * WINDOW_UNIT;
    if (stage < WINDOWS * window || (overrides->window > 0 && overrides->stage <= 0)) {
        stage = WINDOWS * window;
    }
    stage = power_of_two(stage);
    const bool one_ring = overrides->stage > 0 || overrides->window > 0;
    const uint64_t packets = override_or(overrides->packets, packets_for(size, cpus, &p));
    const uint64_t packets_root = override_or(overrides->packets, packets_root_for(size, cpus, &p));
    const uint64_t one_shot = override_or(overrides->one_shot, all_reduce_one_shot_for(size, cpus, &p));
    *tuning = (struct tti_tuning){
        .stage = stage,
        .stage_far = one_ring ? 0 : stage_far_for(stage, &p),
        .stage_small = one_ring ? 0 : stage_small_for(stage, &p),
        .window = window,
        .packets = packets < TTI_INLINE_MOST ? packets : TTI_INLINE_MOST,
        .packets_root = packets_root < TTI_INLINE_MOST ? packets_root : TTI_INLINE_MOST,
        .small_from_root = small_from_root_for(size, cpus),
        .small_gather = small_gather_for(size, cpus),
        .small_reduce = small_reduce_for(size, cpus),
        .one_shot = one_shot < window ? one_shot : window,
        .reduce_sliced = override_or(overrides->reduce_sliced, reduce_sliced_for(size, cpus, &p)),
        .zero_copy = override_or(overrides->zero_copy, over_states(size, cpus, &p, zero_copy_for)),
        .single_copy = overrides->no_single_copy ? TTI_TUNING_NEVER
                                                 : override_or(overrides->single_copy, single_copy_for(size, cpus, &p)),
        .single_copy_at_any_distance = overrides->single_copy >= 0,
        .single_copy_messages = single_copy_messages_for(&p, overrides),
        .claims = tti_model_of(&p)->claims,
        .stream_to_far = tti_model_of(&p)->stream_to_far};
    for (enum tti_stream_kind k = 0; k < TTI_STREAM_KINDS; k++) {
        tuning->streams[k] = override_or(overrides->stream, stream_for(size, cpus, &p, k));
        tuning->streams_if_cold[k] = override_or(overrides->stream, stream_if_cold_for(size, cpus, &p, k));
    }
}

static bool is_ring(uint64_t bytes)
{
    return bytes > 0 && bytes <= RING_MOST && (bytes & (bytes - 1)) == 0;
}

bool tti_tuning_is_valid(int size, const struct tti_tuning *t)
{
    return is_ring(t->stage) && (t->stage_far == 0 || (is_ring(t->stage_far) && t->stage_far >= t->stage)) &&
           (t->stage_small == 0 || is_ring(t->stage_small)) && t->window >= (uint64_t)size * LEAST_SLOT &&
           t->window % WINDOW_UNIT == 0 && t->window <= t->stage / WINDOWS && t->packets <= TTI_INLINE_MOST &&
           t->packets_root <= TTI_INLINE_MOST && t->one_shot <= t->window;
}

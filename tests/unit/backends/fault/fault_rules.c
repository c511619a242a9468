/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of the fault backend: accepted texts, errors for others, and the effect of rules on each operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backends/fault/rules.h"

#define MS INT64_C(1000000)

static struct tti_rules rules;

static void parse(const char *text)
{
    tutti_error e;
    memset(&rules, 0xa5, sizeof(rules)); /* need not be initialised */
    if (tti_rules_parse(text, &rules, &e) != TUTTI_OK) {
        fail_msg("\"%s\": %s", text, e.message);
    }
}

static struct tti_fault_effect judge(int32_t rank, tutti_operation operation)
{
    return tti_rules_evaluate(&rules, rank, operation);
}

static void test_good_texts(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int rules;
    } rows[] = {
        {"", 0},
        {"  \t", 0},
        {"*:drop", 1},
        {"all_reduce:delay=2ms,jitter=1ms;broadcast:bandwidth=1G;send:error=TIMEOUT@3;*:drop@5", 4},
        {" all_reduce : delay = 2ms @ 3 - 5 , rank = 1 ; send : drop @ 2 + ", 2},
        {"reduce:delay=0us", 1},
        {"reduce_scatter:delay=24s;scatter:delay=86400s;gather:delay=86400000ms", 3},
        {"recv:drop@9223372036854775807", 1},
        {"barrier:error=REVOKED,rank=2147483647,seed=9223372036854775807", 1},
        {"all_to_all:bandwidth=1,bandwidth=2K,bandwidth=3M,bandwidth=8589934591G", 1},
        {"*:delay=1us,delay=1us,delay=1us,delay=1us,jitter=1s,jitter=1s,drop@1,drop@2,rank=0,seed=0", 1},
        {"all_gather:error=INVALID_ARGUMENT;*:error=MISMATCH;*:error=SYSTEM", 3},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        parse(rows[i].text);
        assert_int_equal(rules.count, rows[i].rules);
    }
    char many[32 * 7 + 1] = "";
    for (int i = 0; i < TTI_RULES_MAX; i++) {
        strcat(many, i > 0 ? ";*:drop" : "*:drop");
    }
    parse(many);
    assert_int_equal(rules.count, TTI_RULES_MAX);
}

static void test_bad_texts(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int character;
        const char *word; /* of the sentence after "expected" */
    } rows[] = {
        {"allreduce:drop", 1, "all_reduce"},
        {"  probe:drop", 3, "recv"},
        {"All_reduce:drop", 1, "all_reduce"},
        {"all_reduce", 11, "':'"},
        {"all_reduce=drop", 11, "':'"},
        {"all_reduce:", 12, "delay=TIME"},
        {";", 1, "*"},
        {"*:drop;", 8, "all_reduce"},
        {"*:drop;;*:drop", 8, "all_reduce"},
        {"*:drop,", 8, "delay=TIME"},
        {"*:dely=2ms", 3, "delay=TIME"},
        {"*:drop;send:dropp", 13, "drop"},
        {"*:delay", 3, "delay=TIME"},
        {"*:delay=", 9, "ms"},
        {"*:delay=ms", 9, "ms"},
        {"*:delay=2", 9, "ms"},
        {"*:delay=2 ms", 9, "ms"},
        {"*:delay=-2ms", 9, "ms"},
        {"*:delay=1.5ms", 9, "whole"},
        {"*:delay=2msec", 9, "ms"},
        {"*:jitter=86401s", 10, "one day"},
        {"*:jitter=9223372036854775807s", 10, "one day"},
        {"*:jitter=99999999999999999999us", 10, "one day"},
        {"*:bandwidth=0", 13, "bytes per second"},
        {"*:bandwidth=fast", 13, "bytes per second"},
        {"*:bandwidth=8589934592G", 13, "bytes per second"},
        {"*:bandwidth=1GB", 15, "';'"},
        {"barrier:bandwidth=1G", 9, "payload"},
        {"recv:bandwidth=1G", 6, "sender"},
        {"*:error=", 9, "status"},
        {"*:error=OK", 9, "status"},
        {"*:error=timeout", 9, "TIMEOUT"},
        {"*:error=TIMEOUTS", 9, "TIMEOUT"},
        {"*:error=UNKNOWN", 9, "TIMEOUT"},
        {"*:error=CANCELLED", 9, "TIMEOUT"},
        {"*:error=FORKED", 9, "TIMEOUT"},
        {"*:drop=1", 7, "';'"},
        {"*:drop5", 7, "';'"},
        {"*:drop*", 7, "';'"},
        {"*:drop@", 8, "from 1"},
        {"*:drop@0", 8, "from 1"},
        {"*:drop@x", 8, "from 1"},
        {"*:drop@5-4", 8, "@3-5"},
        {"*:drop@5-", 8, "@3-5"},
        {"*:drop@5++", 10, "';'"},
        {"*:drop@99999999999999999999", 8, "from 1"},
        {"*:rank=1", 9, "does nothing"},
        {"*:drop,rank", 12, "="},
        {"*:drop,rank=", 13, "rank"},
        {"*:drop,rank=-1", 13, "rank"},
        {"*:drop,rank=2147483648", 13, "rank"},
        {"*:rank=1,drop,rank=2", 20, "one rank"},
        {"*:drop,seed=x", 13, "seed"},
        {"*:seed=1,drop,seed=1", 20, "one seed"},
        {"*:drop,rank=1@2", 14, "';'"},
        {"*:drop,drop,drop,drop,drop,drop,drop,drop,drop", 43, "8 actions"},
    };
    tutti_error e;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char where[40];
        snprintf(where, sizeof(where), "fault.rules, character %d:", rows[i].character);
        if (tti_rules_parse(rows[i].text, &rules, &e) != TUTTI_INVALID_ARGUMENT || !strstr(e.message, where) ||
            !strstr(e.message, rows[i].word)) {
            fail_msg("\"%s\": %s", rows[i].text, e.message);
        }
        assert_int_equal(tti_rules_parse(rows[i].text, &rules, NULL), TUTTI_INVALID_ARGUMENT);
    }
    char many[(TTI_RULES_MAX + 1) * 7 + 1] = "";
    for (int i = 0; i <= TTI_RULES_MAX; i++) {
        strcat(many, i > 0 ? ";*:drop" : "*:drop");
    }
    assert_int_equal(tti_rules_parse(many, &rules, &e), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(e.message, "at most 32 rules"));
}

/* The error quotes the wrong place of the text, and no more. */
static void test_quotes(void **unused)
{
    (void)unused;
    tutti_error e;
    char text[300];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    tti_rules_parse(text, &rules, &e);
    assert_non_null(strstr(e.message, "found \"xxxxxxxxxxxxxxxxxxxxxxxx\";"));
    tti_rules_parse("*:dely=2ms,drop;send:drop", &rules, &e);
    assert_non_null(strstr(e.message, "found \"dely=2ms\";"));
    tti_rules_parse("*:,drop", &rules, &e);
    assert_non_null(strstr(e.message, "found \",\";"));
    tti_rules_parse("*:drop,", &rules, &e);
    assert_non_null(strstr(e.message, "found the end;"));
}

static void test_matching(void **unused)
{
    (void)unused;
    parse("all_reduce:delay=2ms;reduce:delay=3ms,rank=1;*:delay=100ms,rank=2");
    assert_int_equal(judge(0, TUTTI_OP_ALL_REDUCE).delay_ns, 2 * MS);
    assert_int_equal(judge(1, TUTTI_OP_ALL_REDUCE).delay_ns, 2 * MS);
    assert_int_equal(judge(0, TUTTI_OP_REDUCE).delay_ns, 0);
    assert_int_equal(judge(1, TUTTI_OP_REDUCE).delay_ns, 3 * MS);
    assert_int_equal(judge(1, TUTTI_OP_REDUCE_SCATTER).delay_ns, 0);
    for (tutti_operation o = TUTTI_OP_ALL_REDUCE; o <= TUTTI_OP_RECV; o++) {
        assert_int_equal(judge(2, o).delay_ns, (o == TUTTI_OP_ALL_REDUCE ? 102 : 100) * MS);
        assert_int_equal(judge(3, o).delay_ns, o == TUTTI_OP_ALL_REDUCE ? 2 * MS : 0);
    }
}

/* All rules that match apply: delays add up, the lowest bandwidth counts. */
static void test_together(void **unused)
{
    (void)unused;
    parse("*:delay=1ms,bandwidth=2K;send:delay=10us,delay=1s,bandwidth=1K;send:bandwidth=3M");
    struct tti_fault_effect v = judge(0, TUTTI_OP_SEND);
    assert_int_equal(v.delay_ns, 1001 * MS + 10000);
    assert_int_equal(v.bandwidth, 1024);
    assert_int_equal(v.rule, 0);
    v = judge(0, TUTTI_OP_SCATTER);
    assert_int_equal(v.delay_ns, MS);
    assert_int_equal(v.bandwidth, 2048);

    parse("*:bandwidth=8589934591G");
    assert_int_equal(judge(0, TUTTI_OP_SEND).bandwidth, INT64_C(8589934591) << 30);
}

/* The first error or drop in the text applies, with its rule and match. */
static void test_first_error(void **unused)
{
    (void)unused;
    parse("*:error=NO_MEMORY@2,drop@3;all_reduce:drop;*:error=TIMEOUT");
    struct tti_fault_effect v = judge(0, TUTTI_OP_ALL_REDUCE);
    assert_true(v.drop && v.status == TUTTI_OK && v.rule == 2 && v.match == 1);
    v = judge(0, TUTTI_OP_ALL_REDUCE);
    assert_true(!v.drop && v.status == TUTTI_NO_MEMORY && v.rule == 1 && v.match == 2);
    v = judge(0, TUTTI_OP_BARRIER);
    assert_true(v.drop && v.status == TUTTI_OK && v.rule == 1 && v.match == 3);
    v = judge(0, TUTTI_OP_BARRIER);
    assert_true(!v.drop && v.status == TUTTI_TIMEOUT && v.rule == 3 && v.match == 4);
}

/* Each rule counts its own matches. */
static void test_counting(void **unused)
{
    (void)unused;
    parse("send:delay=1ms@2;*:delay=10ms@3-4;*:delay=100ms@5+,rank=1");
    static const struct {
        tutti_operation operation;
        int64_t ms;
    } calls[] = {
        {TUTTI_OP_SEND, 0}, {TUTTI_OP_BARRIER, 0}, {TUTTI_OP_SEND, 1 + 10}, {TUTTI_OP_RECV, 10},
        {TUTTI_OP_SEND, 0}, {TUTTI_OP_SEND, 0},    {TUTTI_OP_BARRIER, 0},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        assert_int_equal(judge(0, calls[i].operation).delay_ns, calls[i].ms * MS);
    }
    parse("*:delay=100ms@5+,rank=1");
    for (int i = 1; i <= 8; i++) {
        assert_int_equal(judge(0, TUTTI_OP_SEND).delay_ns, 0); /* other ranks are not counted */
        assert_int_equal(judge(1, TUTTI_OP_SEND).delay_ns, i >= 5 ? 100 * MS : 0);
    }
}

static void test_jitter(void **unused)
{
    (void)unused;
    enum { DRAWS = 2000 };
    static int64_t draws[4][DRAWS];
    static const struct {
        const char *text;
        int32_t rank;
    } runs[] = {{"*:delay=5ms,jitter=1ms", 0},
                {"*:delay=5ms,jitter=1ms,seed=1", 0}, /* the default */
                {"*:delay=5ms,jitter=1ms", 1},
                {"*:delay=5ms,jitter=1ms,seed=2", 0}};
    for (int run = 0; run < 4; run++) {
        parse(runs[run].text);
        int64_t sum = 0;
        int quarters[4] = {0};
        for (int i = 0; i < DRAWS; i++) {
            int64_t extra = judge(runs[run].rank, TUTTI_OP_SEND).delay_ns - 5 * MS;
            assert_true(extra >= 0 && extra <= MS);
            draws[run][i] = extra;
            sum += extra;
            quarters[extra < MS ? extra * 4 / MS : 3]++;
        }
        assert_true(sum > DRAWS * 47 / 100 * MS && sum < DRAWS * 53 / 100 * MS);
        for (int q = 0; q < 4; q++) {
            assert_true(quarters[q] > DRAWS / 5 && quarters[q] < DRAWS * 3 / 10);
        }
    }
    int same_as_rank_1 = 0;
    int same_as_seed_2 = 0;
    for (int i = 0; i < DRAWS; i++) {
        assert_int_equal(draws[0][i], draws[1][i]);
        same_as_rank_1 += draws[0][i] == draws[2][i];
        same_as_seed_2 += draws[0][i] == draws[3][i];
    }
    assert_true(same_as_rank_1 < DRAWS / 10 && same_as_seed_2 < DRAWS / 10);

    parse("*:jitter=0us");
    assert_int_equal(judge(0, TUTTI_OP_SEND).delay_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_texts), cmocka_unit_test(test_bad_texts), cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_matching),   cmocka_unit_test(test_together),  cmocka_unit_test(test_first_error),
        cmocka_unit_test(test_counting),   cmocka_unit_test(test_jitter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

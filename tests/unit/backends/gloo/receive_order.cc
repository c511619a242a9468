/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/*
 * The order in which ranks receive chunks, with transfers that only count. All ranks of an all_reduce are simulated:
 * the parts that each rank reduces are the first phase, the results the second one. A result can be sent once its
 * sender has that chunk from all ranks.
 */
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

extern "C" {
#include <cmocka.h>
}

#include <random>
#include <set>

#include "backends/gloo/plugin/collectives/receive_order.h"

namespace
{

struct Posted {
    size_t phase;
    size_t from;
    size_t chunk;
};

struct Transfer {
    size_t phase = 0;
    size_t from = 0;
    size_t chunks = 0;
    std::vector<Posted> *log = nullptr; /* of the receiver: posted and not arrived, in the order of posting */
    size_t posted = 0;
    size_t arrived = 0;

    size_t count() const
    {
        return chunks;
    }
    void receive_next()
    {
        assert_true(posted < chunks);
        log->push_back({phase, from, posted++});
    }
    size_t poll_received() const
    {
        return posted - arrived;
    }
};

struct Rank {
    std::vector<Transfer> in;
    std::vector<Transfer> results;
    std::vector<Posted> log;
    std::vector<tti::ReceiveOrder<Transfer>> order;

    size_t folded(size_t own) const
    {
        size_t least = SIZE_MAX;
        for (size_t r = 0; r < in.size(); r++) {
            least = r == own ? least : std::min(least, in[r].arrived);
        }
        return least;
    }

    bool is_done(size_t own) const
    {
        for (size_t r = 0; r < in.size(); r++) {
            if (r != own && (in[r].arrived < in[r].chunks || results[r].arrived < results[r].chunks)) {
                return false;
            }
        }
        return true;
    }
};

class Job
{
  public:
    /* chunks[r]: those of rank r's part */
    explicit Job(const std::vector<size_t> &chunks)
        : rank(chunks.size()), most_(*std::max_element(chunks.begin(), chunks.end()))
    {
        for (size_t own = 0; own < rank.size(); own++) {
            Rank &r = rank[own];
            r.in.resize(rank.size());
            r.results.resize(rank.size());
            for (size_t from = 0; from < rank.size(); from++) {
                if (from != own) {
                    r.in[from] = {0, from, chunks[own], &r.log};
                    r.results[from] = {1, from, chunks[from], &r.log};
                }
            }
            r.order.emplace_back(static_cast<int>(own), std::vector{&r.in, &r.results});
            advance(own);
        }
    }

    void advance(size_t own)
    {
        Rank &r = rank[own];
        r.order.front().advance(r.folded(own) + tti::IN_FLIGHT);
        assert_true(r.log.size() <= tti::WINDOW);
        std::set<size_t> senders;
        for (const Posted &posted : r.log) {
            senders.insert(posted.from);
        }
        assert_true(senders.size() <= tti::PEERS * std::min(most_, tti::BURST));
        for (size_t from = 0; from < rank.size(); from++) {
            assert_true(from == own ||
                        r.in[from].posted <= r.folded(own) + tti::IN_FLIGHT); /* there is no more memory */
        }
    }

    bool can_arrive(const Posted &posted) const
    {
        return posted.phase == 0 || rank[posted.from].folded(posted.from) > posted.chunk;
    }

    void arrive(size_t own, size_t index)
    {
        Rank &r = rank[own];
        const Posted posted = r.log[index];
        r.log.erase(r.log.begin() + static_cast<std::ptrdiff_t>(index));
        (posted.phase == 0 ? r.in : r.results)[posted.from].arrived++;
    }

    bool is_done() const
    {
        for (size_t own = 0; own < rank.size(); own++) {
            if (!rank[own].is_done(own)) {
                return false;
            }
        }
        return true;
    }

    std::vector<Rank> rank;

  private:
    size_t most_;
};

/* If all ranks are equally fast, no two of them receive from the same rank. */
void test_every_sender_has_one_receiver(void **)
{
    for (size_t ranks = 2; ranks <= 9; ranks++) {
        for (size_t chunks = 1; chunks <= 9; chunks++) {
            Job job(std::vector<size_t>(ranks, chunks));
            size_t steps = 0;
            for (; !job.is_done(); steps++) {
                std::set<size_t> senders;
                for (size_t own = 0; own < ranks; own++) {
                    assert_true(!job.rank[own].log.empty() && job.can_arrive(job.rank[own].log.front()));
                    senders.insert(job.rank[own].log.front().from);
                }
                assert_int_equal(senders.size(), ranks);
                for (size_t own = 0; own < ranks; own++) {
                    job.arrive(own, 0);
                }
                for (size_t own = 0; own < ranks; own++) {
                    job.advance(own);
                }
            }
            assert_int_equal(steps, 2 * chunks * (ranks - 1));
        }
    }
}

/* In any order of arrivals, with parts of any lengths, all chunks arrive at last. */
void test_any_order_of_arrivals_ends(void **)
{
    std::mt19937 random(1);
    for (int run = 0; run < 300; run++) {
        std::vector<size_t> chunks(2 + random() % 7);
        for (size_t &n : chunks) {
            n = random() % 12;
        }
        Job job(chunks);
        while (!job.is_done()) {
            std::vector<std::pair<size_t, size_t>> possible;
            for (size_t own = 0; own < chunks.size(); own++) {
                std::set<std::pair<size_t, size_t>> seen; /* chunks of one transfer arrive in order */
                for (size_t i = 0; i < job.rank[own].log.size(); i++) {
                    const Posted &posted = job.rank[own].log[i];
                    if (seen.insert({posted.phase, posted.from}).second && job.can_arrive(posted)) {
                        possible.emplace_back(own, i);
                    }
                }
            }
            assert_false(possible.empty());
            const auto chosen = possible[random() % possible.size()];
            job.arrive(chosen.first, chosen.second);
            job.advance(chosen.first);
        }
    }
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sender_has_one_receiver),
        cmocka_unit_test(test_any_order_of_arrivals_ends),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

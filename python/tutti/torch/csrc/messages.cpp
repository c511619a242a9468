// SPDX-License-Identifier: BSD-3-Clause
// Messages, and the monitored barrier, which is made of messages.
#include "backend.hpp"

namespace tutti_torch {

WorkPtr Backend::send(Tensors &tensors, int peer, int tag)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "tutti: send takes one tensor");
    Block block = Block::reading({tensors[0]});
    const Element element = element_to_move(block.type());
    return run_one({c10d::OpType::SEND, "tutti:send", options_->timeout, true, tensors, {}, {block}, {}},
                   [&](const tutti_call *options, tutti_work **work) {
                       Flat flat(block, element);
                       return tutti_send_async(group_, flat, peer, tag, options, work);
                   });
}

WorkPtr Backend::receive(Tensors &tensors, int peer, int tag, c10d::OpType type, const char *title)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "tutti: recv takes one tensor");
    Block block = Block::updating({tensors[0]}); // a shorter message leaves the rest as it is
    const Element element = element_to_move(block.type());
    auto work = c10::make_intrusive<Work>(
        rank_, Call{type, title, options_->timeout, true, tensors, {tensors}, {}, {block}}, ++messages_);
    work->start([&](const tutti_call *options, tutti_work **handle) {
        Flat flat(block, element);
        return tutti_recv_async(group_, flat, peer, tag, options, work->message(), handle);
    });
    work->started();
    return work;
}

WorkPtr Backend::recv(Tensors &tensors, int peer, int tag)
{
    return receive(tensors, peer, tag, c10d::OpType::RECV, "tutti:recv");
}

WorkPtr Backend::recvAnysource(Tensors &tensors, int tag)
{
    return receive(tensors, TUTTI_ANY_SOURCE, tag, c10d::OpType::RECVANYSOURCE, "tutti:recvAnySource");
}

// ---- the monitored barrier: every rank reports to rank 0, which answers when all have -------------------------------
//
// A report is a positive number of the reporting rank, and its answer is the same number. A rank that gives up
// withdraws its report by the negative number. Messages of a pair do not overtake, so rank 0 sees whether a report
// still counts.

namespace {

constexpr int report_tag = INT32_MAX;
constexpr int answer_tag = INT32_MAX - 1;

using Clock = std::chrono::steady_clock;

} // namespace

// kUnsetTimeout: never.
static Clock::time_point end_of(milliseconds timeout)
{
    return timeout == c10d::kUnsetTimeout ? Clock::time_point::max() : Clock::now() + timeout;
}

// The next number from `peer`; 0 at the limit, which leaves the group usable.
static int64_t receive_number(tutti_group *group, int peer, int tag, Clock::time_point end)
{
    tutti_error error;
    const int64_t left = std::chrono::ceil<milliseconds>(end - Clock::now()).count();
    const tutti::call limited = tutti::call().timeout_ms(std::max<int64_t>(left, 1)).error(&error);
    const tutti_status status = tutti_probe_wait(group, peer, tag, limited, nullptr);
    if (status == TUTTI_TIMEOUT && error.scope == TUTTI_SCOPE_CALL) {
        return 0;
    }
    check(status, error);
    int64_t number = 0;
    Flat flat(&number, 1, {TUTTI_I64, 1});
    check(tutti_recv(group, flat, peer, tag, tutti::call().error(&error), nullptr), error);
    return number;
}

// The report of `peer`, if it is not withdrawn; 0 at the limit.
static int64_t receive_report(tutti_group *group, int peer, Clock::time_point end)
{
    int64_t report = 0;
    int32_t more = 1;
    while (more || report <= 0) {
        const int64_t number = receive_number(group, peer, report_tag, end);
        if (number == 0) {
            return 0;
        }
        report = number;
        tutti_error error;
        check(tutti_probe(group, peer, report_tag, &more, nullptr, &error), error);
    }
    return report;
}

WorkPtr Backend::send_number(int peer, int tag, int64_t number)
{
    Tensors tensors{at::full({1}, number, at::kLong)};
    return send(tensors, peer, tag);
}

void Backend::report_to_root(milliseconds timeout)
{
    const int64_t number = ++reports_;
    const auto end = end_of(timeout);
    std::string cause = "rank 0 did not answer in time";
    try {
        send_number(0, report_tag, number);
        int64_t answer = 0;
        while ((answer = receive_number(group_, 0, answer_tag, end)) != 0) {
            if (answer == number) {
                return;
            }
        }
        send_number(0, report_tag, -number);
    } catch (const c10::Error &error) {
        cause = error.what_without_backtrace();
    }
    C10_THROW_ERROR(DistBackendError,
                    c10::str("Rank ", rank_,
                             " successfully reached monitoredBarrier, but received errors while waiting "
                             "for send/recv from rank 0. Please check rank 0 logs for faulty rank. (",
                             cause, ")"));
}

// The reports of all ranks, or an exception that names the ranks without one.
std::vector<int64_t> Backend::collect_reports(milliseconds timeout, bool wait_all_ranks)
{
    const auto end = end_of(timeout);
    std::vector<int64_t> reports;
    std::vector<int> missing;
    std::string cause;
    for (int peer = 1; peer < size_ && (wait_all_ranks || missing.empty()); peer++) {
        if (!wait_all_ranks && Clock::now() >= end) {
            C10_THROW_ERROR(DistBackendError, c10::str("Rank 0 timed out in monitoredBarrier after ", timeout.count(),
                                                       " ms. Successfully processed ", peer - 1, " ranks."));
        }
        try {
            // With wait_all_ranks a slow rank does not shorten the limit of the next one.
            reports.push_back(receive_report(group_, peer, wait_all_ranks ? end_of(timeout) : end));
        } catch (const c10::Error &error) {
            reports.push_back(0);
            cause = c10::str(" (", error.what_without_backtrace(), ")");
        }
        if (reports.back() == 0) {
            missing.push_back(peer);
        }
    }
    if (!missing.empty()) {
        C10_THROW_ERROR(DistBackendError,
                        c10::str("[Rank 0]: Rank", missing.size() > 1 ? "s " : " ", c10::Join(", ", missing),
                                 " failed to pass monitoredBarrier in ", timeout.count(), " ms", cause));
    }
    return reports;
}

void Backend::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks)
{
    // The timeout 0 of a group means none; that of a call is over at once, as with gloo.
    const bool limited = deadline(options_->timeout) != TUTTI_FOREVER;
    const milliseconds timeout = limited ? timeout_of(options.timeout) : options.timeout;
    if (rank_ != 0) {
        report_to_root(timeout);
        return;
    }
    const std::vector<int64_t> reports = collect_reports(timeout, wait_all_ranks);
    std::vector<WorkPtr> works;
    for (int peer = 1; peer < size_; peer++) {
        works.push_back(send_number(peer, answer_tag, reports[peer - 1]));
    }
    for (const WorkPtr &work : works) {
        work->wait();
    }
}

} // namespace tutti_torch

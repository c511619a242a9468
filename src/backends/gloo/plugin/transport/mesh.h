/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gloo's transport over TCP, extended through its own base classes, as Gloo's TLS transport does:
 *   - Gloo's thread rings a doorbell when a transfer has ended, and a caller can poll transfers. Gloo's own waits close
 *     all connections at a timeout, and do not return when a peer dies during a transfer;
 *   - the notices by which Gloo announces a send or a receive wait for the data behind them, and leave in one packet;
 *   - the loss of a connection is recorded with Gloo's text at once, also if no thread waits;
 *   - no process that this rank starts or forks keeps a connection open;
 *   - no exception leaves Gloo's thread, where it would end the process, and no write raises SIGPIPE;
 *   - a connection outlives a lack of memory, which is recorded apart: it is this rank's failure, not the peer's;
 *   - data that arrive after the group has failed are discarded. Otherwise they would keep Gloo's thread busy.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_TRANSPORT_MESH_H
#define TTI_BACKENDS_GLOO_PLUGIN_TRANSPORT_MESH_H

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>

#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/gloo/plugin/transport/doorbell.h"

namespace tti
{

class Mesh;

/* Memory that transfers read or write. The destructor waits until Gloo's thread no longer uses the memory, also for
 * transfers in flight. */
class Buffer : public gloo::transport::tcp::UnboundBuffer
{
  public:
    using UnboundBuffer::UnboundBuffer;

    /* How many receives, or sends, have ended since the buffer was made. */
    size_t received();
    size_t sent();

  private:
    size_t received_ = 0;
    size_t sent_ = 0;
};

/* One connection. */
class Pair : public gloo::transport::tcp::Pair
{
  public:
    Pair(Mesh *mesh, gloo::transport::tcp::Device *device, int rank, std::chrono::milliseconds timeout);

    void handleEvents(int events) override;
    void send(gloo::transport::UnboundBuffer *buffer, uint64_t slot, size_t offset, size_t bytes) override;

    /* Sends the notices that wait. */
    void flush();

    /* Closes the connection, and returns when Gloo's thread no longer uses it. */
    void shut();
    /* Ends what this rank sends, so that the peer loses the connection. Needs no memory. */
    void hang_up();
    /* In the child of a fork: closes its copy of the connection's socket. */
    void close_in_child();
    /* Whether sent data have not yet reached the other host's kernel. */
    bool is_sending();

  protected:
    bool write(gloo::transport::tcp::Op &op) override;
    bool read() override;
    void handleReadWrite(int events) override;
    void changeState(state next) noexcept override;
    void waitUntilConnected(std::unique_lock<std::mutex> &lock, bool use_timeout) override;

  private:
    void await_lock();
    bool discard();
    bool drop(const gloo::transport::tcp::Op &op);
    void end_stream();
    bool write_part(gloo::transport::tcp::Op &op);
    bool transmit(gloo::transport::tcp::Op *op, char *memory);

    Mesh *mesh_;
    /* Notices that leave with the next operation, or at flush; only while Gloo's queue is empty. Under the pair's
     * lock. */
    std::deque<gloo::transport::tcp::Op> waiting_;
    bool hung_up_ = false;            /* nothing more is sent; under the pair's lock */
    std::atomic<int> connection_{-1}; /* the connection's socket, for the child of a fork */
};

/* The connections of this rank to all other ranks of a group. */
class Mesh : public gloo::transport::tcp::Context
{
  public:
    Mesh(std::shared_ptr<gloo::transport::tcp::Device> device, int rank, int size);
    ~Mesh() override;

    std::unique_ptr<gloo::transport::Pair> &createPair(int rank) override;

    std::unique_ptr<Buffer> buffer(const void *memory, size_t bytes);
    Pair *pair(int rank);

    /* Whether the connection to a rank is lost, and Gloo's text. */
    bool is_lost(int rank) const;
    std::string why(int rank);
    void record_loss(int rank, const std::exception_ptr &why) noexcept;

    /* The rank of the first transfer for which Gloo's thread had no memory, or -1. Data that arrive are discarded. */
    int without_memory() const;
    void record_no_memory(int rank) noexcept;

    /* From now on, data that arrive are discarded. */
    void discard();
    bool discards() const;

    void shut();

    Doorbell doorbell;
    std::atomic<uint32_t> losses{0}; /* lost connections; release in record_loss, acquire in Group::losses */
    std::atomic<int> connecting{-1}; /* relaxed: the rank to which a connection is being made, for an error's text */

  private:
    static void close_in_child();

    std::atomic<Mesh *> next_{nullptr}; /* in the list of this process */
    std::vector<std::atomic<bool>> lost_;
    std::atomic<bool> discards_{false};
    std::atomic<int> without_memory_{-1}; /* relaxed: nothing else is published with it */
    std::mutex lock_;
    std::vector<std::string> why_; /* under the lock */
};

/* An address and the thread that serves it. */
class Device : public gloo::transport::tcp::Device
{
  public:
    using gloo::transport::tcp::Device::Device;

    std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;

    std::shared_ptr<Mesh> mesh() const
    {
        return mesh_.lock();
    }

  private:
    std::weak_ptr<Mesh> mesh_; /* the last one created */
};

/* Starts Gloo's thread, with all signals blocked: they belong to the application's threads. */
std::shared_ptr<Device> make_device(const gloo::transport::tcp::attr &attr);

} // namespace tti

#endif

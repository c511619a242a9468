/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gloo's transport over TCP with what it lacks, by the classes that it provides for deriving from, as its own TLS
 * transport does:
 *   - Gloo's thread rings a bell when a transfer has ended, and transfers can be looked at without waiting. Gloo's own waits
 *     close all connections when their time is up, and tell nothing of a transfer that had begun when its peer died;
 *   - the loss of a connection is noted with Gloo's text, at once, whether or not anybody waits;
 *   - no exception leaves Gloo's thread, where it would end the process, and no write raises SIGPIPE;
 *   - what still arrives in a group that has failed is thrown away, instead of keeping that thread busy.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_MESH_H
#define TTI_BACKENDS_GLOO_PLUGIN_MESH_H

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/gloo/plugin/doorbell.h"

namespace tti
{

class Mesh;

/* Memory that transfers read or write. Its destructor waits until Gloo's thread has left the memory, whatever was under
 * way. */
class Buffer : public gloo::transport::tcp::UnboundBuffer
{
  public:
    using UnboundBuffer::UnboundBuffer;

    /* How many receives, and sends, have ended since it was made. */
    size_t received();
    size_t sent();
};

/* One connection. */
class Pair : public gloo::transport::tcp::Pair
{
  public:
    Pair(Mesh *mesh, gloo::transport::tcp::Device *device, int rank, std::chrono::milliseconds timeout);

    void handleEvents(int events) override;

    /* Closes it, and returns when Gloo's thread has let go of it. */
    void shut();
    /* Whether something that was sent has not reached the other host's kernel. */
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

    Mesh *mesh_;
};

/* The connections of a group, each rank with each. */
class Mesh : public gloo::transport::tcp::Context
{
  public:
    Mesh(std::shared_ptr<gloo::transport::tcp::Device> device, int rank, int size);
    ~Mesh() override;

    std::unique_ptr<gloo::transport::Pair> &createPair(int rank) override;

    std::unique_ptr<Buffer> buffer(const void *memory, size_t bytes);
    Pair *pair(int rank);

    /* Whether the connection to a rank is lost, and what Gloo said. */
    bool is_gone(int rank) const;
    std::string why(int rank);
    void note_gone(int rank, const char *why) noexcept;

    /* From now on what arrives is thrown away. */
    void discard();
    bool discards() const;

    void shut();

    Doorbell doorbell;
    std::atomic<uint32_t> losses{0}; /* connections that are gone; release, pairs with who looks for new ones */
    std::atomic<int> connecting{-1}; /* relaxed: the rank whose connection is awaited, for an error's text */

  private:
    std::vector<std::atomic<bool>> gone_;
    std::atomic<bool> discards_{false};
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
    std::weak_ptr<Mesh> mesh_; /* the last one */
};

/* Begins Gloo's thread, in which no signal of the application is handled. */
std::shared_ptr<Device> make_device(const gloo::transport::tcp::attr &attr);

} // namespace tti

#endif

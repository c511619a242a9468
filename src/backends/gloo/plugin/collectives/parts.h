/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of a joined tensor: where they are, and copies of parts that span several rows. */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_PARTS_H
#define TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_PARTS_H

#include "backends/gloo/plugin/collectives/call.h"

namespace tti
{

class Parts
{
  public:
    Parts(const tutti_parts &parts, const void *joined)
        : p_(parts), base_(static_cast<unsigned char *>(const_cast<void *>(joined)))
    {
    }

    /* Whether each part is contiguous. */
    bool are_whole() const
    {
        return p_.outer <= 1;
    }

    size_t bytes(int rank) const
    {
        return tti_parts_bytes(&p_, rank);
    }

    /* The address of a part's first row. */
    unsigned char *at(int rank) const
    {
        return base_ ? base_ + offset(rank) : nullptr;
    }

    void copy_out(int rank, unsigned char *to) const
    {
        for (size_t row = 0; row < p_.outer && width(rank) > 0; row++) {
            tti_copy_cached(to + row * width(rank), at(rank) + row * p_.pitch, width(rank));
        }
    }

    void copy_in(int rank, const unsigned char *from) const
    {
        for (size_t row = 0; row < p_.outer && width(rank) > 0; row++) {
            tti_copy_cached(at(rank) + row * p_.pitch, from + row * width(rank), width(rank));
        }
    }

  private:
    size_t width(int rank) const
    {
        return tti_parts_width(&p_, rank);
    }

    size_t offset(int rank) const
    {
        return tti_parts_offset(&p_, rank);
    }

    const tutti_parts &p_;
    unsigned char *base_;
};

} // namespace tti

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_STORE_RESOURCE_ORIGIN_H
#define TTI_STORE_RESOURCE_ORIGIN_H

/* Which process a NO_MEMORY or NO_RESOURCE of a store is about. */
enum tti_resource_origin {
    TTI_RESOURCE_OF_CALLER, /* this process, perhaps as the server */
    TTI_RESOURCE_OF_SERVER, /* the process at the other end, which serves the store and has refused the request */
};

#endif

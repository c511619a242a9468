/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of a device in a sentence. */
#ifndef TTI_DEVICE_TEXT_H
#define TTI_DEVICE_TEXT_H

#include <tutti/dlpack.h>

/* "cuda:1"; for any DLPack device. Returns `text`. */
const char *tti_device_text(DLDevice device, char text[24]);

#endif

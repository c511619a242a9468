// SPDX-License-Identifier: BSD-3-Clause
// Torch's dtypes and reduce ops as Tutti's. Every dtype of torch can be moved. A reduction needs a dtype of Tutti that
// has the operator; a complex sum is the sum of its pairs of reals.
#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <tutti/tutti.h>

namespace tutti_torch {

// An element of a tensor is `units` elements of Tutti's dtype.
struct Element {
    tutti_dtype dtype;
    int64_t units;
};

// How Tutti copies a dtype: as itself, or else as its bytes.
Element element_to_move(c10::ScalarType type);

struct Reduction {
    tutti_reduce_op op;
    Element element;
    double scale; // PREMUL_SUM; 1 otherwise
};

// How Tutti reduces a dtype. Throws TypeError with the reason if the operator has no meaning on it.
Reduction reduction(const c10d::ReduceOp &op, c10::ScalarType type);

} // namespace tutti_torch

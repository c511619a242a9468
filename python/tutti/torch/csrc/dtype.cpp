// SPDX-License-Identifier: BSD-3-Clause
#include "dtype.hpp"

namespace tutti_torch {

// The dtype of Tutti that means the same, or 0.
static tutti_dtype same_meaning(c10::ScalarType type)
{
    switch (type) {
    case c10::ScalarType::Double:
        return TUTTI_F64;
    case c10::ScalarType::Float:
        return TUTTI_F32;
    case c10::ScalarType::Half:
        return TUTTI_F16;
    case c10::ScalarType::BFloat16:
        return TUTTI_BF16;
    case c10::ScalarType::Float8_e4m3fn:
        return TUTTI_F8_E4M3;
    case c10::ScalarType::Float8_e5m2:
        return TUTTI_F8_E5M2;
    case c10::ScalarType::Char:
        return TUTTI_I8;
    case c10::ScalarType::Short:
        return TUTTI_I16;
    case c10::ScalarType::Int:
        return TUTTI_I32;
    case c10::ScalarType::Long:
        return TUTTI_I64;
    case c10::ScalarType::Byte:
        return TUTTI_U8;
    case c10::ScalarType::UInt16:
        return TUTTI_U16;
    case c10::ScalarType::UInt32:
        return TUTTI_U32;
    case c10::ScalarType::UInt64:
        return TUTTI_U64;
    case c10::ScalarType::Bool:
        return TUTTI_BOOL;
    default:
        return 0;
    }
}

// A complex number is two reals; everything else is one.
static Element element_with_meaning(c10::ScalarType type)
{
    if (c10::isComplexType(type)) {
        return {same_meaning(c10::toRealValueType(type)), 2};
    }
    return {same_meaning(type), 1};
}

Element element_to_move(c10::ScalarType type)
{
    const Element element = element_with_meaning(type);
    return element.dtype != 0 ? element : Element{TUTTI_U8, static_cast<int64_t>(c10::elementSize(type))};
}

static tutti_reduce_op reduce_op(c10d::ReduceOp::RedOpType op)
{
    switch (op) {
    case c10d::ReduceOp::SUM:
        return TUTTI_SUM;
    case c10d::ReduceOp::AVG:
        return TUTTI_AVG;
    case c10d::ReduceOp::PRODUCT:
        return TUTTI_PRODUCT;
    case c10d::ReduceOp::MIN:
        return TUTTI_MIN;
    case c10d::ReduceOp::MAX:
        return TUTTI_MAX;
    case c10d::ReduceOp::BAND:
        return TUTTI_BAND;
    case c10d::ReduceOp::BOR:
        return TUTTI_BOR;
    case c10d::ReduceOp::BXOR:
        return TUTTI_BXOR;
    case c10d::ReduceOp::PREMUL_SUM:
        return TUTTI_PREMUL_SUM;
    default:
        C10_THROW_ERROR(ValueError, c10::str("tutti: ", static_cast<int>(op), " is no reduce op"));
    }
}

static double premul_factor(const c10d::ReduceOp &op)
{
    const auto *supplement = dynamic_cast<const c10d::PreMulSumSupplement *>(op.supplement_.get());
    TORCH_CHECK_VALUE(supplement,
                      "tutti: PREMUL_SUM without its factor; make it by dist._make_nccl_premul_sum(factor)");
    return supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>() : supplement->double_factor;
}

Reduction reduction(const c10d::ReduceOp &op, c10::ScalarType type)
{
    const tutti_reduce_op kind = reduce_op(op);
    const Element element = element_with_meaning(type);
    const bool linear = kind == TUTTI_SUM || kind == TUTTI_AVG || kind == TUTTI_PREMUL_SUM;
    if (!element.dtype || !tutti_reduce_op_valid(kind, element.dtype) || (element.units > 1 && !linear)) {
        C10_THROW_ERROR(TypeError, c10::str("tutti: the reduce op ", tutti_reduce_op_name(kind), " is not defined on ",
                                            type, "; convert the tensor to another dtype first"));
    }
    return {kind, element, kind == TUTTI_PREMUL_SUM ? premul_factor(op) : 1.0};
}

} // namespace tutti_torch

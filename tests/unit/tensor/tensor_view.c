/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/* Dtypes and reduce ops by name, their counterparts in DLPack, and the helpers that describe memory as a tensor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <tutti/collectives.h>

static void test_dtypes(void **unused)
{
    (void)unused;
    static const struct {
        tutti_dtype dtype;
        const char *name;
        size_t size;
        DLDataType type;
    } rows[] = {
        {TUTTI_F64, "f64", 8, {kDLFloat, 64, 1}},
        {TUTTI_F32, "f32", 4, {kDLFloat, 32, 1}},
        {TUTTI_F16, "f16", 2, {kDLFloat, 16, 1}},
        {TUTTI_BF16, "bf16", 2, {kDLBfloat, 16, 1}},
        {TUTTI_F8_E4M3, "f8_e4m3", 1, {kDLFloat8_e4m3fn, 8, 1}},
        {TUTTI_F8_E5M2, "f8_e5m2", 1, {kDLFloat8_e5m2, 8, 1}},
        {TUTTI_I8, "i8", 1, {kDLInt, 8, 1}},
        {TUTTI_I64, "i64", 8, {kDLInt, 64, 1}},
        {TUTTI_U16, "u16", 2, {kDLUInt, 16, 1}},
        {TUTTI_BOOL, "bool", 1, {kDLBool, 8, 1}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(tutti_dtype_size(rows[i].dtype), rows[i].size);
        assert_string_equal(tutti_dtype_name(rows[i].dtype), rows[i].name);
        const DLDataType type = tutti_dtype_to_dlpack(rows[i].dtype);
        assert_memory_equal(&type, &rows[i].type, sizeof(type));
        assert_int_equal(tutti_dtype_from_dlpack(type), rows[i].dtype);
    }
    static const tutti_dtype outside[] = {INT32_MIN, -1, 0, TUTTI_DTYPE_COUNT, INT32_MAX};
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        assert_int_equal(tutti_dtype_size(outside[i]), 0);
        assert_string_equal(tutti_dtype_name(outside[i]), "unknown");
        assert_int_equal(tutti_dtype_to_dlpack(outside[i]).bits, 0);
    }
    assert_int_equal(tutti_dtype_from_dlpack((DLDataType){kDLFloat, 32, 4}), 0);
    assert_int_equal(tutti_dtype_from_dlpack((DLDataType){kDLComplex, 64, 1}), 0);
    assert_int_equal(tutti_dtype_from_dlpack((DLDataType){kDLFloat8_e4m3, 8, 1}), 0);
    assert_int_equal(tutti_dtype_from_dlpack((DLDataType){0, 0, 0}), 0);
}

static void test_dtype_names(void **unused)
{
    (void)unused;
    tutti_dtype dtype;
    for (tutti_dtype d = 1; d < TUTTI_DTYPE_COUNT; d++) {
        assert_int_equal(tutti_dtype_parse(tutti_dtype_name(d), &dtype), TUTTI_OK);
        assert_int_equal(dtype, d);
    }
    assert_int_equal(tutti_dtype_parse("BFloat16", &dtype), TUTTI_OK);
    assert_int_equal(dtype, TUTTI_BF16);
    assert_int_equal(tutti_dtype_parse("UINT8", &dtype), TUTTI_OK);
    assert_int_equal(dtype, TUTTI_U8);
    assert_int_equal(tutti_dtype_parse("float8_e4m3fn", &dtype), TUTTI_OK);
    assert_int_equal(dtype, TUTTI_F8_E4M3);
    assert_int_equal(tutti_dtype_parse("half", &dtype), TUTTI_OK);
    assert_int_equal(dtype, TUTTI_F16);
    dtype = 99;
    static const char *const wrong[] = {"", "f", "f3", "f322", " f32", "complex64", "unknown"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(tutti_dtype_parse(wrong[i], &dtype), TUTTI_NOT_FOUND);
    }
    assert_int_equal(tutti_dtype_parse(NULL, &dtype), TUTTI_NOT_FOUND);
    assert_int_equal(dtype, 99);
    assert_int_equal(tutti_dtype_parse("f32", NULL), TUTTI_INVALID_ARGUMENT);
}

static void test_reduce_ops(void **unused)
{
    (void)unused;
    tutti_reduce_op op;
    for (tutti_reduce_op o = 1; o < TUTTI_REDUCE_OP_COUNT; o++) {
        assert_int_equal(tutti_reduce_op_parse(tutti_reduce_op_name(o), &op), TUTTI_OK);
        assert_int_equal(op, o);
        assert_int_equal(tutti_reduce_op_valid(o, TUTTI_I32), 1);
        assert_int_equal(tutti_reduce_op_valid(o, TUTTI_F32), o <= TUTTI_PREMUL_SUM);
        assert_int_equal(tutti_reduce_op_valid(o, TUTTI_F8_E5M2), o <= TUTTI_PREMUL_SUM);
        assert_int_equal(tutti_reduce_op_valid(o, TUTTI_BOOL), o != TUTTI_AVG && o != TUTTI_PREMUL_SUM);
        assert_int_equal(tutti_reduce_op_valid(o, 0), 0);
        assert_int_equal(tutti_reduce_op_valid(o, TUTTI_DTYPE_COUNT), 0);
    }
    assert_int_equal(tutti_reduce_op_parse("Prod", &op), TUTTI_OK);
    assert_int_equal(op, TUTTI_PRODUCT);
    op = 99;
    assert_int_equal(tutti_reduce_op_parse("mean", &op), TUTTI_NOT_FOUND);
    assert_int_equal(tutti_reduce_op_parse(NULL, &op), TUTTI_NOT_FOUND);
    assert_int_equal(op, 99);
    assert_int_equal(tutti_reduce_op_parse("sum", NULL), TUTTI_INVALID_ARGUMENT);
    assert_string_equal(tutti_reduce_op_name(0), "unknown");
    assert_string_equal(tutti_reduce_op_name(TUTTI_REDUCE_OP_COUNT), "unknown");
    assert_int_equal(tutti_reduce_op_valid(0, TUTTI_F32), 0);
    assert_int_equal(tutti_reduce_op_valid(TUTTI_REDUCE_OP_COUNT, TUTTI_F32), 0);
}

static void test_tensors(void **unused)
{
    (void)unused;
    float data[24];
    int64_t shape[3] = {2, 3, 4};
    DLTensor t = tutti_tensor_nd(data, 3, shape, TUTTI_F32);
    assert_ptr_equal(t.data, data);
    assert_int_equal(t.ndim, 3);
    assert_ptr_equal(t.shape, shape);
    assert_null(t.strides);
    assert_int_equal(t.byte_offset, 0);
    assert_int_equal(t.device.device_type, kDLCPU);
    assert_int_equal(tutti_dtype_from_dlpack(t.dtype), TUTTI_F32);
    assert_int_equal(tutti_tensor_count(&t), 24);
    assert_int_equal(tutti_tensor_is_compact(&t), 1);

    int64_t strides[3] = {12, 4, 1};
    t.strides = strides;
    assert_int_equal(tutti_tensor_is_compact(&t), 1);
    strides[0] = 24;
    assert_int_equal(tutti_tensor_is_compact(&t), 0);
    shape[0] = 1; /* its stride is never used */
    assert_int_equal(tutti_tensor_is_compact(&t), 1);
    shape[1] = 0;
    assert_int_equal(tutti_tensor_count(&t), 0);
    assert_int_equal(tutti_tensor_is_compact(&t), 1);

    const int64_t count = 24;
    t = tutti_tensor_1d(data, &count, TUTTI_F32);
    assert_int_equal(t.ndim, 1);
    assert_int_equal(tutti_tensor_count(&t), 24);
    t = tutti_tensor_nd(data, 0, NULL, TUTTI_F32);
    assert_int_equal(tutti_tensor_count(&t), 1);
}

static void test_bad_shapes(void **unused)
{
    (void)unused;
    int64_t shape[3] = {INT64_C(1) << 40, INT64_C(1) << 40, 2};
    DLTensor t = tutti_tensor_nd(NULL, 3, shape, TUTTI_U8);
    assert_int_equal(tutti_tensor_count(&t), -1);
    assert_int_equal(tutti_tensor_is_compact(&t), 0);
    shape[2] = 0;
    assert_int_equal(tutti_tensor_count(&t), 0);
    shape[0] = -1;
    assert_int_equal(tutti_tensor_count(&t), -1);
    t.shape = NULL;
    assert_int_equal(tutti_tensor_count(&t), -1);
    t.ndim = -1;
    assert_int_equal(tutti_tensor_count(&t), -1);
    assert_int_equal(tutti_tensor_count(NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes),  cmocka_unit_test(test_dtype_names), cmocka_unit_test(test_reduce_ops),
        cmocka_unit_test(test_tensors), cmocka_unit_test(test_bad_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

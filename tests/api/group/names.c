/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of statuses, operations, dtypes and reduce ops: all different, parsed back to the same value, with an answer
 * for unknown values.
 */
#include <ctype.h>
#include <stdbool.h>

#include "api/check.h"

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static void upper(char *to, size_t capacity, const char *from)
{
    size_t i = 0;
    for (; from[i] && i + 1 < capacity; i++) {
        to[i] = (char)toupper((unsigned char)from[i]);
    }
    to[i] = '\0';
}

static void statuses(void)
{
    EXPECT(same(tutti_status_name(TUTTI_OK), "OK"));
    EXPECT(same(tutti_status_name(TUTTI_INVALID_ARGUMENT), "INVALID_ARGUMENT"));
    EXPECT(same(tutti_status_name(TUTTI_REVOKED), "REVOKED"));
    EXPECT(same(tutti_status_name(-1), "UNKNOWN") && same(tutti_status_name(1000), "UNKNOWN"));
    EXPECT(same(tutti_status_string(TUTTI_OK), "success"));
    EXPECT(tutti_status_string(-1) && tutti_status_string(1000));
    for (tutti_status a = TUTTI_OK; a <= TUTTI_REVOKED; a++) {
        EXPECT(strlen(tutti_status_string(a)) > 3);
        for (tutti_status b = TUTTI_OK; b < a; b++) {
            EXPECT(!same(tutti_status_name(a), tutti_status_name(b)));
            EXPECT(!same(tutti_status_string(a), tutti_status_string(b)));
        }
    }
    EXPECT(TUTTI_MISMATCH < TUTTI_TIMEOUT); /* the border between a usable group and a failed one */
}

static void operations(void)
{
    EXPECT(same(tutti_operation_name(TUTTI_OP_ALL_REDUCE), "all_reduce"));
    EXPECT(same(tutti_operation_name(TUTTI_OP_DESTROY), "group_destroy"));
    EXPECT(same(tutti_operation_name(TUTTI_OP_UNREGISTER), "unregister"));
    EXPECT(same(tutti_operation_name(-3), "unknown") && same(tutti_operation_name(99), "unknown"));
    for (tutti_operation a = TUTTI_OP_NONE; a <= TUTTI_OP_TASK; a++) {
        for (tutti_operation b = TUTTI_OP_NONE; b < a; b++) {
            EXPECT(!same(tutti_operation_name(a), tutti_operation_name(b)));
        }
    }
}

static void dtypes(void)
{
    static const struct {
        tutti_dtype dtype;
        const char *name;
        size_t bytes;
    } table[] = {
        {TUTTI_F64, "f64", 8},         {TUTTI_F32, "f32", 4},         {TUTTI_F16, "f16", 2},   {TUTTI_BF16, "bf16", 2},
        {TUTTI_F8_E4M3, "f8_e4m3", 1}, {TUTTI_F8_E5M2, "f8_e5m2", 1}, {TUTTI_I8, "i8", 1},     {TUTTI_I16, "i16", 2},
        {TUTTI_I32, "i32", 4},         {TUTTI_I64, "i64", 8},         {TUTTI_U8, "u8", 1},     {TUTTI_U16, "u16", 2},
        {TUTTI_U32, "u32", 4},         {TUTTI_U64, "u64", 8},         {TUTTI_BOOL, "bool", 1},
    };
    EXPECT(sizeof(table) / sizeof(table[0]) == TUTTI_DTYPE_COUNT - 1);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        tutti_dtype parsed = 0;
        char shouted[16];
        upper(shouted, sizeof(shouted), table[i].name);
        EXPECT(same(tutti_dtype_name(table[i].dtype), table[i].name));
        EXPECT(tutti_dtype_size(table[i].dtype) == table[i].bytes);
        EXPECT(tutti_dtype_parse(table[i].name, &parsed) == TUTTI_OK && parsed == table[i].dtype);
        parsed = 0;
        EXPECT(tutti_dtype_parse(shouted, &parsed) == TUTTI_OK && parsed == table[i].dtype);
        DLDataType type = tutti_dtype_to_dlpack(table[i].dtype);
        EXPECT(type.lanes == 1 && type.bits == 8 * table[i].bytes);
        EXPECT(tutti_dtype_from_dlpack(type) == table[i].dtype);
        type.lanes = 4;
        EXPECT(tutti_dtype_from_dlpack(type) == 0);
    }
    static const struct {
        tutti_dtype dtype;
        const char *name;
    } other[] = {{TUTTI_F32, "float32"}, {TUTTI_F32, "float"},   {TUTTI_F64, "double"},
                 {TUTTI_F16, "half"},    {TUTTI_F16, "float16"}, {TUTTI_I8, "int8"},
                 {TUTTI_U64, "uint64"},  {TUTTI_I64, "int64"},   {TUTTI_BF16, "bfloat16"}};
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        tutti_dtype parsed = 0;
        EXPECT(tutti_dtype_parse(other[i].name, &parsed) == TUTTI_OK && parsed == other[i].dtype);
    }
    tutti_dtype untouched = 77;
    EXPECT(tutti_dtype_parse("complex64", &untouched) == TUTTI_NOT_FOUND && untouched == 77);
    EXPECT(tutti_dtype_parse("", &untouched) == TUTTI_NOT_FOUND && untouched == 77);
    EXPECT(same(tutti_dtype_name(0), "unknown") && same(tutti_dtype_name(TUTTI_DTYPE_COUNT), "unknown"));
    EXPECT(tutti_dtype_size(0) == 0 && tutti_dtype_size(-1) == 0 && tutti_dtype_size(TUTTI_DTYPE_COUNT) == 0);
    DLDataType none = tutti_dtype_to_dlpack(99);
    EXPECT(none.code == 0 && none.bits == 0 && none.lanes == 0);
}

static void reduce_ops(void)
{
    static const char *const names[TUTTI_REDUCE_OP_COUNT] = {"unknown",    "sum",  "product", "min",  "max",  "avg",
                                                             "premul_sum", "band", "bor",     "bxor", "land", "lor"};
    for (tutti_reduce_op op = 0; op < TUTTI_REDUCE_OP_COUNT; op++) {
        EXPECT(same(tutti_reduce_op_name(op), names[op]));
        if (op > 0) {
            char shouted[16];
            tutti_reduce_op parsed = 0;
            upper(shouted, sizeof(shouted), names[op]);
            EXPECT(tutti_reduce_op_parse(names[op], &parsed) == TUTTI_OK && parsed == op);
            parsed = 0;
            EXPECT(tutti_reduce_op_parse(shouted, &parsed) == TUTTI_OK && parsed == op);
        }
        for (tutti_dtype dtype = 0; dtype <= TUTTI_DTYPE_COUNT; dtype++) {
            bool is_dtype = dtype > 0 && dtype < TUTTI_DTYPE_COUNT;
            bool is_float = is_dtype && dtype <= TUTTI_F8_E5M2;
            bool expected = op > 0 && is_dtype;
            if (is_float) {
                expected = expected && op <= TUTTI_PREMUL_SUM;
            } else if (dtype == TUTTI_BOOL) {
                expected = expected && op != TUTTI_AVG && op != TUTTI_PREMUL_SUM;
            }
            EXPECT(tutti_reduce_op_valid(op, dtype) == expected);
        }
    }
    tutti_reduce_op op = 77;
    EXPECT(tutti_reduce_op_parse("prod", &op) == TUTTI_OK && op == TUTTI_PRODUCT);
    op = 77;
    EXPECT(tutti_reduce_op_parse("median", &op) == TUTTI_NOT_FOUND && op == 77);
    EXPECT(same(tutti_reduce_op_name(-1), "unknown") && same(tutti_reduce_op_name(1 << 30), "unknown"));
    EXPECT(!tutti_reduce_op_valid(-1, TUTTI_F32) && !tutti_reduce_op_valid(TUTTI_REDUCE_OP_COUNT, TUTTI_F32));
}

static void version(void)
{
    char text[32];
    snprintf(text, sizeof(text), "%d.%d.%d", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
    EXPECT(same(tutti_version_string(), text));
    EXPECT(tutti_version() == TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH);
}

int main(void)
{
    statuses();
    operations();
    dtypes();
    reduce_ops();
    version();
    return test_result();
}

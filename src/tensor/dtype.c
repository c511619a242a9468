/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of element types: sizes, names, and their counterparts in DLPack. */
#include "tensor/dtype.h"

#include "tensor/name.h"

struct dtype_row {
    const char *name;
    size_t size;
    uint8_t code;
};

static const struct dtype_row rows[TUTTI_DTYPE_COUNT] = {
#define ROW(name, value, text, bytes, code) [TUTTI_##name] = {text, bytes, code},
    TUTTI_DTYPE_LIST(ROW)
#undef ROW
};

const uint8_t tti_dtype_bytes[TUTTI_DTYPE_COUNT] = {
#define BYTES(name, value, text, bytes, code) [value] = (bytes),
    TUTTI_DTYPE_LIST(BYTES)
#undef BYTES
};

const uint8_t tti_dtype_by_code[TTI_DLPACK_CODES][9] = {
#define BY_CODE(name, value, text, bytes, code) [code][bytes] = (value),
    TUTTI_DTYPE_LIST(BY_CODE)
#undef BY_CODE
};

/* The names in torch, NumPy and C. */
static const struct {
    const char *name;
    tutti_dtype dtype;
} aliases[] = {
    {"float64", TUTTI_F64},
    {"double", TUTTI_F64},
    {"fp64", TUTTI_F64},
    {"float32", TUTTI_F32},
    {"float", TUTTI_F32},
    {"single", TUTTI_F32},
    {"fp32", TUTTI_F32},
    {"float16", TUTTI_F16},
    {"half", TUTTI_F16},
    {"fp16", TUTTI_F16},
    {"bfloat16", TUTTI_BF16},
    {"float8_e4m3fn", TUTTI_F8_E4M3},
    {"float8_e4m3", TUTTI_F8_E4M3},
    {"f8_e4m3fn", TUTTI_F8_E4M3},
    {"fp8_e4m3", TUTTI_F8_E4M3},
    {"float8_e5m2", TUTTI_F8_E5M2},
    {"fp8_e5m2", TUTTI_F8_E5M2},
    {"int8", TUTTI_I8},
    {"int16", TUTTI_I16},
    {"short", TUTTI_I16},
    {"int32", TUTTI_I32},
    {"int", TUTTI_I32},
    {"int64", TUTTI_I64},
    {"long", TUTTI_I64},
    {"uint8", TUTTI_U8},
    {"byte", TUTTI_U8},
    {"uint16", TUTTI_U16},
    {"ushort", TUTTI_U16},
    {"uint32", TUTTI_U32},
    {"uint", TUTTI_U32},
    {"uint64", TUTTI_U64},
    {"ulong", TUTTI_U64},
    {"boolean", TUTTI_BOOL},
    {"bool_", TUTTI_BOOL},
};

static const struct dtype_row *find_row(tutti_dtype dtype)
{
    return dtype > 0 && dtype < TUTTI_DTYPE_COUNT ? &rows[dtype] : NULL;
}

size_t tutti_dtype_size(tutti_dtype dtype)
{
    const struct dtype_row *row = find_row(dtype);
    return row ? row->size : 0;
}

const char *tutti_dtype_name(tutti_dtype dtype)
{
    const struct dtype_row *row = find_row(dtype);
    return row ? row->name : "unknown";
}

tutti_status tutti_dtype_parse(const char *name, tutti_dtype *dtype)
{
    if (!name || !dtype) {
        return dtype ? TUTTI_NOT_FOUND : TUTTI_INVALID_ARGUMENT;
    }
    for (tutti_dtype d = 1; d < TUTTI_DTYPE_COUNT; d++) {
        if (tti_same_name(name, rows[d].name)) {
            *dtype = d;
            return TUTTI_OK;
        }
    }
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
        if (tti_same_name(name, aliases[i].name)) {
            *dtype = aliases[i].dtype;
            return TUTTI_OK;
        }
    }
    return TUTTI_NOT_FOUND;
}

DLDataType tutti_dtype_to_dlpack(tutti_dtype dtype)
{
    const struct dtype_row *row = find_row(dtype);
    if (!row) {
        return (DLDataType){.code = 0, .bits = 0, .lanes = 0};
    }
    return (DLDataType){.code = row->code, .bits = (uint8_t)(8 * row->size), .lanes = 1};
}

tutti_dtype tutti_dtype_from_dlpack(DLDataType type)
{
    return tti_dtype_of(type);
}

/* SPDX-License-Identifier: Apache-2.0
 * The operators that random programs draw by row: which dtypes they take and what they give. An operator is
 * added here, or, when its shape follows a rule of its own, as an fz_op. clang-format off keeps the rows in
 * columns. */
#include "random_program.h"

/* clang-format off */
const fz_row fz_unary[] = {
    {"negative", FZ_NUM, FZ_SAME, false, false},       {"positive", FZ_NUM, FZ_SAME, false, false},
    {"abs", FZ_NUM, FZ_SAME, false, false},            {"square", FZ_NUM, FZ_SAME, false, false},
    {"sqrt", FZ_NUM, FZ_TO_FLOAT, false, false},       {"round", FZ_NUM, FZ_SAME, false, false},
    {"floor", FZ_NUM, FZ_SAME, false, false},          {"ceil", FZ_NUM, FZ_SAME, false, false},
    {"trunc", FZ_NUM, FZ_SAME, false, false},          {"sign", FZ_NUM, FZ_SAME, false, false},
    {"relu", FZ_NUM, FZ_SAME, false, false},           {"isnan", FZ_NUM, FZ_TO_BOOL, false, false},
    {"isinf", FZ_NUM, FZ_TO_BOOL, false, false},       {"isfinite", FZ_NUM, FZ_TO_BOOL, false, false},
    {"signbit", FZ_FLOAT, FZ_TO_BOOL, false, false},   {"logical_not", FZ_ANY, FZ_TO_BOOL, false, false},
    {"bitwise_invert", FZ_INT | FZ_BOOL, FZ_SAME, false, false},
    {"reciprocal", FZ_FLOAT, FZ_SAME, false, false},   {"exp", FZ_FLOAT, FZ_SAME, false, false},
    {"exp2", FZ_FLOAT, FZ_SAME, false, false},         {"expm1", FZ_FLOAT, FZ_SAME, false, false},
    {"log", FZ_FLOAT, FZ_SAME, false, false},          {"log2", FZ_FLOAT, FZ_SAME, false, false},
    {"log10", FZ_FLOAT, FZ_SAME, false, false},        {"log1p", FZ_FLOAT, FZ_SAME, false, false},
    {"sin", FZ_FLOAT, FZ_SAME, false, false},          {"cos", FZ_FLOAT, FZ_SAME, false, false},
    {"tan", FZ_FLOAT, FZ_SAME, false, false},          {"atan", FZ_FLOAT, FZ_SAME, false, false},
    {"asin", FZ_FLOAT, FZ_SAME, false, false},         {"sinh", FZ_FLOAT, FZ_SAME, false, false},
    {"cosh", FZ_FLOAT, FZ_SAME, false, false},         {"tanh", FZ_FLOAT, FZ_SAME, false, false},
    {"cbrt", FZ_FLOAT, FZ_SAME, false, false},         {"rsqrt", FZ_FLOAT, FZ_SAME, false, false},
    {"erf", FZ_FLOAT, FZ_SAME, false, false},          {"sigmoid", FZ_FLOAT, FZ_SAME, false, false},
    {"softplus", FZ_FLOAT, FZ_SAME, false, false},     {"gelu", FZ_FLOAT, FZ_SAME, false, false},
    {"nan_to_num", FZ_FLOAT, FZ_SAME, false, false},   {"softsign", FZ_FLOAT, FZ_SAME, false, false},
};
const int fz_unary_n = sizeof fz_unary / sizeof *fz_unary;

const fz_row fz_binary[] = {
    {"+", FZ_ANY, FZ_SAME, false, false},              {"-", FZ_ANY, FZ_SAME, false, false},
    {"*", FZ_ANY, FZ_SAME, true, false},               {"/", FZ_ANY, FZ_TO_FLOAT, true, false},
    {"//", FZ_ANY, FZ_SAME, false, false},             {"%", FZ_ANY, FZ_SAME, false, false},
    {"pow", FZ_NUM, FZ_SAME, false, false},            {"fmod", FZ_NUM, FZ_SAME, false, false},
    {"maximum", FZ_ANY, FZ_SAME, true, false},         {"minimum", FZ_ANY, FZ_SAME, true, false},
    {"fmax", FZ_NUM, FZ_SAME, false, false},           {"fmin", FZ_NUM, FZ_SAME, false, false},
    {"copysign", FZ_FLOAT, FZ_SAME, false, false},     {"nextafter", FZ_FLOAT, FZ_SAME, false, false},
    {"hypot", FZ_FLOAT, FZ_SAME, false, false},        {"atan2", FZ_FLOAT, FZ_SAME, false, false},
    {"logaddexp", FZ_FLOAT, FZ_SAME, false, false},    {"==", FZ_ANY, FZ_TO_BOOL, true, false},
    {"!=", FZ_ANY, FZ_TO_BOOL, true, false},           {"<", FZ_ANY, FZ_TO_BOOL, true, false},
    {"<=", FZ_ANY, FZ_TO_BOOL, true, false},           {">", FZ_ANY, FZ_TO_BOOL, true, false},
    {">=", FZ_ANY, FZ_TO_BOOL, true, false},           {"logical_and", FZ_ANY, FZ_TO_BOOL, true, false},
    {"logical_or", FZ_ANY, FZ_TO_BOOL, true, false},   {"logical_xor", FZ_ANY, FZ_TO_BOOL, true, false},
    {"&", FZ_INT | FZ_BOOL, FZ_SAME, true, false},     {"|", FZ_INT | FZ_BOOL, FZ_SAME, true, false},
    {"^", FZ_INT | FZ_BOOL, FZ_SAME, true, false},     {"<<", FZ_INT, FZ_SAME, false, false},
    {">>", FZ_INT, FZ_SAME, false, false},
};
const int fz_binary_n = sizeof fz_binary / sizeof *fz_binary;

const fz_row fz_reduction[] = {
    {"sum", FZ_ANY, FZ_WIDE, false, false},            {"prod", FZ_ANY, FZ_WIDE, false, false},
    {"max", FZ_ANY, FZ_SAME, false, true},             {"min", FZ_ANY, FZ_SAME, false, true},
    {"mean", FZ_ANY, FZ_MEAN, false, true},            {"var", FZ_FLOAT, FZ_SAME, false, true},
    {"std", FZ_FLOAT, FZ_SAME, false, true},           {"argmax", FZ_NUM, FZ_TO_I64, false, true},
    {"argmin", FZ_NUM, FZ_TO_I64, false, true},        {"any", FZ_ANY, FZ_TO_BOOL, false, false},
    {"all", FZ_ANY, FZ_TO_BOOL, false, false},         {"count_nonzero", FZ_ANY, FZ_TO_I64, false, false},
    {"logsumexp", FZ_FLOAT, FZ_SAME, false, true},     {"ptp", FZ_NUM, FZ_SAME, false, true},
    {"nansum", FZ_FLOAT, FZ_SAME, false, false},       {"norm", FZ_FLOAT, FZ_SAME, false, false},
};
const int fz_reduction_n = sizeof fz_reduction / sizeof *fz_reduction;

const fz_row fz_norms[] = {
    {"softmax", FZ_FLOAT, FZ_SAME, false, true},       {"log_softmax", FZ_FLOAT, FZ_SAME, false, true},
    {"normalize", FZ_FLOAT, FZ_SAME, false, true},     {"l2_norm", FZ_FLOAT, FZ_SAME, false, true},
};
const int fz_norms_n = sizeof fz_norms / sizeof *fz_norms;
/* clang-format on */

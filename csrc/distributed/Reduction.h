// Elements of several ranks become one. Free of torch.
#pragma once

#include "distributed/Collective.h"

#include <span>

namespace c10::openreg::occl {

/// The elements of one rank.
struct Operand {
  const void* data;
  double factor; ///< for PremulSum
};

// docs:begin reduce
/// Reduces `count` elements of all operands, in their order, and writes the result to
/// all of `results`, which may be operands. The order makes the bits of a sum the same
/// for everybody who computes it. Floating-point numbers of two bytes are summed as
/// `float` and rounded once; the average of integers is rounded towards zero; a bool is
/// true or false, so that its sum is an "or".
///
/// Throws std::invalid_argument if the call cannot be reduced; see checkReducible().
void reduce(
    DataType type,
    Operation operation,
    std::span<const Operand> operands,
    std::span<void* const> results,
    size_t count);
// docs:end reduce

/// Throws std::invalid_argument if elements of that type cannot be reduced so.
void checkReducible(DataType type, Operation operation);

} // namespace c10::openreg::occl

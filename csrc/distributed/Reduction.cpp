#include "distributed/Reduction.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace c10::openreg::occl {
namespace {

// --- numbers of two bytes -------------------------------------------------------

struct BFloat16 {
  uint16_t bits;

  operator float() const {
    return std::bit_cast<float>(uint32_t{bits} << 16);
  }
  static BFloat16 from(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if (value != value) {
      return {0x7fc0};
    }
    return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
  }
};

struct Half {
  uint16_t bits;

  operator float() const {
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
    const uint32_t rest = uint32_t{bits & 0x7fffu} << 13;
    constexpr uint32_t kExponent = 0x0f800000; // all ones in a half
    if ((rest & kExponent) == kExponent) {
      return std::bit_cast<float>(sign | (rest + (uint32_t{255 - 31} << 23)));
    }
    // 2^112 moves the exponent from a half's place to a float's, subnormal or not.
    const float value = std::bit_cast<float>(rest) * 0x1p112f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  static Half from(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 16) & 0x8000;
    const uint32_t rest = bits & 0x7fffffff;
    uint32_t half = 0;
    if (rest > 0x7f800000) {
      half = 0x7e00; // not a number
    } else if (rest >= 0x477ff000) {
      half = 0x7c00; // too large
    } else if (rest < 0x38800000) {
      // Subnormal: the addition rounds to multiples of 2^-24.
      half = std::bit_cast<uint32_t>(std::bit_cast<float>(rest) + 0.5f) -
          0x3f000000;
    } else {
      half = (rest - 0x38000000 + 0xfff + ((rest >> 13) & 1)) >> 13;
    }
    return {static_cast<uint16_t>(sign | half)};
  }
};

template <class T>
inline constexpr bool kIsShort =
    std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>;
template <class T>
inline constexpr bool kIsFloating = kIsShort<T> || std::is_floating_point_v<T>;

// What elements of a type are added up in.
template <class T, Operation kOperation>
struct SumOf {
  using Type = T;
};
template <Operation kOperation>
struct SumOf<Half, kOperation> {
  using Type = float;
};
template <Operation kOperation>
struct SumOf<BFloat16, kOperation> {
  using Type = float;
};
template <class T>
  requires std::is_integral_v<T>
struct SumOf<T, Operation::Average> {
  using Type = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
};

// Signed sums wrap around, as those of tensors do.
template <class T>
T wrap(auto operation, T a, T b) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    // Not a smaller type: that would become an int, which must not overflow either.
    const auto u = static_cast<uint64_t>(static_cast<int64_t>(a));
    const auto v = static_cast<uint64_t>(static_cast<int64_t>(b));
    return static_cast<T>(operation(u, v));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(
        operation(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  } else {
    return operation(a, b);
  }
}

template <Operation kOperation, class T>
T combine(T a, T b) {
  if constexpr (kOperation == Operation::Product) {
    return wrap<T>([](auto x, auto y) { return x * y; }, a, b);
  } else if constexpr (kOperation == Operation::Min) {
    // Not a number wins, as in torch.
    return a != a || a < b ? a : b;
  } else if constexpr (kOperation == Operation::Max) {
    return a != a || a > b ? a : b;
  } else if constexpr (kOperation == Operation::And) {
    return static_cast<T>(a & b);
  } else if constexpr (kOperation == Operation::Or) {
    return static_cast<T>(a | b);
  } else if constexpr (kOperation == Operation::Xor) {
    return static_cast<T>(a ^ b);
  } else {
    return wrap<T>([](auto x, auto y) { return x + y; }, a, b);
  }
}

// --- a few elements at a time ------------------------------------------------------

constexpr size_t kBlock = 2048; // elements, which stay in the cache

template <class T, Operation kOperation>
struct Block {
  using Sum = typename SumOf<T, kOperation>::Type;
  static constexpr size_t kPage = 4096;
  alignas(kPage) std::byte room[kBlock * sizeof(Sum) + kPage];
  Sum* sums;
  T rounded[kBlock];

  // Copies between addresses that are nearly the same within their pages take twice as
  // long: the processor takes a read for one of what was just written.
  explicit Block(const void* operand) {
    constexpr size_t kLine = 64, kApart = 512;
    const auto place =
        (reinterpret_cast<uintptr_t>(operand) + kApart) % kPage / kLine * kLine;
    sums = reinterpret_cast<Sum*>(room + place);
  }

  static Sum load(T element, [[maybe_unused]] double factor) {
    if constexpr (kOperation == Operation::PremulSum) {
      if constexpr (kIsShort<T>) {
        return T::from(
            static_cast<float>(element) * static_cast<float>(factor));
      } else {
        return static_cast<T>(element * static_cast<T>(factor));
      }
    } else {
      return static_cast<Sum>(element);
    }
  }

  void add(const Operand& operand, size_t from, size_t count, bool first) {
    const T* elements = static_cast<const T*>(operand.data) + from;
    if (first) {
      for (size_t i = 0; i < count; ++i) {
        sums[i] = load(elements[i], operand.factor);
      }
    } else {
      for (size_t i = 0; i < count; ++i) {
        sums[i] =
            combine<kOperation>(sums[i], load(elements[i], operand.factor));
      }
    }
  }

  void store(
      std::span<void* const> results,
      size_t from,
      size_t count,
      [[maybe_unused]] size_t ranks) {
    const void* source = sums;
    if constexpr (kOperation == Operation::Average) {
      for (size_t i = 0; i < count; ++i) {
        sums[i] = static_cast<Sum>(sums[i] / static_cast<Sum>(ranks));
      }
    }
    if constexpr (!std::is_same_v<T, Sum>) {
      for (size_t i = 0; i < count; ++i) {
        if constexpr (kIsShort<T>) {
          rounded[i] = T::from(sums[i]);
        } else {
          rounded[i] = static_cast<T>(sums[i]);
        }
      }
      source = rounded;
    }
    for (void* result : results) {
      std::memcpy(static_cast<T*>(result) + from, source, count * sizeof(T));
    }
  }
};

template <class T, Operation kOperation>
void reduceAll(
    std::span<const Operand> operands,
    std::span<void* const> results,
    size_t count) {
  Block<T, kOperation> block(operands[0].data);
  for (size_t from = 0; from < count; from += kBlock) {
    const size_t part = std::min(kBlock, count - from);
    for (size_t i = 0; i < operands.size(); ++i) {
      block.add(operands[i], from, part, i == 0);
    }
    block.store(results, from, part, operands.size());
  }
}

template <Operation kOperation>
void reduceBools(
    std::span<const Operand> operands,
    std::span<void* const> results,
    size_t count) {
  uint8_t values[kBlock];
  for (size_t from = 0; from < count; from += kBlock) {
    const size_t part = std::min(kBlock, count - from);
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto* bytes = static_cast<const uint8_t*>(operands[i].data) + from;
      for (size_t k = 0; k < part; ++k) {
        const uint8_t value = bytes[k] != 0;
        values[k] = i == 0 ? value : combine<kOperation>(values[k], value);
      }
    }
    for (void* result : results) {
      std::memcpy(static_cast<uint8_t*>(result) + from, values, part);
    }
  }
}

using Reducer =
    void (*)(std::span<const Operand>, std::span<void* const>, size_t);

template <class T>
Reducer reducerOf(Operation operation) {
  switch (operation) {
    case Operation::Sum:
      return reduceAll<T, Operation::Sum>;
    case Operation::Average:
      return reduceAll<T, Operation::Average>;
    case Operation::Product:
      return reduceAll<T, Operation::Product>;
    case Operation::Min:
      return reduceAll<T, Operation::Min>;
    case Operation::Max:
      return reduceAll<T, Operation::Max>;
    case Operation::PremulSum:
      return reduceAll<T, Operation::PremulSum>;
    case Operation::And:
    case Operation::Or:
    case Operation::Xor:
      if constexpr (!kIsFloating<T>) {
        return operation == Operation::And ? reduceAll<T, Operation::And>
            : operation == Operation::Or   ? reduceAll<T, Operation::Or>
                                           : reduceAll<T, Operation::Xor>;
      }
      return nullptr;
    case Operation::None:
      break;
  }
  return nullptr;
}

Reducer boolReducerOf(Operation operation) {
  switch (operation) {
    case Operation::Sum:
    case Operation::Max:
    case Operation::Or:
      return reduceBools<Operation::Or>;
    case Operation::Product:
    case Operation::Min:
    case Operation::And:
      return reduceBools<Operation::And>;
    case Operation::Xor:
      return reduceBools<Operation::Xor>;
    default:
      return nullptr;
  }
}

Reducer find(DataType type, Operation operation) {
  switch (type) {
    case DataType::Bytes:
      return nullptr;
    case DataType::Bool:
      return boolReducerOf(operation);
    case DataType::UInt8:
      return reducerOf<uint8_t>(operation);
    case DataType::Int8:
      return reducerOf<int8_t>(operation);
    case DataType::UInt16:
      return reducerOf<uint16_t>(operation);
    case DataType::Int16:
      return reducerOf<int16_t>(operation);
    case DataType::UInt32:
      return reducerOf<uint32_t>(operation);
    case DataType::Int32:
      return reducerOf<int32_t>(operation);
    case DataType::UInt64:
      return reducerOf<uint64_t>(operation);
    case DataType::Int64:
      return reducerOf<int64_t>(operation);
    case DataType::Half:
      return reducerOf<Half>(operation);
    case DataType::BFloat16:
      return reducerOf<BFloat16>(operation);
    case DataType::Float:
      return reducerOf<float>(operation);
    case DataType::Double:
      return reducerOf<double>(operation);
  }
  return nullptr;
}

} // namespace

void checkReducible(DataType type, Operation operation) {
  if (!find(type, operation)) {
    throw std::invalid_argument(
        std::string("occl cannot reduce elements of type ") + nameOf(type) +
        " with " + nameOf(operation));
  }
}

void reduce(
    DataType type,
    Operation operation,
    std::span<const Operand> operands,
    std::span<void* const> results,
    size_t count) {
  checkReducible(type, operation);
  find(type, operation)(operands, results, count);
}

} // namespace c10::openreg::occl

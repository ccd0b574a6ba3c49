// A GPU's random numbers: Philox4x32-10, and where in its sequence a draw begins.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace c10::openreg {

/// Whether devices draw a GPU's numbers (OPENREG_RNG=philox) and not the CPU's. Decided
/// once.
bool drawsPhilox();

/// Throws if OPENREG_RNG is neither unset nor a generator.
void checkRngSetting();

/// A place in a sequence: what a generator's state holds. Thread `t` of a GPU has
/// numbers of its own from there on, four at each multiple of four of the offset.
struct PhiloxPoint {
  uint64_t seed = 0;
  uint64_t offset = 0;
};

/// Four numbers.
struct PhiloxBlock {
  uint32_t words[4];
};

// docs:begin philox
inline constexpr uint32_t kPhiloxMultipliers[] = {0xD2511F53, 0xCD9E8D57};
inline constexpr uint32_t kPhiloxSteps[] = {0x9E3779B9, 0xBB67AE85};
inline constexpr int kPhiloxRounds = 10;

/// The numbers of thread `thread` at a multiple of four of the offset.
inline PhiloxBlock philox(
    uint64_t seed,
    uint64_t offset,
    uint64_t thread) noexcept {
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  const auto high = [](uint64_t word) {
    return static_cast<uint32_t>(word >> 32);
  };
  uint32_t a = low(offset / 4), b = high(offset / 4);
  uint32_t c = low(thread), d = high(thread);
  uint32_t first = low(seed), second = high(seed);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t one = static_cast<uint64_t>(kPhiloxMultipliers[0]) * a;
    const uint64_t two = static_cast<uint64_t>(kPhiloxMultipliers[1]) * c;
    a = high(two) ^ b ^ first;
    b = low(two);
    c = high(one) ^ d ^ second;
    d = low(one);
    first += kPhiloxSteps[0];
    second += kPhiloxSteps[1];
  }
  return {{a, b, c, d}};
}
// docs:end philox

/// Where a queued draw begins. In a graph this is known only at the replay: it is a
/// distance from the point at which the replay begins.
class PhiloxDraw {
 public:
  explicit PhiloxDraw(
      PhiloxPoint point,
      std::shared_ptr<const PhiloxPoint> replay = nullptr)
      : point_(point), replay_(std::move(replay)) {}

  /// To be called by the queued work.
  PhiloxPoint point() const {
    return replay_ ? PhiloxPoint{replay_->seed, replay_->offset + point_.offset}
                   : point_;
  }

 private:
  PhiloxPoint point_;
  std::shared_ptr<const PhiloxPoint> replay_;
};

} // namespace c10::openreg

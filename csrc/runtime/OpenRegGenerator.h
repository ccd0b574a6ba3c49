// Random numbers: the CPU's generator under an openreg device.
#pragma once

#include "runtime/OpenRegStream.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <mutex>
#include <optional>

namespace c10::openreg {

/// A generator of an openreg device. It draws as the CPU's does, so the same seed
/// gives the same numbers on both, and results can be compared exactly.
///
/// Numbers are drawn in the order of the program, whatever streams the draws are
/// queued in; reading or setting the state waits for them.
class OpenRegGeneratorImpl final : public at::CPUGeneratorImpl {
 public:
  explicit OpenRegGeneratorImpl(
      DeviceIndex device,
      uint64_t seed = c10::default_rng_seed_val);

  static DeviceType device_type() {
    return DeviceType::PrivateUse1;
  }

  /// To be called before work that draws is queued in `stream`: makes it wait for
  /// earlier draws in other streams.
  void useIn(const OpenRegStream& stream);

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const TensorImpl& state) override;
  intrusive_ptr<TensorImpl> get_state() const override;

  /// The CPU's algorithm has no offset into its numbers: it is 0, and cannot be
  /// set to anything else.
  uint64_t get_offset() const override {
    return 0;
  }
  void set_offset(uint64_t offset) override;

 private:
  friend class CpuDraw;

  OpenRegGeneratorImpl* clone_impl() const override;
  void settle() const;

  // The generator's own mutex_ is held by callers of the methods above, so a draw
  // in a stream must not need it.
  mutable std::mutex drawing_;
  mutable std::mutex using_;
  std::optional<OpenRegStream> lastStream_;
};

// docs:begin cpu-draw
/// Lends a generator's state to CPU kernels, which insist on a generator of the
/// CPU, for the lifetime of the scope. Other draws wait.
class [[nodiscard]] CpuDraw {
 public:
  /// Throws unless `generator` is one of an openreg device.
  explicit CpuDraw(const at::Generator& generator);
  ~CpuDraw();
  CpuDraw(const CpuDraw&) = delete;
  CpuDraw& operator=(const CpuDraw&) = delete;

  const at::Generator& generator() const {
    return cpu_;
  }

 private:
  OpenRegGeneratorImpl* const owner_;
  const std::lock_guard<std::mutex> lock_;
  const at::Generator cpu_;
};
// docs:end cpu-draw

/// The generator for work in `stream` that is about to be queued: `given`, or the
/// device's own. Throws if `given` is of another device type.
at::Generator generatorFor(
    const std::optional<at::Generator>& given,
    const OpenRegStream& stream);

/// The generator a device uses when none is given; made on first use with a seed
/// that nobody can foresee. -1: the current device.
const at::Generator& getDefaultOpenRegGenerator(DeviceIndex device = -1);

/// A new generator with PyTorch's default seed. -1: the current device.
at::Generator createOpenRegGenerator(DeviceIndex device = -1);

} // namespace c10::openreg

// Random numbers: the CPU's generator under an openreg device.
#pragma once

#include "runtime/OpenRegStream.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <array>
#include <mutex>
#include <optional>

namespace c10::openreg {

/// What an openreg device draws from. It is a generator of the CPU, so that CPU
/// kernels accept it and a seed gives the same numbers on both.
///
/// Numbers are drawn in the order of the program, whatever streams the draws are
/// queued in. Inside of a capture nothing is drawn: each replay draws, and so goes on
/// where the last one ended.
///
/// Threads: any may call anything of its own; of CPUGeneratorImpl under lock().
class GeneratorState final : public at::CPUGeneratorImpl {
 public:
  using CPUGeneratorImpl::CPUGeneratorImpl;

  /// To be called before work that draws is queued in `stream`: makes it wait for
  /// earlier draws in other streams. Throws if the stream is capturing and the state is
  /// not, or the other way round.
  void useIn(const OpenRegStream& stream);

  // --- for graphs ---
  /// A graph may draw from it. As on a GPU the first one costs two small blocks of
  /// memory of the current stream, which go with the last.
  void addGraph();
  void removeGraph() noexcept;
  /// From now on streams that capture draw from it, and no others. Waits for earlier
  /// draws.
  void beginCapture();
  /// Ends that. Returns whether captured work draws.
  bool endCapture() noexcept;

  /// Waits for the draws that are queued, and keeps others out while the lock is
  /// held.
  std::unique_lock<std::mutex> settle();

  /// Keeps draws out while the lock is held.
  std::unique_lock<std::mutex> lock() {
    return std::unique_lock(drawing_);
  }

 private:
  void orderAfter(
      std::optional<OpenRegStream>& last,
      const OpenRegStream& stream);

  std::mutex drawing_;
  std::mutex using_; // guards what follows
  std::optional<OpenRegStream> lastStream_;
  int captures_ = 0; // underway
  std::optional<OpenRegStream> lastCapturing_; // that draws
  int graphs_ = 0;
  std::array<DataPtr, 2> graphMemory_;
};

/// A generator of an openreg device: the device, and a state that generators can
/// share. Work that is queued holds the state it was queued with, so a generator
/// may be given another one at any time.
///
/// Threads: any may call anything.
class OpenRegGeneratorImpl final : public GeneratorImpl {
 public:
  explicit OpenRegGeneratorImpl(
      DeviceIndex device,
      intrusive_ptr<GeneratorState> state);

  static DeviceType device_type() {
    return kDeviceType;
  }

  intrusive_ptr<GeneratorState> state() const;

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;

  /// Bytes, as the CPU's generator has them. Waits for the draws that are queued.
  void set_state(const TensorImpl& bytes) override;
  intrusive_ptr<TensorImpl> get_state() const override;

  /// A generator with the same state: what one draws, the other does not. Neither
  /// call waits.
  intrusive_ptr<GeneratorImpl> graphsafe_get_state() const override;
  void graphsafe_set_state(const intrusive_ptr<GeneratorImpl>& other) override;

  /// The CPU's algorithm has no offset into its numbers: it is 0, and cannot be
  /// set to anything else.
  uint64_t get_offset() const override {
    return 0;
  }
  void set_offset(uint64_t offset) override;

 private:
  OpenRegGeneratorImpl* clone_impl() const override;
  void checkNotCapturing(const char* method) const;

  mutable std::mutex sharing_;
  intrusive_ptr<GeneratorState> state_;
};

// docs:begin cpu-draw
/// Lends a state to a CPU kernel for the lifetime of the scope. Other draws wait.
class [[nodiscard]] CpuDraw {
 public:
  /// `generator` is what generatorFor() returned.
  explicit CpuDraw(const at::Generator& generator);

  const at::Generator& generator() const {
    return generator_;
  }

 private:
  const at::Generator generator_;
  const std::unique_lock<std::mutex> lock_;
};
// docs:end cpu-draw

/// What work in `stream` that is about to be queued draws from: the state of
/// `given`, or of the device's own generator. Throws if `given` is of another
/// device type.
at::Generator generatorFor(
    const std::optional<at::Generator>& given,
    const OpenRegStream& stream);

/// The state of a generator of an openreg device. Throws for any other generator.
intrusive_ptr<GeneratorState> stateOf(const at::Generator& generator);

/// The generator a device uses when none is given; made on first use with a seed
/// that nobody can foresee. -1: the current device.
const at::Generator& getDefaultOpenRegGenerator(DeviceIndex device = -1);

/// A new generator with PyTorch's default seed. -1: the current device.
at::Generator createOpenRegGenerator(DeviceIndex device = -1);

} // namespace c10::openreg

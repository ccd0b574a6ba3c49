// Random numbers: the generator of an openreg device, which is the CPU's or a GPU's.
#pragma once

#include "runtime/OpenRegPhilox.h"
#include "runtime/OpenRegStream.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <array>
#include <mutex>
#include <optional>

namespace c10::openreg {

/// What captured work draws; for a GPU's numbers also how many, and where a replay keeps
/// the point at which it begins.
struct CapturedDraws {
  uint64_t increment = 0;
  std::shared_ptr<PhiloxPoint> start;
};

/// What an openreg device draws from. It is a generator of the CPU, so that CPU
/// kernels accept it and a seed gives the same numbers on both. With OPENREG_RNG=philox
/// it is a place in a Philox sequence: kernels of our own draw from there, and CPU
/// kernels from a generator that is seeded with the number at that place.
///
/// The CPU's numbers are drawn in the order of the program, whatever streams the draws are
/// queued in. Inside of a capture nothing is drawn: each replay draws, and so goes on
/// where the last one ended.
///
/// Threads: any may call its own methods, and those of CPUGeneratorImpl under lock().
class GeneratorState final : public at::CPUGeneratorImpl {
 public:
  using CPUGeneratorImpl::CPUGeneratorImpl;
  /// What a CPU kernel draws from if its numbers come from a Philox sequence.
  explicit GeneratorState(PhiloxDraw seed) : seedOfDraw_(std::move(seed)) {}

  /// To be called before work that draws is queued in `stream`: makes it wait for
  /// earlier draws in other streams. Throws if the stream is capturing and the state is
  /// not, or the other way round.
  void useIn(const OpenRegStream& stream);

  /// The same for a draw from the Philox sequence, which advances by that many numbers
  /// of each GPU thread, rounded up to a multiple of four. Nothing waits.
  PhiloxDraw drawIn(const OpenRegStream& stream, uint64_t increment);

  /// To be called by a CPU kernel that is about to draw, under lock().
  void seedDraw();

  // --- the state: with OPENREG_RNG=philox a seed and an offset of 8 bytes each ---
  void set_current_seed(uint64_t seed) override;
  void set_state(const TensorImpl& bytes) override;
  intrusive_ptr<TensorImpl> get_state() const override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;

  // --- for graphs ---
  /// Lets a graph draw from it. As on a GPU, the first graph costs two small blocks of
  /// memory of the current stream, which are freed with the last graph.
  void addGraph();
  void removeGraph() noexcept;
  /// From now on only capturing streams draw from it. Waits for earlier draws.
  void beginCapture();
  /// Ends that. Returns what captured work draws, if it does.
  std::optional<CapturedDraws> endCapture() noexcept;
  /// useIn() for a graph that is about to be launched.
  void replayIn(const OpenRegStream& stream, const CapturedDraws& draws);

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
  /// Whether the stream is capturing. Throws if the state is not, or the other way
  /// round.
  bool checkCapture(const OpenRegStream& stream);

  const std::optional<PhiloxDraw> seedOfDraw_;
  std::mutex drawing_;
  mutable std::mutex using_; // guards what follows
  PhiloxPoint philox_{c10::default_rng_seed_val, 0};
  CapturedDraws captured_; // so far
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

  /// Bytes, as the CPU's generator has them, or CUDA's. Waits for the draws of the CPU's
  /// numbers that are queued.
  void set_state(const TensorImpl& bytes) override;
  intrusive_ptr<TensorImpl> get_state() const override;

  /// A generator with the same state: what one draws, the other does not. Neither
  /// call waits.
  intrusive_ptr<GeneratorImpl> graphsafe_get_state() const override;
  void graphsafe_set_state(const intrusive_ptr<GeneratorImpl>& other) override;

  /// The CPU's algorithm has no offset into its numbers: it is 0, and cannot be
  /// set to anything else. That of Philox is a multiple of four.
  uint64_t get_offset() const override;
  void set_offset(uint64_t offset) override;

 private:
  OpenRegGeneratorImpl* clone_impl() const override;
  /// Whether the current stream is capturing. Throws if the device is broken, as CUDA.
  bool isCapturing() const;
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

/// The same for `increment` numbers of a Philox sequence.
PhiloxDraw drawFrom(
    const std::optional<at::Generator>& given,
    const OpenRegStream& stream,
    uint64_t increment);

/// The state of a generator of an openreg device. Throws for any other generator.
intrusive_ptr<GeneratorState> stateOf(const at::Generator& generator);

/// The generator a device uses when none is given; made on first use with a random
/// seed. -1: the current device.
const at::Generator& getDefaultOpenRegGenerator(DeviceIndex device = -1);

/// A new generator with PyTorch's default seed. -1: for any device, as on CUDA.
at::Generator createOpenRegGenerator(DeviceIndex device = -1);

} // namespace c10::openreg

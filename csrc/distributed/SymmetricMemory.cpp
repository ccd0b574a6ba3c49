// torch.distributed._symmetric_memory: memory of all ranks of a host that each of them
// can reach, and signals in it.
#include "distributed/SymmetricMemory.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceScope.h"
#include "runtime/OpenRegSubmit.h"
#include "runtime/ipc/ReceivedRanges.h"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include <unistd.h>

namespace c10::openreg::occl {
namespace {

namespace symmetric = c10d::symmetric_memory;
using Signal = std::atomic<uint32_t>;
using Call = std::function<void()>;

std::function<void(const Call&)>& unlockedCall() {
  // Never destroyed: Python may end before.
  static auto* call =
      new std::function<void(const Call&)>([](const Call& f) { f(); });
  return *call;
}

/// An allocation: the buffer, then the signals of all channels.
struct Allocation {
  char* base;
  size_t bytes; ///< of the buffer
  size_t padBytes;
  DeviceIndex device;
};

/// What a rank tells of its block.
struct Invitation {
  orIpcMemHandle_t handle;
  uint64_t bytes;
  uint64_t padBytes;
  int64_t process;
  char* base; ///< in its process
};

/// Swaps a signal as soon as it is what is expected. Returns false if it takes too long.
bool swapWhen(
    Signal& signal,
    uint32_t expected,
    uint32_t desired,
    std::chrono::milliseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  for (uint32_t seen = expected; !signal.compare_exchange_weak(seen, desired);
       seen = expected) {
    if (timeout.count() > 0 &&
        std::chrono::steady_clock::now() - begin > timeout) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

/// The blocks of all ranks, as one of them sees them.
class PeerMemory final : public symmetric::SymmetricMemory {
 public:
  PeerMemory(
      const Allocation& own,
      const symmetric::GroupInfo& group,
      uint64_t round)
      : own_(own), rank_(group.rank), size_(group.world_size) {
    const auto key = [&](const char* what, int rank) {
      return c10::str(what, "/", round, "/", rank);
    };
    Invitation offer{{}, own.bytes, own.padBytes, getpid(), own.base};
    OPENREG_CHECK(orIpcGetMemHandle(&offer.handle, own.base));
    const auto* bytes = reinterpret_cast<const uint8_t*>(&offer);
    group.store->set(
        key("block", rank_),
        std::vector<uint8_t>(bytes, bytes + sizeof(offer)));
    for (int peer = 0; peer < size_; ++peer) {
      bases_.push_back(open(group.store->get(key("block", peer)), peer));
    }
    // Nobody's block goes before all have opened it.
    group.store->set(key("opened", rank_), std::vector<uint8_t>{1});
    for (int peer = 0; peer < size_; ++peer) {
      group.store->wait({key("opened", peer)});
    }
  }

  ~PeerMemory() override {
    for (void* base : opened_) {
      ipc::receivedRanges().remove(base);
      OPENREG_CHECK_WARN(orIpcCloseMemHandle(base));
    }
  }

  std::vector<void*> get_buffer_ptrs() override {
    return {bases_.begin(), bases_.end()};
  }
  std::vector<void*> get_signal_pad_ptrs() override {
    std::vector<void*> pads;
    for (char* base : bases_) {
      pads.push_back(base + own_.bytes);
    }
    return pads;
  }
  void** get_buffer_ptrs_dev() override {
    throwNoKernels();
  }
  void** get_signal_pad_ptrs_dev() override {
    throwNoKernels();
  }
  size_t get_buffer_size() override {
    return own_.bytes;
  }
  size_t get_offset() override {
    return 0;
  }
  bool has_multicast_support() override {
    return false;
  }
  void* get_multicast_ptr() override {
    return nullptr;
  }
  int get_rank() override {
    return rank_;
  }
  int get_world_size() override {
    return size_;
  }
  c10::Device get_device() override {
    return {c10::openreg::kDeviceType, own_.device};
  }
  bool world_within_direct_access() override {
    return true;
  }

  void barrier(int channel, size_t timeout) override {
    std::vector<Step> steps;
    for (int peer = 0; peer < size_; ++peer) {
      steps.push_back({sent(peer, channel), 0, 1});
    }
    for (int peer = 0; peer < size_; ++peer) {
      steps.push_back({received(peer, channel), 1, 0});
    }
    launch("symmetric_memory:barrier", std::move(steps), channel, timeout);
  }
  void put_signal(int to, int channel, size_t timeout) override {
    launch(
        "symmetric_memory:put_signal",
        {{sent(to, channel), 0, 1}},
        channel,
        timeout);
  }
  void wait_signal(int from, int channel, size_t timeout) override {
    launch(
        "symmetric_memory:wait_signal",
        {{received(from, channel), 1, 0}},
        channel,
        timeout);
  }

 private:
  struct Step {
    Signal* signal;
    uint32_t expected;
    uint32_t desired;
  };

  [[noreturn]] static void throwNoKernels() {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false,
        "openreg has no tables of pointers in device memory, which kernels of "
        "GPUs use; call get_buffer() instead");
  }

  char* open(const std::vector<uint8_t>& bytes, int peer) {
    Invitation offer;
    TORCH_CHECK(
        bytes.size() == sizeof(offer),
        "a rank runs another version of torch_openreg; install one for all");
    std::memcpy(&offer, bytes.data(), sizeof(offer));
    TORCH_CHECK_VALUE(
        offer.bytes == own_.bytes && offer.padBytes == own_.padBytes,
        "symmetric memory must be of the same size in all ranks, but rank ",
        rank_,
        " has ",
        own_.bytes,
        " bytes and rank ",
        peer,
        " has ",
        offer.bytes);
    if (offer.process == getpid()) {
      return offer.base;
    }
    void* base = nullptr;
    OPENREG_CHECK(
        orIpcOpenMemHandle(&base, offer.handle, orIpcMemLazyEnablePeerAccess));
    opened_.push_back(base);
    ipc::receivedRanges().add(base, offer.bytes + offer.padBytes);
    return static_cast<char*>(base);
  }

  /// The signal of a rank that another one sends to it.
  Signal* signalOf(int owner, int sender, int channel) const {
    const auto count = static_cast<int64_t>(own_.padBytes / sizeof(Signal));
    const int64_t place = static_cast<int64_t>(channel) * size_ + sender;
    TORCH_CHECK_VALUE(
        owner >= 0 && owner < size_ && sender >= 0 && sender < size_,
        "a rank must be in [0, ",
        size_,
        "), but got ",
        owner == rank_ ? sender : owner);
    TORCH_CHECK_VALUE(
        channel >= 0 && place < count,
        "a channel must be in [0, ",
        count / size_,
        "), but got ",
        channel,
        "; set_signal_pad_size() makes room for more");
    auto* pad = static_cast<Signal*>(
        kernelAddress(bases_[static_cast<size_t>(owner)] + own_.bytes));
    return pad + place;
  }
  Signal* sent(int to, int channel) const {
    return signalOf(to, rank_, channel);
  }
  Signal* received(int from, int channel) const {
    return signalOf(rank_, from, channel);
  }

  void launch(
      const char* name,
      std::vector<Step> steps,
      int channel,
      size_t timeout) const {
    const auto stream = getCurrentOpenRegStream(own_.device);
    const auto list = [](std::vector<MemoryAccess>&) {};
    const orLaunchConfig config{name, orLaunchDefault};
    auto kernel = [steps = std::move(steps), name, channel, timeout] {
      for (const Step& step : steps) {
        if (!swapWhen(
                *step.signal,
                step.expected,
                step.desired,
                std::chrono::milliseconds(timeout))) {
          const auto why = c10::str(
              name,
              " in channel ",
              channel,
              " waited in vain for ",
              timeout,
              " ms");
          orKernelFail(orErrorCommunication, why.c_str());
          return;
        }
      }
    };
    OPENREG_CHECK(submit({name, stream, list}, [&](orStream_t handle) {
      return orLaunchKernelEx(&config, handle, std::move(kernel));
    }));
  }

  const Allocation own_;
  const int rank_;
  const int size_;
  std::vector<char*> bases_; // of all ranks
  std::vector<void*> opened_;
};

/// Threads: any may call anything.
class Allocator final : public symmetric::SymmetricMemoryAllocator {
 public:
  void* alloc(size_t size, int device, const std::optional<std::string>& group)
      override {
    constexpr size_t kAlignment = 256;
    const size_t bytes =
        std::max(size + kAlignment - 1, kAlignment) / kAlignment * kAlignment;
    Allocation block{
        nullptr,
        bytes,
        symmetric::get_signal_pad_size(),
        static_cast<DeviceIndex>(device)};
    block.base = static_cast<char*>(mallocOn(device, bytes + block.padBytes));
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        block.base,
        "device ",
        device,
        " does not have the ",
        bytes + block.padBytes,
        " bytes that symmetric memory needs");
    const DeviceScope scope(block.device);
    OPENREG_CHECK(orMemset(block.base + bytes, 0, block.padBytes));
    const std::lock_guard lock(mutex_);
    blocks_.emplace(block.base, Entry{block, group, {}});
    return block.base;
  }

  void free(void* pointer) override {
    std::unique_lock lock(mutex_);
    auto entry = blocks_.extract(static_cast<char*>(pointer));
    lock.unlock();
    if (entry && !symmetric::is_finalizing()) {
      OPENREG_CHECK_WARN(orFree(pointer)); // waits for the device
    }
  }

  size_t get_alloc_size(void* pointer) override {
    const std::lock_guard lock(mutex_);
    return find(pointer).block.bytes;
  }

  c10::intrusive_ptr<symmetric::SymmetricMemory> rendezvous(
      void* pointer,
      const std::optional<std::string>& group) override {
    std::unique_lock lock(mutex_);
    const Entry entry = find(pointer);
    const auto& name = group ? group : entry.group;
    TORCH_CHECK_VALUE(name, "rendezvous needs the name of a group");
    if (const auto known = entry.memories.find(*name);
        known != entry.memories.end()) {
      return known->second;
    }
    const auto ranks = c10d::resolve_process_group(*name);
    const symmetric::GroupInfo info{
        ranks->getRank(),
        ranks->getSize(),
        c10::make_intrusive<c10d::PrefixStore>(
            "symmetric_memory", ranks->getStore())};
    const uint64_t round = rounds_[{*name, info.rank}]++;
    lock.unlock(); // others of this process may be ranks too
    c10::intrusive_ptr<PeerMemory> memory;
    unlockedCall()([&] {
      memory = c10::make_intrusive<PeerMemory>(entry.block, info, round);
    });
    lock.lock();
    return find(pointer)
        .memories.emplace(*name, std::move(memory))
        .first->second;
  }

  bool has_multicast_support(int /*device*/) override {
    return false;
  }
  c10::DeviceType supported_device_type() override {
    return c10::openreg::kDeviceType;
  }
  std::string name() override {
    return "OCCL";
  }
  bool has_allocation(void* pointer) override {
    const std::lock_guard lock(mutex_);
    return blocks_.count(static_cast<char*>(pointer)) != 0;
  }

 private:
  struct Entry {
    Allocation block;
    std::optional<std::string> group;
    std::map<std::string, c10::intrusive_ptr<PeerMemory>> memories; // by group
  };

  Entry& find(void* pointer) {
    const auto place = blocks_.find(static_cast<char*>(pointer));
    TORCH_CHECK_VALUE(
        place != blocks_.end(),
        "this is not symmetric memory; make it with "
        "torch.distributed._symmetric_memory.empty()");
    return place->second;
  }

  std::mutex mutex_;
  std::map<char*, Entry> blocks_;
  std::map<std::pair<std::string, int>, uint64_t> rounds_; // by group and rank
};

const bool registered = [] {
  symmetric::register_allocator(
      c10::openreg::kDeviceType, c10::make_intrusive<Allocator>());
  return true;
}();

} // namespace

void setUnlockedCall(std::function<void(const Call&)> call) {
  unlockedCall() = std::move(call);
}

} // namespace c10::openreg::occl

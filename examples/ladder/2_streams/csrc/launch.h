// The devices, and how work gets to them: in streams, each a queue and a thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

constexpr int kDevices = 2;
constexpr int64_t kStreams = 32; // of a device; 0 is its default stream
constexpr size_t kMiniMemory = size_t{16} << 30; // of a device
inline thread_local int miniCurrentDevice = 0;
inline thread_local std::array<int64_t, kDevices> miniCurrentStreams{};

using MiniWork = std::function<void()>;

/// The process whose threads do the work; 0: none has been started. A forked child
/// has no threads.
inline std::atomic<pid_t> miniProcess = 0;
inline bool miniIsInBadFork() {
  return miniProcess != 0 && miniProcess != getpid();
}

/// Does its work in order. Threads: any may call anything.
class MiniStream {
 public:
  /// Returns the number of the work, for isDone() and wait().
  uint64_t push(MiniWork work) {
    if (miniIsInBadFork()) {
      throw std::runtime_error(
          "mini was used before the fork, and cannot be used in the forked "
          "process: start processes with the 'spawn' method");
    }
    const std::lock_guard lock(mutex_);
    if (captured_) {
      captured_->push_back(std::move(work));
      return pushed_;
    }
    queue_.push_back(std::move(work));
    if (!started_) {
      started_ = true;
      miniProcess = getpid();
      std::thread([this] { run(); }).detach();
    }
    changed_.notify_all();
    return ++pushed_;
  }
  uint64_t last() {
    const std::lock_guard lock(mutex_);
    return pushed_;
  }
  bool isDone(uint64_t number) {
    const std::lock_guard lock(mutex_);
    return done_ >= number;
  }
  void wait(uint64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= number; });
  }
  /// For all work so far. What a graph captures has not been done.
  void wait() {
    if (isCapturing()) {
      spoiled_ = true;
      throw std::runtime_error(
          "mini: a stream that is being captured cannot be waited for; an "
          "operator "
          "without a kernel of the device does so");
    }
    wait(last());
  }

  // --- capture, for graphs ---
  void beginCapture() {
    const std::lock_guard lock(mutex_);
    captured_.emplace();
    spoiled_ = false;
  }
  bool isCapturing() {
    const std::lock_guard lock(mutex_);
    return captured_.has_value();
  }
  /// Nothing if the capture was spoiled.
  std::optional<std::vector<MiniWork>> endCapture() {
    const std::lock_guard lock(mutex_);
    auto captured = std::exchange(captured_, std::nullopt);
    return spoiled_ ? std::nullopt : std::move(captured);
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !queue_.empty(); });
      auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      work = nullptr; // what it owns goes before others hear that it is done
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<MiniWork> queue_;
  std::optional<std::vector<MiniWork>> captured_;
  std::atomic<bool> spoiled_ = false;
  uint64_t pushed_ = 0;
  uint64_t done_ = 0;
  bool started_ = false;
};

// They live as long as the process: a thread may still be at work when it ends.
inline MiniStream& miniStream(int device, int64_t id) {
  static auto* streams =
      new std::array<std::array<MiniStream, kStreams>, kDevices>;
  return streams->at(device).at(id);
}

inline MiniStream& miniCurrentStream() {
  return miniStream(
      miniCurrentDevice, miniCurrentStreams.at(miniCurrentDevice));
}

template <class Work>
void miniLaunch(Work work) {
  miniCurrentStream().push(std::move(work));
}

inline void miniWait() {
  miniCurrentStream().wait();
}
inline void miniWaitForDevice(int device) {
  for (int64_t id = 0; id < kStreams; ++id) {
    miniStream(device, id).wait(miniStream(device, id).last());
  }
}
inline void miniWaitForAll() {
  for (int device = 0; device < kDevices; ++device) {
    miniWaitForDevice(device);
  }
}

/// A place in a stream, and the time when it was reached.
struct MiniEvent {
  MiniStream* stream;
  uint64_t number;
  std::shared_ptr<std::chrono::steady_clock::time_point> reached;

  explicit MiniEvent(MiniStream& in)
      : stream(&in),
        reached(std::make_shared<std::chrono::steady_clock::time_point>()) {
    number =
        in.push([when = reached] { *when = std::chrono::steady_clock::now(); });
  }
};

// --- host memory that the device can use ------------------------------------------

class MiniPinned {
 public:
  void* allocate(size_t bytes) {
    void* address = std::malloc(bytes);
    const std::lock_guard lock(mutex_);
    ranges_[static_cast<char*>(address)] = bytes;
    return address;
  }
  void free(void* address) {
    miniWaitForAll(); // a copy may be under way
    const std::lock_guard lock(mutex_);
    ranges_.erase(static_cast<char*>(address));
    std::free(address);
  }
  bool has(const void* address) {
    const auto* byte = static_cast<const char*>(address);
    const std::lock_guard lock(mutex_);
    auto next = ranges_.upper_bound(const_cast<char*>(byte));
    return next != ranges_.begin() &&
        byte < std::prev(next)->first + std::prev(next)->second;
  }
  /// Blocks and their bytes.
  std::pair<size_t, size_t> inUse() {
    const std::lock_guard lock(mutex_);
    size_t bytes = 0;
    for (const auto& [address, size] : ranges_) {
      bytes += size;
    }
    return {ranges_.size(), bytes};
  }

  static MiniPinned& instance() {
    static auto* pinned = new MiniPinned;
    return *pinned;
  }

 private:
  std::mutex mutex_;
  std::map<char*, size_t> ranges_;
};

inline bool miniIsPinned(const void* address) {
  return MiniPinned::instance().has(address);
}

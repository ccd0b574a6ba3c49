#include "executor/LibraryWorkspaces.h"

#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegFunctions.h"

#include <c10/util/env.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <regex>

namespace at::native::openreg {
namespace {

using c10::DataPtr;
using c10::DeviceIndex;
using c10::openreg::kMaxDevices;
using c10::openreg::OpenRegStream;

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

// --- how large ----------------------------------------------------------------

/// The value of a variable that CUDA's libraries read, as far as it fits `pattern`.
std::optional<std::string> setting(const char* variable, const char* pattern) {
  const auto value = c10::utils::get_env(variable);
  if (value && !std::regex_match(*value, std::regex(pattern))) {
    TORCH_WARN(
        "Could not parse ", variable, "='", *value, "', it has no effect.");
    return std::nullopt;
  }
  return value;
}

struct Sizes {
  size_t product = 0;
  size_t bias = 0;

  explicit Sizes(const orDeviceProp& device) {
    if (!posesAsNvidia()) {
      return;
    }
    // What PyTorch lets cuBLAS and cuBLASLt keep, by capability: seen on an H200,
    // and the documented default for the older ones.
    product = device.major >= 9 ? 32 * kMiB : 8 * kMiB + 128 * kKiB;
    bias = kMiB;
    // Pairs of a size in KiB and how many of it, such as ":4096:2:16:8";
    // torch_openreg/cuda/_settings.py explains the variable.
    if (auto pairs =
            setting("CUBLAS_WORKSPACE_CONFIG", "(:\\d{1,9}:\\d{1,9})+")) {
      product = 0;
      const std::regex pair(":(\\d+):(\\d+)");
      for (std::sregex_iterator i(pairs->begin(), pairs->end(), pair), end;
           i != end;
           ++i) {
        product += std::stoull((*i)[1]) * std::stoull((*i)[2]) * kKiB;
      }
    }
    // CUBLASLT_WORKSPACE_SIZE: additional KiB that a matrix product with a bias keeps,
    // on a device with the profile of an NVIDIA GPU. Default: 1024.
    if (auto number = setting("CUBLASLT_WORKSPACE_SIZE", "\\d{1,9}")) {
      bias = std::stoull(*number) * kKiB;
    }
  }

  /// All devices pose as the same.
  static const Sizes& get() {
    static const Sizes sizes(c10::openreg::get_device_properties(0));
    return sizes;
  }
};

// --- whose --------------------------------------------------------------------

struct Workspaces {
  DataPtr product;
  DataPtr bias;
};

/// A handle of the libraries: one thread at a time uses it.
using Handle = std::map<c10::StreamId, Workspaces>;

/// The handles of a device that no thread uses now.
class SpareHandles {
 public:
  std::unique_ptr<Handle> take() {
    const std::lock_guard lock(mutex_);
    if (handles_.empty()) {
      return std::make_unique<Handle>();
    }
    auto handle = std::move(handles_.back());
    handles_.pop_back();
    return handle;
  }
  void add(std::unique_ptr<Handle> handle) {
    const std::lock_guard lock(mutex_);
    handles_.push_back(std::move(handle));
  }

  // Like all memory of a device, they are not freed when a process ends.
  static SpareHandles& of(DeviceIndex device) {
    static auto* all = new std::array<SpareHandles, kMaxDevices>;
    return (*all)[device];
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Handle>> handles_;
};

/// The calling thread's handles.
class Handles {
 public:
  ~Handles() {
    for (auto& [device, handle] : handles_) {
      SpareHandles::of(device).add(std::move(handle));
    }
  }
  Handle& of(DeviceIndex device) {
    auto& handle = handles_[device];
    if (!handle) {
      handle = SpareHandles::of(device).take();
    }
    return *handle;
  }

 private:
  std::map<DeviceIndex, std::unique_ptr<Handle>> handles_;
};

// --- how much -----------------------------------------------------------------

/// What libraries have of a device now, and the most they had.
class LibraryBytes {
 public:
  void add(size_t bytes) {
    const size_t now = now_ += bytes;
    size_t peak = peak_;
    while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  void subtract(size_t bytes) {
    now_ -= bytes;
  }
  size_t peak() const {
    return peak_;
  }
  void resetPeak() {
    peak_ = now_.load();
  }

  static LibraryBytes& of(DeviceIndex device) {
    static std::array<LibraryBytes, kMaxDevices> all;
    return all[device];
  }

 private:
  std::atomic<size_t> now_ = 0, peak_ = 0;
};

void allocateOnce(DataPtr& memory, size_t bytes, const OpenRegStream& stream) {
  if (!memory && bytes != 0) {
    memory = c10::openreg::getOpenRegDeviceAllocator().allocate(bytes, stream);
    LibraryBytes::of(stream.device_index()).add(bytes);
  }
}

} // namespace

bool posesAsNvidia() {
  static const bool does = [] {
    // All devices pose as the same.
    const std::string_view name = c10::openreg::get_device_properties(0).name;
    return name.starts_with("NVIDIA ") || name.starts_with("Tesla ");
  }();
  return does;
}

BorrowedWorkspace::BorrowedWorkspace(const OpenRegStream& stream, size_t bytes)
    : device_(stream.device_index()) {
  if (bytes == 0) {
    return;
  }
  try {
    memory_ = c10::openreg::getOpenRegDeviceAllocator().allocate(bytes, stream);
  } catch (const c10::OutOfMemoryError&) {
    return; // another algorithm needs none
  }
  bytes_ = bytes;
  LibraryBytes::of(device_).add(bytes);
}

BorrowedWorkspace::~BorrowedWorkspace() {
  LibraryBytes::of(device_).subtract(bytes_);
}

void borrowWorkspace(const OpenRegStream& stream, size_t bytes) {
  const BorrowedWorkspace workspace(stream, bytes);
}

size_t libraryPeak(DeviceIndex device) {
  return LibraryBytes::of(device).peak();
}

void resetLibraryPeak(DeviceIndex device) {
  LibraryBytes::of(device).resetPeak();
}

bool isMatrixProduct(std::string_view op) {
  if (op.ends_with('_')) {
    op.remove_suffix(1); // the form that changes its argument
  }
  constexpr std::array<std::string_view, 6> kProducts{
      "aten::mm",
      "aten::addmm",
      "aten::_addmm_activation",
      "aten::bmm",
      "aten::baddbmm",
      "aten::addmv"};
  return std::ranges::find(kProducts, op) != kProducts.end();
}

void keepWorkspaces(const OpenRegStream& stream, bool withBias) {
  const Sizes& sizes = Sizes::get();
  if (sizes.product == 0 && sizes.bias == 0) {
    return;
  }
  thread_local Handles handles;
  auto& [product, bias] = handles.of(stream.device_index())[stream.id()];
  allocateOnce(product, sizes.product, stream);
  if (withBias) {
    allocateOnce(bias, sizes.bias, stream);
  }
}

} // namespace at::native::openreg

#include "executor/CompiledKernel.h"

#include "executor/Layouts.h"
#include "executor/RemoteKernel.h"
#include "runtime/OpenRegAddress.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include <dlfcn.h>

namespace at::native::openreg {
namespace {

using ArgumentWords = c10::SmallVector<uint64_t, 12>;

uint64_t toWord(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

/// The arguments of a kernel that runs later.
struct QueuedArguments {
  const CompiledKernel& kernel;
  c10::DeviceIndex device;
  ArgumentWords words;
  c10::SmallVector<CompiledKernel::HostNumber, 1> numbers;

  void run() const {
    if (C10_LIKELY(numbers.empty())) {
      kernel.run(device, words, numbers);
      return;
    }
    ArgumentWords changed = words; // they point into this object
    for (const auto& number : numbers) {
      changed[number.place] = toWord(number.content);
    }
    kernel.run(device, changed, numbers);
  }
};

CompiledKernel::HostNumber copyNumber(size_t place, const Tensor& tensor) {
  CompiledKernel::HostNumber number{place, tensor.itemsize(), {}};
  TORCH_INTERNAL_ASSERT(number.bytes <= sizeof(number.content));
  std::memcpy(number.content, tensor.const_data_ptr(), number.bytes);
  return number;
}

[[noreturn]] void throwMixUp(c10::Device one, c10::Device other) {
  TORCH_CHECK(
      false,
      "Expected all tensors to be on the same device, but found at least two "
      "devices, ",
      one,
      " and ",
      other,
      "!");
}

} // namespace

CompiledKernel::CompiledKernel(
    std::string library,
    std::string name,
    std::vector<Parameter> parameters,
    int threads,
    double nanoseconds)
    : library_(std::move(library)),
      name_(std::move(name)),
      parameters_(std::move(parameters)),
      threads_(threads),
      nanoseconds_(nanoseconds) {
  void* loaded = dlopen(library_.c_str(), RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(loaded, "The compiled kernel ", name_, ": ", dlerror());
  function_ = reinterpret_cast<Function>(dlsym(loaded, "openreg_run"));
  TORCH_CHECK(
      function_,
      library_,
      " is not a kernel of openreg: it has no function openreg_run");
}

c10::Device CompiledKernel::check(std::span<const Value> values) const {
  c10::Device device = c10::kCPU;
  for (const Value& value : values) {
    if (value.tensor && !value.tensor->is_cpu()) {
      if (device.is_cpu()) {
        device = value.tensor->device();
      } else if (value.tensor->device() != device) {
        throwMixUp(device, value.tensor->device());
      }
    }
  }
  if (device.is_cpu()) {
    return device;
  }
  TORCH_CHECK(
      c10::openreg::isOpenReg(device),
      "Expected a tensor of openreg or of the CPU, but got one of ",
      device);
  for (size_t i = 0; i < values.size(); ++i) {
    const Tensor* tensor = values[i].tensor;
    if (tensor && tensor->is_cpu() &&
        (tensor->dim() != 0 || parameters_[i] == Parameter::Writes)) {
      throwMixUp(device, c10::kCPU);
    }
  }
  return device;
}

// docs:begin launch-compiled
void CompiledKernel::launch(std::span<const Value> values) const {
  const c10::Device device = check(values);
  const bool onHost = device.is_cpu();
  size_t bytes = 0;
  int64_t elements = 0;
  bool hasNumbers = false;
  ArgumentWords words;
  for (size_t i = 0; i < values.size(); ++i) {
    const Tensor* tensor = values[i].tensor;
    if (!tensor) {
      words.push_back(values[i].number);
      continue;
    }
    if (parameters_[i] == Parameter::Writes && !onHost) {
      beginWriting(*tensor);
    }
    const void* data = tensor->const_data_ptr();
    if (tensor->is_cpu()) {
      hasNumbers = true;
      words.push_back(toWord(data));
    } else {
      bytes += tensor->nbytes();
      elements = std::max(elements, tensor->numel());
      words.push_back(toWord(c10::openreg::kernelAddress(data)));
    }
  }
  if (onHost) {
    function_(words.data());
    return;
  }
  const OpenRegStream stream = c10::openreg::currentStreamOf(device);
  const auto list = [&](std::vector<MemoryAccess>& accesses) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].tensor && !values[i].tensor->is_cpu()) {
        listAccess(
            *values[i].tensor, parameters_[i] == Parameter::Writes, accesses);
      }
    }
  };
  const bool isShared = threads_ > 1;
  const double computing = 1e-3 * nanoseconds_ * static_cast<double>(elements);
  const KernelNow kernel{
      name_.c_str(),
      stream,
      bytes <= kSmallBytes && !isShared,
      isShared ? std::numeric_limits<double>::infinity()
               : microsecondsFor(bytes) + computing,
      list};
  const auto now = [&] {
    c10::SmallVector<HostNumber, 1> numbers;
    if (hasNumbers && kernelsRunElsewhere()) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i].tensor && values[i].tensor->is_cpu()) {
          numbers.push_back(copyNumber(i, *values[i].tensor));
        }
      }
    }
    run(device.index(), words, numbers);
  };
  if (tryRun(kernel, [&] { runQueued(1, now); })) {
    return;
  }
  auto queued = std::make_unique<QueuedArguments>(
      QueuedArguments{*this, device.index(), std::move(words), {}});
  if (hasNumbers) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].tensor && values[i].tensor->is_cpu()) {
        queued->numbers.push_back(copyNumber(i, *values[i].tensor));
      }
    }
  }
  queue(kernel, [queued = std::move(queued)] { queued->run(); });
}
// docs:end launch-compiled

void CompiledKernel::run(
    c10::DeviceIndex device,
    std::span<const uint64_t> words,
    std::span<const HostNumber> numbers) const {
  if (C10_UNLIKELY(kernelsRunElsewhere())) {
    c10::SmallVector<RemoteWord, 12> sent;
    for (size_t i = 0; i < words.size(); ++i) {
      sent.push_back({words[i], parameters_[i] != Parameter::Number, {}});
    }
    for (const HostNumber& number : numbers) {
      sent[number.place].content = {number.content, number.bytes};
    }
    runCompiledRemotely(device, library_, name_, sent);
    return;
  }
  try {
    function_(words.data());
  } catch (const std::exception& error) {
    TORCH_CHECK(false, name_, ": ", error.what());
  }
}

} // namespace at::native::openreg

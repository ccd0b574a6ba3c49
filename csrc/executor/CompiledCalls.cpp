#include "executor/CompiledCalls.h"

#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <mutex>
#include <stdexcept>
#include <unordered_map>

namespace at::native::openreg {
namespace {

struct Kernels {
  std::mutex mutex;
  std::unordered_map<std::string, const CompiledKernel*> byKey;
};

// Never freed: kernels are not either.
Kernels& kernels() {
  static auto* kernels = new Kernels;
  return *kernels;
}

} // namespace

void addCompiledKernel(const std::string& key, const CompiledKernel& kernel) {
  const std::lock_guard lock(kernels().mutex);
  kernels().byKey.emplace(key, &kernel);
}

void rethrowForCompiledCode() {
  try {
    throw;
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  }
}

const CompiledKernel* openreg_find_kernel(const char* key) {
  const std::lock_guard lock(kernels().mutex);
  const auto found = kernels().byKey.find(key);
  TORCH_CHECK(
      found != kernels().byKey.end(),
      "Compiled code asks for the kernel ",
      key,
      ", which was not loaded in this process");
  return found->second;
}

void openreg_launch(
    const CompiledKernel* kernel,
    const CompiledArgument* arguments,
    size_t count) {
  c10::SmallVector<CompiledKernel::Value, 12> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(
        {torch::aot_inductor::tensor_handle_to_tensor_pointer(
             arguments[i].tensor),
         arguments[i].number});
  }
  try {
    kernel->launch({values.data(), values.size()});
  } catch (...) {
    rethrowForCompiledCode();
  }
}

} // namespace at::native::openreg

#include "device_process/CompiledLibraries.h"

#include "device_process/DriverMemory.h"

#include <c10/util/Exception.h>

#include <vector>

#include <dlfcn.h>

namespace openreg::device {

using c10::openreg::remote::WireKernel;
using c10::openreg::remote::WordKind;

CompiledLibraries::Function CompiledLibraries::find(
    const std::string& library) {
  const auto known = functions_.find(library);
  if (known != functions_.end()) {
    return known->second;
  }
  void* loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(loaded, "The device process cannot load a kernel: ", dlerror());
  const auto function =
      reinterpret_cast<Function>(dlsym(loaded, "openreg_run"));
  TORCH_CHECK(function, library, " has no function openreg_run");
  functions_.emplace(library, function);
  return function;
}

void CompiledLibraries::run(const WireKernel& kernel) {
  key_.assign(kernel.library);
  const Function function = find(key_);
  std::vector<uint64_t> words(kernel.words.begin(), kernel.words.end());
  // Numbers may need more than the alignment of a message.
  std::vector<std::max_align_t> contents(
      kernel.contents.size() / sizeof(std::max_align_t) + 1);
  auto* content = reinterpret_cast<char*>(contents.data());
  std::copy(kernel.contents.begin(), kernel.contents.end(), content);
  for (size_t i = 0; i < words.size(); ++i) {
    if (kernel.kinds[i] == WordKind::Memory) {
      words[i] += reinterpret_cast<uint64_t>(memoryBase());
    } else if (kernel.kinds[i] == WordKind::Content) {
      words[i] += reinterpret_cast<uint64_t>(content);
    }
  }
  try {
    function(words.data());
  } catch (const std::exception& error) {
    TORCH_CHECK(false, kernel.name, ": ", error.what());
  }
}

} // namespace openreg::device

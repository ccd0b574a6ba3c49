// Kernels that the driver has compiled, loaded here.
#pragma once

#include "remote/Wire.h"

#include <cstdint>
#include <string>
#include <unordered_map>

namespace openreg::device {

/// The libraries that one thread has loaded.
class CompiledLibraries {
 public:
  /// Runs a kernel on the device's memory. Throws what it throws, or if its library
  /// cannot be loaded.
  void run(const c10::openreg::remote::WireKernel& kernel);

 private:
  using Function = void (*)(const uint64_t* words);

  Function find(const std::string& library);

  std::unordered_map<std::string, Function> functions_;
  std::string key_;
};

} // namespace openreg::device

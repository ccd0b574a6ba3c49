#include "runtime/OpenRegPhilox.h"

#include <c10/util/Exception.h>
#include <c10/util/env.h>

#include <optional>
#include <string>

namespace c10::openreg {
namespace {

// OPENREG_RNG: which random numbers devices draw: with `cpu`, a seed gives the same
// numbers on a device and on the CPU; with `philox`, those of a GPU that has the
// multiprocessors of the device's profile; see [the generator](generator.md). Default:
// `cpu`.
std::optional<std::string> setting() {
  return c10::utils::get_env("OPENREG_RNG");
}

} // namespace

bool drawsPhilox() {
  static const bool philox = setting() == "philox";
  return philox;
}

void checkRngSetting() {
  const auto name = setting();
  TORCH_CHECK(
      !name || name->empty() || *name == "cpu" || *name == "philox",
      "OPENREG_RNG is '",
      *name,
      "', but it must be cpu or philox: set it to one of them, or unset it");
}

} // namespace c10::openreg

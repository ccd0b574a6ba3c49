#include "runtime/OpenRegProfiling.h"

namespace c10::openreg::detail {

std::atomic<int> profilers{0};

} // namespace c10::openreg::detail

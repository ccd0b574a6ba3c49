#include "runtime/OpenRegObserver.h"

namespace c10::openreg {

std::atomic<RuntimeObserver*> detail::runtimeObserver{nullptr};

RuntimeObserver* exchangeRuntimeObserver(RuntimeObserver* observer) {
  return detail::runtimeObserver.exchange(observer);
}

} // namespace c10::openreg

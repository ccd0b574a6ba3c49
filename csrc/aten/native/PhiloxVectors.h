// Code that is compiled a second time for processors with wide vectors and fused
// multiplication.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define OPENREG_WITH_VECTORS [[gnu::target("avx2,fma"), gnu::flatten]]
#endif

namespace at::native::openreg {

/// Whether this one has them.
inline bool processorHasVectors() {
#ifdef OPENREG_WITH_VECTORS
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
#else
  return false;
#endif
}

#ifdef OPENREG_WITH_VECTORS
template <class Work>
OPENREG_WITH_VECTORS void workInVectors(const Work& work) {
  work();
}
#endif

/// Calls `work()`, in the code for such a processor if this is one.
template <class Work>
void inVectors(const Work& work) {
#ifdef OPENREG_WITH_VECTORS
  if (processorHasVectors()) {
    return workInVectors(work);
  }
#endif
  work();
}

} // namespace at::native::openreg

#include "distributed/LargeCopy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace c10::openreg::occl {

void copyLarge(char* to, const char* from, size_t bytes) {
#if defined(__SSE2__)
  constexpr size_t kLine = 64;
  const size_t before = std::min(
      bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, before);
  size_t done = before;
  for (; done + kLine <= bytes; done += kLine) {
    __m128i parts[4];
    std::memcpy(parts, from + done, kLine);
    auto* line = reinterpret_cast<__m128i*>(to + done);
    for (int i = 0; i < 4; ++i) {
      _mm_stream_si128(line + i, parts[i]);
    }
  }
  _mm_sfence(); // such writes are not ordered with others
  std::memcpy(to + done, from + done, bytes - done);
#else
  std::memcpy(to, from, bytes);
#endif
}

} // namespace c10::openreg::occl

#include "large_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace openreg {

#ifdef __SSE2__
// For 64 MiB, into the memory of a device and out of it, on the machine this was
// measured on: memcpy() 4.9 and 5.1 ms, this 3.3 and 3.1 ms.
void copyPastCaches(char* dst, const char* src, size_t bytes) {
  constexpr size_t kLine = 64, kVector = 16;
  const size_t ahead =
      std::min(bytes, -reinterpret_cast<uintptr_t>(dst) % kLine);
  std::memcpy(dst, src, ahead);
  size_t done = ahead;
  for (; bytes - done >= kLine; done += kLine) {
    for (size_t at = done; at < done + kLine; at += kVector) {
      _mm_stream_si128(
          reinterpret_cast<__m128i*>(dst + at),
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + at)));
    }
  }
  _mm_sfence(); // others see these bytes before what is written next
  std::memcpy(dst + done, src + done, bytes - done);
}
#else
void copyPastCaches(char* dst, const char* src, size_t bytes) {
  std::memcpy(dst, src, bytes);
}
#endif

} // namespace openreg

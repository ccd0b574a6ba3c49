// libFuzzer on the parsers of the device process's messages: `make fuzz`.
#include "../cpp/plain/wire_samples.h"

#include <algorithm>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  wire_samples::parseAsAnything({reinterpret_cast<const char*>(data), bytes});
  return 0;
}

// Begins with messages that are right: from nothing it would take ages to get there.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t bytes, size_t most);
extern "C" size_t LLVMFuzzerCustomMutator(
    uint8_t* data,
    size_t bytes,
    size_t most,
    unsigned seed) {
  if (bytes < 16) {
    const auto sample =
        seed % 2 ? wire_samples::call() : wire_samples::result();
    bytes = std::min(sample.size(), most);
    std::copy_n(sample.data(), bytes, data);
  }
  return LLVMFuzzerMutate(data, bytes, most);
}

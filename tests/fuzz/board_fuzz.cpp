// libFuzzer on what a rank reads of others in shared memory: `make fuzz`.
#include "../cpp/plain/board_samples.h"

// The first byte picks a call; the rest changes an honest line, word by word: two bytes
// for the place, eight for the value.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static board_samples::Victim victim;
  static const auto calls = victim.calls();
  static const auto lines = [] {
    std::vector<std::string> made;
    for (const auto& call : calls) {
      made.push_back(victim.honestLine(call));
    }
    return made;
  }();
  if (bytes == 0) {
    return 0;
  }
  const size_t which = data[0] % calls.size();
  std::string line = lines[which];
  for (size_t at = 1; at + 10 <= bytes; at += 10) {
    uint16_t place = 0;
    std::memcpy(&place, data + at, sizeof(place));
    std::memcpy(line.data() + place % (line.size() / 8) * 8, data + at + 2, 8);
  }
  victim.read(calls[which], line);
  return 0;
}

// The devices, and how work reaches them: it is done when the call returns.
#pragma once

constexpr int kDevices = 2;
inline thread_local int miniCurrentDevice = 0;

template <class Work>
void miniLaunch(Work work) {
  work();
}

/// Wait for the work of the current stream, or of all streams.
inline void miniWait() {}
inline void miniWaitForAll() {}

/// Whether the device can use host memory while the host goes on.
inline bool miniIsPinned(const void* /*address*/) {
  return false;
}

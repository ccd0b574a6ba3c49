// openreg-device: runs the kernels of one device for the process that started it.
#include "device_process/DriverMemory.h"
#include "device_process/Server.h"
#include "remote/ControlSocket.h"
#include "remote/Wire.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <malloc.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using namespace c10::openreg::remote;

template <class... Parts>
int fail(const Parts&... what) {
  (std::cerr << "openreg-device: " << ... << what) << std::endl;
  return 1;
}

// OPENREG_DEVICE_LIBRARIES: libraries of operators for device processes to load,
// separated by `:`. Default: none.
std::string loadLibraries() {
  const char* variable = std::getenv("OPENREG_DEVICE_LIBRARIES");
  std::string list = variable ? variable : "";
  while (!list.empty()) {
    const size_t colon = std::min(list.find(':'), list.size());
    const std::string library = list.substr(0, colon);
    list.erase(0, colon + 1);
    if (!library.empty() && !dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
      return dlerror();
    }
  }
  return {};
}

StatusPage::Slot* takeSlot(StatusPage& status) {
  for (auto& slot : status.slots) {
    if (slot.used.exchange(1) == 0) {
      return &slot;
    }
  }
  return nullptr;
}

// docs:begin serve-channels
// One thread per channel, until the driver hangs up or is gone: then this process
// ends at once, whatever its threads do.
void serveChannels(ControlSocket& control, int driver, StatusPage& status) {
  for (;;) {
    pollfd ends[] = {{control.descriptor(), POLLIN, 0}, {driver, POLLIN, 0}};
    if (poll(ends, 2, -1) < 0) {
      continue; // a signal
    }
    if (ends[1].revents != 0) {
      return;
    }
    auto received = control.receive(0);
    if (!received || received->message.kind != ControlKind::NewChannel ||
        received->descriptors.size() != 1) {
      return;
    }
    std::thread([&status,
                 memory = std::move(received->descriptors[0])]() mutable {
      StatusPage::Slot* slot = takeSlot(status);
      status.channels.fetch_add(1);
      openreg::device::serve(Channel(memory), status, slot);
      status.channels.fetch_sub(1);
      if (slot) {
        slot->used.store(0);
      }
    }).detach();
  }
}
// docs:end serve-channels

// Kernels allocate and free temporaries again and again, so their pages are kept: to
// return and touch them anew takes a third of a small network's training step.
void keepMemory() {
  constexpr int kMostOfHeap = 32 << 20; // what malloc has in one piece
  mallopt(M_MMAP_THRESHOLD, kMostOfHeap);
  mallopt(M_TRIM_THRESHOLD, 8 * kMostOfHeap);
  mallopt(M_TOP_PAD, kMostOfHeap);
}

int run() {
  keepMemory();
  ControlSocket control{Descriptor(kControlDescriptor)};
  if (!control.peerIsSameUser()) {
    return fail("started by hand, or by another user; torch_openreg starts it");
  }
  auto start = control.receive(/*milliseconds=*/10'000);
  if (!start || start->message.kind != ControlKind::Start ||
      start->descriptors.size() != 2) {
    return fail("the driver did not say hello");
  }
  const ControlMessage& hello = start->message;
  if (hello.version != kWireVersion) {
    return fail(
        "the driver speaks version ",
        hello.version,
        ", but this is version ",
        kWireVersion);
  }
  const Descriptor driver(
      static_cast<int>(syscall(SYS_pidfd_open, hello.driver, 0)));
  if (!driver || getppid() != hello.driver) {
    return fail("the driver is gone");
  }
  const int found = start->descriptors[0].get();
  if (found != kStatusDescriptor && dup2(found, kStatusDescriptor) < 0) {
    return fail("the status page cannot be shown");
  }
  const Mapping page(start->descriptors[0], sizeof(StatusPage));
  const Mapping memory(start->descriptors[1], hello.memoryBytes);
  auto& status = *reinterpret_cast<StatusPage*>(page.data());
  status.device = hello.device;
  status.driver = hello.driver;
  openreg::device::installDriverMemory(memory.data(), memory.size());
  if (const std::string error = loadLibraries(); !error.empty()) {
    return fail("OPENREG_DEVICE_LIBRARIES: ", error);
  }
  status.magic.store(StatusPage::kMagic);
  ControlMessage ready;
  ready.kind = ControlKind::Ready;
  ready.version = kWireVersion;
  if (control.send(ready)) {
    serveChannels(control, driver.get(), status);
  }
  _exit(0); // threads may be in the middle of a kernel
}

} // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

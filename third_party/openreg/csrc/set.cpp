// Setting bytes of device memory.
#include "openreg/transfer.h"

#include "transfer.h"

#include <cstring>

using namespace openreg;

namespace {

struct RunSet {
  void* pointer;
  int value;
  size_t bytes;

  void operator()() const {
    if (char* const to = reach(pointer, bytes)) {
      inParts(bytes, 1, [this, to](size_t begin, size_t end) {
        std::memset(to + begin, value, end - begin);
      });
    }
  }
};

Work setWork(size_t count, bool small) {
  return {
      .info = {"Memset (Device)", TaskKind::Set},
      .where = small ? Where::Idle : Where::Queue,
      .bytes = count};
}

} // namespace

orError_t orMemset(void* pointer, int value, size_t count) {
  return unsafeBlockingApi("orMemset", [&](Runtime& runtime) {
    if (count == 0) {
      return orSuccess;
    }
    const orError_t status = checkDeviceRange("pointer", pointer, count);
    return status == orSuccess ? submitAndWait(
                                     runtime.currentDevice().defaultStream(),
                                     setWork(count, true),
                                     RunSet{pointer, value, count})
                               : status;
  });
}

orError_t orMemsetAsync(
    void* pointer,
    int value,
    size_t count,
    orStream_t stream) {
  return api("orMemsetAsync", [&](Runtime& runtime) {
    Stream* found = runtime.streams.find(stream);
    if (!found) {
      return failOnStream(stream);
    }
    if (count == 0) {
      return orSuccess;
    }
    const orError_t status = checkDeviceRange("pointer", pointer, count);
    return status == orSuccess ? submitCallable(
                                     *found,
                                     setWork(count, count <= kSmallTransfer),
                                     RunSet{pointer, value, count})
                               : status;
  });
}

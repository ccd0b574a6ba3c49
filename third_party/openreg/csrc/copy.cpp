// Copies between host and device memory, in every direction.
#include "openreg/transfer.h"

#include "large_copy.h"
#include "os.h"
#include "transfer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

using namespace openreg;

namespace {

// Up to here the bytes of a pageable source are taken along, as a GPU was seen to
// do it; beyond, the call waits.
constexpr size_t kStagedBytes = 256 * kKiB;

/// Rows of bytes; a plain copy has one.
struct Copy {
  void* dst;
  const void* src;
  size_t width;
  size_t height = 1;
  size_t dpitch = 0;
  size_t spitch = 0;

  size_t span(size_t pitch) const {
    return (height - 1) * pitch + width;
  }
};

// --- what a worker runs ---

void copyThroughCaches(char* dst, const char* src, size_t bytes) {
  std::memcpy(dst, src, bytes);
}

struct RunCopy {
  Copy copy;

  void operator()() const {
    const size_t dspan = copy.span(copy.dpitch);
    const size_t sspan = copy.span(copy.spitch);
    char* const dst = reach(copy.dst, dspan);
    const char* const src = reach(copy.src, sspan);
    if (!dst || !src) {
      return;
    }
    const auto copyRows = [this, dst, src](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        std::memmove(
            dst + row * copy.dpitch, src + row * copy.spitch, copy.width);
      }
    };
    if (dst < src + sspan && src < dst + dspan) {
      copyRows(0, copy.height); // they overlap, so the order matters
    } else if (copy.height == 1) {
      const auto copyPart =
          copy.width < kPastCaches ? &copyThroughCaches : &copyPastCaches;
      inParts(copy.width, 1, [=](size_t begin, size_t end) {
        copyPart(dst + begin, src + begin, end - begin);
      });
    } else {
      inParts(copy.height, copy.width, copyRows);
    }
  }
};

struct RunStagedCopy {
  void* dst;
  size_t bytes;
  std::unique_ptr<char[]> source;

  void operator()() const {
    if (char* to = reach(dst, bytes)) {
      std::memcpy(to, source.get(), bytes);
    }
  }
};

// --- what a call checks ---

orError_t checkSide(
    const char* argument,
    const void* pointer,
    size_t bytes,
    bool onDevice,
    orMemcpyKind kind) {
  if (!pointer) {
    return fail(orErrorInvalidValue, "%s must not be NULL", argument);
  }
  if (onDevice) {
    return checkDeviceRange(argument, pointer, bytes);
  }
  const int owner = runtime().addresses.deviceOf(pointer);
  return owner < 0
      ? orSuccess
      : fail(
            orErrorInvalidValue,
            "%s %p is memory of device %d, but copy kind %d says host",
            argument,
            pointer,
            owner,
            static_cast<int>(kind));
}

/// Checks a copy and replaces orMemcpyDefault by what it means here.
orError_t checkCopy(const Copy& copy, orMemcpyKind* kind) {
  const auto number = static_cast<int>(*kind);
  if (number < orMemcpyHostToHost || number > orMemcpyDefault) {
    return fail(
        orErrorInvalidMemcpyDirection,
        "kind must be in [%d, %d], but is %d",
        orMemcpyHostToHost,
        orMemcpyDefault,
        number);
  }
  if (copy.width == 0 || copy.height == 0) {
    return orSuccess;
  }
  bool toDevice =
      *kind == orMemcpyHostToDevice || *kind == orMemcpyDeviceToDevice;
  bool fromDevice =
      *kind == orMemcpyDeviceToHost || *kind == orMemcpyDeviceToDevice;
  if (*kind == orMemcpyDefault) {
    toDevice = runtime().addresses.deviceOf(copy.dst) >= 0;
    fromDevice = runtime().addresses.deviceOf(copy.src) >= 0;
    *kind = static_cast<orMemcpyKind>(2 * fromDevice + toDevice);
  }
  const orError_t status =
      checkSide("dst", copy.dst, copy.span(copy.dpitch), toDevice, *kind);
  return status != orSuccess
      ? status
      : checkSide("src", copy.src, copy.span(copy.spitch), fromDevice, *kind);
}

// As traces of a GPU have them.
const char* nameOf(orMemcpyKind kind, bool pageable) {
  switch (kind) {
    case orMemcpyHostToHost:
      return "Memcpy HtoH";
    case orMemcpyHostToDevice:
      return pageable ? "Memcpy HtoD (Pageable -> Device)"
                      : "Memcpy HtoD (Pinned -> Device)";
    case orMemcpyDeviceToHost:
      return pageable ? "Memcpy DtoH (Device -> Pageable)"
                      : "Memcpy DtoH (Device -> Pinned)";
    default:
      return "Memcpy DtoD (Device -> Device)";
  }
}

// --- how a checked copy is submitted ---

bool isPageable(const void* pointer, size_t bytes) {
  return runtime().addresses.deviceOf(pointer) < 0 &&
      !runtime().hostMemory.contains(pointer, bytes);
}

Work workFor(const Copy& copy, orMemcpyKind kind, bool pageable, bool small) {
  return {
      .info =
          {.name = nameOf(kind, pageable),
           .kind = TaskKind::Copy,
           .copyKind = kind},
      .where = small ? Where::Idle : Where::Queue,
      .bytes = copy.width * copy.height};
}

/// Copies on the calling thread. Returns false if the source faults.
bool takeAlong(void* to, const void* from, size_t bytes, uintptr_t* fault) {
  struct Bytes {
    void* to;
    const void* from;
    size_t count;
  } context{to, from, bytes};
  return os::runGuarded(
      [](void* raw) {
        const auto* copied = static_cast<Bytes*>(raw);
        std::memcpy(copied->to, copied->from, copied->count);
      },
      [](void*, uintptr_t) { return true; },
      &context,
      fault);
}

orError_t submitAsync(
    Stream& stream,
    const Copy& copy,
    orMemcpyKind kind,
    bool mayStage) {
  const size_t bytes = copy.width * copy.height;
  const bool toPageable = isPageable(copy.dst, copy.span(copy.dpitch));
  const bool fromPageable = isPageable(copy.src, copy.span(copy.spitch));
  const bool pageable = toPageable || fromPageable;
  const Work work = workFor(copy, kind, pageable, bytes <= kSmallTransfer);
  if (!pageable) {
    return submitCallable(stream, work, RunCopy{copy});
  }
  const bool atOnce =
      runtime().schedule.load(std::memory_order_relaxed) == Schedule::Auto &&
      !runningStream() && stream.idle();
  if (toPageable || !mayStage || bytes > kStagedBytes || atOnce ||
      stream.capturing()) {
    // On an idle stream the caller, who waits, may as well do it; a capturing one
    // says that it cannot be waited for.
    return submitAndWait(
        stream, workFor(copy, kind, true, true), RunCopy{copy});
  }
  RunStagedCopy staged{copy.dst, bytes, std::make_unique<char[]>(bytes)};
  uintptr_t fault = 0;
  if (!takeAlong(staged.source.get(), copy.src, bytes, &fault)) {
    char text[64];
    std::snprintf(
        text,
        sizeof(text),
        "'%s' touched address %#zx",
        work.info.name,
        size_t{fault});
    stream.device().breakWith(orErrorIllegalAddress, text);
    return stream.device().checkAfterWait();
  }
  return submitCallable(stream, work, std::move(staged));
}

} // namespace

orError_t orMemcpy(
    void* dst,
    const void* src,
    size_t count,
    orMemcpyKind kind) {
  return unsafeBlockingApi("orMemcpy", [&](Runtime& runtime) {
    const Copy copy{dst, src, count};
    if (const orError_t status = checkCopy(copy, &kind); status != orSuccess) {
      return status;
    }
    const bool pageable = isPageable(dst, count) || isPageable(src, count);
    return count == 0 ? orSuccess
                      : submitAndWait(
                            runtime.currentDevice().defaultStream(),
                            workFor(copy, kind, pageable, true),
                            RunCopy{copy});
  });
}

orError_t orMemcpyAsync(
    void* dst,
    const void* src,
    size_t count,
    orMemcpyKind kind,
    orStream_t stream) {
  return api("orMemcpyAsync", [&](Runtime& runtime) {
    Stream* found = runtime.streams.find(stream);
    if (!found) {
      return failOnStream(stream);
    }
    const Copy copy{dst, src, count};
    const orError_t status = checkCopy(copy, &kind);
    return status != orSuccess || count == 0
        ? status
        : submitAsync(*found, copy, kind, true);
  });
}

orError_t orMemcpyPeerAsync(
    void* dst,
    int dstDevice,
    const void* src,
    int srcDevice,
    size_t count,
    orStream_t stream) {
  return api("orMemcpyPeerAsync", [&](Runtime& runtime) {
    Stream* found = runtime.streams.find(stream);
    if (!found) {
      return failOnStream(stream);
    }
    if (!runtime.findDevice(dstDevice) || !runtime.findDevice(srcDevice)) {
      return orErrorInvalidDevice;
    }
    if (count == 0) {
      return orSuccess;
    }
    orError_t status = checkDeviceRange("dst", dst, count, dstDevice);
    if (status == orSuccess) {
      status = checkDeviceRange("src", src, count, srcDevice);
    }
    return status == orSuccess
        ? submitAsync(*found, {dst, src, count}, orMemcpyDeviceToDevice, true)
        : status;
  });
}

orError_t orMemcpy2DAsync(
    void* dst,
    size_t dpitch,
    const void* src,
    size_t spitch,
    size_t width,
    size_t height,
    orMemcpyKind kind,
    orStream_t stream) {
  return api("orMemcpy2DAsync", [&](Runtime& runtime) {
    Stream* found = runtime.streams.find(stream);
    if (!found) {
      return failOnStream(stream);
    }
    if (dpitch < width || spitch < width) {
      return fail(
          orErrorInvalidPitchValue,
          "a pitch (dpitch %zu, spitch %zu) is smaller than the width %zu",
          dpitch,
          spitch,
          width);
    }
    size_t extent = 0;
    if (__builtin_mul_overflow(std::max(dpitch, spitch), height, &extent)) {
      return fail(
          orErrorInvalidValue,
          "%zu rows at a pitch of %zu bytes exceed the address space",
          height,
          std::max(dpitch, spitch));
    }
    const Copy copy{dst, src, width, height, dpitch, spitch};
    const orError_t status = checkCopy(copy, &kind);
    return status != orSuccess || width == 0 || height == 0
        ? status
        : submitAsync(*found, copy, kind, false);
  });
}

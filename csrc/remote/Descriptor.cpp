#include "remote/Descriptor.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace c10::openreg::remote {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

} // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept
    : number_(std::exchange(other.number_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) {
    ::close(number_);
  }
}

Descriptor makeSharedMemory(const char* name, size_t bytes) {
  Descriptor memory(memfd_create(name, MFD_CLOEXEC));
  if (!memory || ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) {
    fail(name);
  }
  return memory;
}

Mapping::Mapping(const Descriptor& memory, size_t bytes) : bytes_(bytes) {
  void* data = mmap(
      nullptr,
      bytes,
      PROT_READ | PROT_WRITE,
      MAP_SHARED | MAP_NORESERVE,
      memory.get(),
      0);
  if (data == MAP_FAILED) {
    fail("mmap");
  }
  madvise(data, bytes, MADV_DONTFORK);
  data_ = static_cast<char*>(data);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_) {
    munmap(data_, bytes_);
  }
}

} // namespace c10::openreg::remote

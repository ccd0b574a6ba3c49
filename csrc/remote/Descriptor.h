// File descriptors with an owner, and memory that processes share.
#pragma once

#include <cstddef>

namespace c10::openreg::remote {

/// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const {
    return number_;
  }
  explicit operator bool() const {
    return number_ >= 0;
  }

 private:
  int number_ = -1;
};

/// Memory without a name, shared by whoever has the descriptor, that takes up only
/// the pages that were touched. Throws std::system_error.
Descriptor makeSharedMemory(const char* name, size_t bytes);

/// Shared memory mapped into this process.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const Descriptor& memory, size_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  char* data() const {
    return data_;
  }
  size_t size() const {
    return bytes_;
  }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

} // namespace c10::openreg::remote

// Messages as bytes: how they are written and read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <type_traits>

namespace c10::openreg::remote {

/// A malformed message: too short, out of bounds, of another version.
class WireError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws a WireError of these words and numbers.
template <class... Parts>
[[noreturn]] void failWire(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw WireError(text.str());
}

/// Throws one of `otherwise` unless the condition holds.
template <class... Parts>
void require(bool holds, const Parts&... otherwise) {
  if (!holds) {
    failWire(otherwise...);
  }
}

/// Appends to a buffer of fixed size. Everything is aligned to 8 bytes, so that
/// lists can be read where they lie.
class Writer {
 public:
  explicit Writer(std::span<char> buffer) : buffer_(buffer) {}

  template <class T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
    char word[8] = {};
    std::memcpy(word, &value, sizeof(T));
    std::memcpy(take(8), word, 8);
  }
  template <class T>
  void putAll(std::span<const T> values) {
    put<uint64_t>(values.size());
    putBytes(values.data(), values.size_bytes());
  }
  void putText(std::string_view text) {
    putAll(std::span<const char>(text));
  }
  void putBytes(const void* bytes, size_t count) {
    char* to = take((count + 7) / 8 * 8);
    if (count != 0) {
      std::memcpy(to, bytes, count);
    }
  }

  /// A number, a text or a list, whichever `T` is.
  template <class T>
  void putField(const T& field) {
    if constexpr (std::is_arithmetic_v<T>) {
      put(field);
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      putText(field);
    } else {
      putAll(field);
    }
  }

  size_t size() const {
    return used_;
  }

 private:
  char* take(size_t count) {
    if (count > buffer_.size() - used_) {
      failWire(
          "a message has at most ",
          buffer_.size(),
          " bytes, and this one is longer");
    }
    char* place = buffer_.data() + used_;
    used_ += count;
    return place;
  }

  const std::span<char> buffer_;
  size_t used_ = 0;
};

/// Reads what a Writer wrote, and nothing beyond it.
class Reader {
 public:
  explicit Reader(std::span<const char> message) : rest_(message) {}

  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(8).data(), sizeof(T));
    return value;
  }
  /// One of an enumeration that begins at `first` and ends with `last`.
  template <class T>
  T getOf(T first, T last) {
    const auto value = get<T>();
    if (value < first || value > last) {
      failWire(
          "expected a kind in [",
          static_cast<int64_t>(first),
          ", ",
          static_cast<int64_t>(last),
          "], but got ",
          static_cast<int64_t>(value));
    }
    return value;
  }
  /// A number of things of which each takes at least 8 bytes.
  size_t getCount() {
    return checkCount(get<uint64_t>());
  }
  size_t checkCount(uint64_t count) const {
    if (count > rest_.size() / 8) {
      failWire(
          count,
          " things cannot be in the ",
          rest_.size(),
          " bytes that are left");
    }
    return count;
  }
  template <class T>
  std::span<const T> getAll() {
    const auto count = get<uint64_t>();
    if (count > rest_.size() / sizeof(T)) {
      failWire(
          "a list of ",
          count,
          " is longer than the ",
          rest_.size(),
          " bytes that are left");
    }
    const auto bytes = getBytes(count * sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), count};
  }
  std::string_view getText() {
    const auto letters = getAll<char>();
    return {letters.data(), letters.size()};
  }
  std::span<const char> getBytes(size_t count) {
    if (count > rest_.size()) {
      failWire(
          count, " bytes are more than the ", rest_.size(), " that are left");
    }
    return take((count + 7) / 8 * 8).first(count);
  }
  /// What putField() wrote of the same type.
  template <class T>
  void getField(T& field) {
    if constexpr (std::is_arithmetic_v<T>) {
      field = get<T>();
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      field = getText();
    } else {
      field = getAll<typename T::value_type>();
    }
  }
  void expectEnd() const {
    if (!rest_.empty()) {
      failWire(rest_.size(), " bytes follow the end of a message");
    }
  }

 private:
  std::span<const char> take(size_t count) {
    if (count > rest_.size()) {
      failWire("a message ends ", count - rest_.size(), " bytes too early");
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const char> rest_;
};

} // namespace c10::openreg::remote

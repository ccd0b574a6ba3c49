// What a failed call throws where c10 is not: see exception.cpp.
#pragma once

#include <openreg.h>

#include <stdexcept>
#include <string>

namespace openreg::testing {

struct DriverError : std::runtime_error {
  DriverError(orError_t code, const std::string& what)
      : std::runtime_error(what), status(code) {}

  const orError_t status;
};

/// The code of the DriverError that a call throws; orSuccess if it throws none.
template <class Call>
orError_t statusOf(Call&& call) {
  try {
    call();
  } catch (const DriverError& error) {
    return error.status;
  }
  return orSuccess;
}

} // namespace openreg::testing

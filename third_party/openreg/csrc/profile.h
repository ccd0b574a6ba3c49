// What devices can pose as.
#pragma once

#include "openreg/device.h"

#include <string>
#include <string_view>

namespace openreg {

/// The properties of a named profile, without the uuid; nullptr if there is no
/// such profile. The empty name gives the plain device.
const orDeviceProp* findProfile(std::string_view name);

/// The names of all profiles, for messages: "a100, h100, ...".
std::string profileNames();

} // namespace openreg

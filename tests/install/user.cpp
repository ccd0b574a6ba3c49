// Uses all three layers: our headers, the device's and torch's.
#include <openreg.h>
#include <torch_openreg/runtime/OpenRegFunctions.h>

#include <c10/core/Device.h>

#include <iostream>

int main() {
  int count = 0;
  if (orGetDeviceCount(&count) != orSuccess) {
    return 1;
  }
  const c10::Device last(
      c10::DeviceType::PrivateUse1,
      static_cast<c10::DeviceIndex>(c10::openreg::device_count() - 1));
  std::cout << count << " devices, the last is " << last.str() << "\n";
}

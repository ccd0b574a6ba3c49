#include "profile.h"

#include "config.h"

namespace openreg {
namespace {

struct Profile {
  const char* name;
  orDeviceProp properties;
};

struct Clocks {
  int megahertz;
  int memoryMegahertz;
  int memoryBits;
};

constexpr orDeviceProp device(
    const char* name,
    size_t memory,
    int major,
    int minor,
    int processors,
    size_t l2CacheSize,
    size_t sharedMemory,
    Clocks clocks,
    int threadsPerProcessor = 2048,
    int warpSize = 32) {
  orDeviceProp properties{};
  for (size_t i = 0; name[i]; ++i) {
    properties.name[i] = name[i];
  }
  properties.totalGlobalMem = memory;
  properties.major = major;
  properties.minor = minor;
  properties.multiProcessorCount = processors;
  properties.warpSize = warpSize;
  properties.maxThreadsPerBlock = 1024;
  properties.maxThreadsPerMultiProcessor = threadsPerProcessor;
  properties.regsPerMultiprocessor = 65536;
  properties.sharedMemPerBlock = 48 * kKiB;
  properties.sharedMemPerMultiprocessor = sharedMemory;
  // From capability 8.0 on the system keeps one KiB of each block's.
  properties.sharedMemPerBlockOptin =
      sharedMemory > 96 * kKiB ? sharedMemory - kKiB : sharedMemory;
  properties.clockRate = clocks.megahertz * 1000;
  properties.memoryClockRate = clocks.memoryMegahertz * 1000;
  properties.memoryBusWidth = clocks.memoryBits;
  properties.l2CacheSize = l2CacheSize;
  return properties;
}

// Memory is what the vendor's runtime reports as total, which is a little less
// than the number on the box.
constexpr Profile kProfiles[] = {
    {"",
     device(
         "OpenReg",
         16 * kGiB,
         1,
         0,
         16,
         4 * kMiB,
         64 * kKiB,
         {1980, 1000, 128})},
    {"a100",
     device(
         "NVIDIA A100-SXM4-80GB",
         81153 * kMiB,
         8,
         0,
         108,
         40 * kMiB,
         164 * kKiB,
         {1410, 1593, 5120})},
    {"h100",
     device(
         "NVIDIA H100 80GB HBM3",
         81090 * kMiB,
         9,
         0,
         132,
         50 * kMiB,
         228 * kKiB,
         {1980, 2619, 5120})},
    {"h200",
     device(
         "NVIDIA H200",
         143156 * kMiB,
         9,
         0,
         132,
         60 * kMiB,
         228 * kKiB,
         {1980, 3201, 6144})},
    {"l4",
     device(
         "NVIDIA L4",
         22563 * kMiB,
         8,
         9,
         58,
         48 * kMiB,
         100 * kKiB,
         {2040, 6251, 192},
         1536)},
    {"mi300x",
     device(
         "AMD Instinct MI300X",
         196592 * kMiB,
         9,
         4,
         304,
         4 * kMiB,
         64 * kKiB,
         {2100, 1300, 8192},
         2048,
         64)},
    {"rtx4090",
     device(
         "NVIDIA GeForce RTX 4090",
         24080 * kMiB,
         8,
         9,
         128,
         72 * kMiB,
         100 * kKiB,
         {2520, 10501, 384},
         1536)},
    // The plain device with the capability that programs for CUDA look for.
    {"sm80",
     device(
         "OpenReg",
         16 * kGiB,
         8,
         0,
         16,
         4 * kMiB,
         164 * kKiB,
         {1980, 1000, 128})},
    {"t4",
     device(
         "Tesla T4",
         14914 * kMiB,
         7,
         5,
         40,
         4 * kMiB,
         64 * kKiB,
         {1590, 5001, 256},
         1024)},
    {"v100",
     device(
         "Tesla V100-SXM2-16GB",
         16151 * kMiB,
         7,
         0,
         80,
         6 * kMiB,
         96 * kKiB,
         {1530, 877, 4096})},
};

} // namespace

const orDeviceProp* findProfile(std::string_view name) {
  for (const Profile& profile : kProfiles) {
    if (profile.name == name) {
      return &profile.properties;
    }
  }
  return nullptr;
}

std::string profileNames() {
  std::string names;
  for (const Profile& profile : kProfiles) {
    if (*profile.name) {
      names += (names.empty() ? "" : ", ") + std::string(profile.name);
    }
  }
  return names;
}

} // namespace openreg

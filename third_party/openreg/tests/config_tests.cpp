// The environment variables. Each is read once, at first use, so every test
// asks a process of its own, which prints what it sees.
#include "support.h"

#include <iostream>
#include <utility>

namespace openreg::testing {
namespace {

using ::testing::ExitedWithCode;
using Variables = std::vector<std::pair<const char*, const char*>>;

void setVariables(const Variables& variables) {
  for (const auto& [name, value] : variables) {
    setenv(name, value, 1);
  }
}

std::string uuidOf(int device) {
  orDeviceProp properties{};
  orGetDeviceProperties(&properties, device);
  std::string digits;
  for (unsigned char byte : properties.uuid) {
    digits += std::to_string(byte) + '.';
  }
  return digits;
}

/// Prints "2 devices: <one word each>." or "orErrorNoDevice with 0 devices:
/// <sentence>" and ends the process.
template <class Describe>
[[noreturn]] void listDevices(const Variables& variables, Describe describe) {
  setVariables(variables);
  int count = -1;
  const orError_t status = orGetDeviceCount(&count);
  if (status == orSuccess) {
    std::cerr << count << " devices:";
    for (int device = 0; device < count; ++device) {
      std::cerr << ' ' << describe(device);
    }
    std::cerr << ';' << std::endl;
  } else {
    std::cerr << orGetErrorName(status) << " with " << count
              << " devices: " << lastDetail() << std::endl;
  }
  std::exit(0);
}

void listUuids(const Variables& variables) {
  listDevices(variables, uuidOf);
}

void listMemory(const Variables& variables) {
  listDevices(variables, [](int device) {
    size_t total = 0;
    EXPECT_EQ(orSetDevice(device), orSuccess);
    EXPECT_EQ(orMemGetInfo(nullptr, &total), orSuccess);
    return total;
  });
}

/// Expects that `value` is refused in a sentence that names it, the variable
/// and what is accepted instead.
void expectRefused(
    const char* name,
    const char* value,
    const std::string& accepted) {
  SCOPED_TRACE(std::string(name) + '=' + value);
  EXPECT_EXIT(
      listUuids({{name, value}}),
      ExitedWithCode(0),
      "orErrorInvalidConfiguration with 0 devices: .*" + std::string(name) +
          "='" + value + "'.*" + accepted);
}

TEST(DeviceCountTest, IsTwoByDefault) {
  auto body = [] {
    unsetenv("OPENREG_DEVICE_COUNT");
    listUuids({});
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "^2 devices:");
}

TEST(DeviceCountTest, IsWhatTheVariableSays) {
  for (const char* count : {"1", "3", "8"}) {
    EXPECT_EXIT(
        listUuids({{"OPENREG_DEVICE_COUNT", count}}),
        ExitedWithCode(0),
        '^' + std::string(count) + " devices:");
  }
}

TEST(DeviceCountTest, ZeroMeansThatNoDeviceIsVisible) {
  EXPECT_EXIT(
      listUuids({{"OPENREG_DEVICE_COUNT", "0"}}),
      ExitedWithCode(0),
      "^orErrorNoDevice with 0 devices: .+");
}

TEST(DeviceCountTest, OtherThanASmallNumberIsRefused) {
  for (const char* value : {"", "two", "-1", "2x", "2 ", "1e1", "1000000"}) {
    expectRefused("OPENREG_DEVICE_COUNT", value, "number");
  }
}

/// Expects `sizes` for a list of visible devices, of three with 1, 2 and 3 MiB.
void expectVisible(const char* list, const std::string& sizes) {
  SCOPED_TRACE(list);
  EXPECT_EXIT(
      listMemory(
          {{"OPENREG_DEVICE_COUNT", "3"},
           {"OPENREG_DEVICE_MEMORY", "1MiB,2MiB,3MiB"},
           {"OPENREG_VISIBLE_DEVICES", list}}),
      ExitedWithCode(0),
      '^' + sizes);
}

TEST(VisibleDevicesTest, AreSeenInTheOrderGiven) {
  expectVisible("0,1,2", "3 devices: 1048576 2097152 3145728;");
  expectVisible("2,0,1", "3 devices: 3145728 1048576 2097152;");
  expectVisible("2,1", "2 devices: 3145728 2097152;");
  expectVisible("1", "1 devices: 2097152;");
  expectVisible(" 1 , 0", "2 devices: 2097152 1048576;");
}

TEST(VisibleDevicesTest, AnIndexThatDoesNotExistEndsTheList) {
  expectVisible("1,3,0", "1 devices: 2097152;");
  expectVisible("2,0,-1,1", "2 devices: 3145728 1048576;");
  expectVisible("0,99", "1 devices: 1048576;");
}

// Forking is allowed before the first use.
TEST(VisibleDevicesTest, ADeviceKeepsItsUuidWhenItIsRenumbered) {
  auto body = [] {
    int ends[2];
    CHILD_REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
      setenv("OPENREG_VISIBLE_DEVICES", "1", 1);
      const std::string uuid = uuidOf(0);
      std::_Exit(write(ends[1], uuid.data(), uuid.size()) < 0);
    }
    close(ends[1]);
    char seen[256] = "";
    CHILD_REQUIRE(read(ends[0], seen, sizeof(seen) - 1) > 0);
    CHILD_REQUIRE(uuidOf(0) != uuidOf(1));
    return seen == uuidOf(1);
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(VisibleDevicesTest, AnEmptyListOrMinusOneHidesAllDevices) {
  for (const char* list : {"", "-1", "2", "-1,0"}) {
    EXPECT_EXIT(
        listUuids({{"OPENREG_VISIBLE_DEVICES", list}}),
        ExitedWithCode(0),
        "^orErrorNoDevice with 0 devices: .*OPENREG_VISIBLE_DEVICES");
  }
}

TEST(VisibleDevicesTest, OtherThanAListOfIndicesIsRefused) {
  for (const char* list : {"all", "0;1", "0,", ",0", "0,x", "0 1", "1.5"}) {
    expectRefused("OPENREG_VISIBLE_DEVICES", list, "list of device ind");
  }
  expectRefused("OPENREG_VISIBLE_DEVICES", "0,1,0", "twice");
}

// Which calls need a device, a handful standing for all.
std::vector<orError_t> usesOfADevice() {
  void* memory = nullptr;
  orStream_t stream = nullptr;
  int device = 0;
  return {
      orSetDevice(0),
      orGetDevice(&device),
      orMalloc(&memory, 1),
      orStreamCreate(&stream),
      orDeviceGetDefaultStream(&stream, 0),
      orDeviceSynchronize(),
      orMemGetInfo(nullptr, nullptr),
  };
}

TEST(ConfigTest, WithoutADeviceWhatUsesOneSaysSo) {
  auto body = [] {
    setenv("OPENREG_DEVICE_COUNT", "0", 1);
    for (orError_t status : usesOfADevice()) {
      CHILD_REQUIRE(status == orErrorNoDevice);
    }
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ConfigTest, WithAMalformedVariableWhatUsesADeviceSaysSo) {
  auto body = [] {
    setenv("OPENREG_SEED", "dandelion", 1);
    for (orError_t status : usesOfADevice()) {
      CHILD_REQUIRE(status == orErrorInvalidConfiguration);
      CHILD_REQUIRE(detailHas("OPENREG_SEED='dandelion'"));
    }
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(ConfigTest, VariablesAreReadOnce) {
  auto body = [] {
    int before = 0;
    int after = 0;
    CHILD_REQUIRE(orGetDeviceCount(&before) == orSuccess);
    setenv("OPENREG_DEVICE_COUNT", "7", 1);
    CHILD_REQUIRE(orGetDeviceCount(&after) == orSuccess);
    return after == before;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(DeviceMemoryTest, IsSixteenGibibytesByDefault) {
  auto body = [] {
    unsetenv("OPENREG_DEVICE_MEMORY");
    listMemory({{"OPENREG_DEVICE_COUNT", "1"}});
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "^1 devices: 17179869184;");
}

TEST(DeviceMemoryTest, IsWhatTheVariableSaysInAnyUnit) {
  const std::pair<const char*, const char*> sizes[] = {
      {"8192", "8192"},
      {"64KiB", "65536"},
      {"3MiB", "3145728"},
      {"16GiB", "17179869184"},
      {"0.5GiB", "536870912"},
      {"1TiB", "1099511627776"},
  };
  for (const auto& [value, bytes] : sizes) {
    const std::string size = bytes;
    EXPECT_EXIT(
        listMemory({{"OPENREG_DEVICE_MEMORY", value}}),
        ExitedWithCode(0),
        "^2 devices: " + size + ' ' + size + ';');
  }
}

TEST(DeviceMemoryTest, MayDifferFromDeviceToDevice) {
  EXPECT_EXIT(
      listMemory(
          {{"OPENREG_DEVICE_COUNT", "3"},
           {"OPENREG_DEVICE_MEMORY", "1MiB,4096,2MiB"}}),
      ExitedWithCode(0),
      "^3 devices: 1048576 4096 2097152;");
}

TEST(DeviceMemoryTest, OtherThanASizeIsRefused) {
  for (const char* value :
       {"",
        "lots",
        "-1",
        "0",
        "1GB",
        "GiB",
        "1 GiB",
        "9999TiB",
        "inf",
        "nan"}) {
    expectRefused("OPENREG_DEVICE_MEMORY", value, "16GiB");
  }
  expectRefused("OPENREG_DEVICE_MEMORY", "1GiB,", "16GiB");
}

TEST(DeviceMemoryTest, AListNeedsOneSizeForEachDevice) {
  EXPECT_EXIT(
      listMemory(
          {{"OPENREG_DEVICE_COUNT", "3"},
           {"OPENREG_DEVICE_MEMORY", "1MiB,2MiB"}}),
      ExitedWithCode(0),
      "^orErrorInvalidConfiguration with 0 devices: "
      ".*OPENREG_DEVICE_MEMORY='1MiB,2MiB'.* 3 ");
}

void listNames(const Variables& variables) {
  listDevices(variables, [](int device) {
    orDeviceProp p{};
    EXPECT_EQ(orGetDeviceProperties(&p, device), orSuccess);
    return std::string(p.name) + " " + std::to_string(p.major) + "." +
        std::to_string(p.minor) + " " + std::to_string(p.totalGlobalMem >> 30) +
        "GiB";
  });
}

TEST(DeviceProfileTest, PosesAsANamedDevice) {
  EXPECT_EXIT(
      listNames(
          {{"OPENREG_DEVICE_COUNT", "1"}, {"OPENREG_DEVICE_PROFILE", "h100"}}),
      ExitedWithCode(0),
      "^1 devices: .*H100.* 9\\.0 79GiB;");
}

TEST(DeviceProfileTest, MemoryCanStillBeChosen) {
  EXPECT_EXIT(
      listNames(
          {{"OPENREG_DEVICE_COUNT", "1"},
           {"OPENREG_DEVICE_MEMORY", "3GiB"},
           {"OPENREG_DEVICE_PROFILE", "a100"}}),
      ExitedWithCode(0),
      "^1 devices: .*A100.* 8\\.0 3GiB;");
}

TEST(DeviceProfileTest, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  expectRefused("OPENREG_DEVICE_PROFILE", "abacus", "a100, .*h100");
}

} // namespace
} // namespace openreg::testing

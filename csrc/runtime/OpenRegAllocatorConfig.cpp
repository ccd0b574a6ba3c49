#include "runtime/OpenRegAllocatorConfig.h"

#include "runtime/OpenRegDeviceType.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <string>
#include <unordered_set>

namespace c10::openreg {

using CachingAllocator::AcceleratorAllocatorConfig;
using CachingAllocator::ConfigTokenizer;

PoolConfig poolConfig() {
  using Config = AcceleratorAllocatorConfig;
  PoolConfig config;
  config.maxSplitSize = Config::max_split_size();
  config.maxNonSplitRounding = Config::max_non_split_rounding_size();
  config.largeSegmentSize = Config::large_segment_size();
  config.garbageCollectionThreshold = Config::garbage_collection_threshold();
  config.expandableSegments = Config::use_expandable_segments();
  const auto& divisions = Config::roundup_power2_divisions();
  std::copy_n(
      divisions.begin(),
      std::min(divisions.size(), config.roundupPower2Divisions.size()),
      config.roundupPower2Divisions.begin());
  return config;
}

namespace {

// Settings of CUDA's allocator that have no effect here, so that a program's variable
// is accepted unchanged. Those that PyTorch knows for all devices must not be listed
// again.
std::unordered_set<std::string> keysOfCuda() {
  std::unordered_set<std::string> keys{
      "backend",
      "graph_capture_record_stream_reuse",
      "per_process_memory_fraction",
      "pinned_num_register_threads",
      "pinned_reserve_segment_size_mb",
      "pinned_use_cuda_host_register",
      "release_lock_on_cudamalloc",
  };
  std::erase_if(keys, [](const std::string& key) {
    return AcceleratorAllocatorConfig::getKeys().contains(key);
  });
  return keys;
}

// PyTorch reads the settings that all devices share; a backend looks for mistakes.
void checkKeys(const std::string& settings) {
  const ConfigTokenizer tokens(settings);
  for (size_t i = 0; i < tokens.size(); ++i) {
    TORCH_CHECK_VALUE(
        AcceleratorAllocatorConfig::getKeys().contains(tokens[i]),
        "Unrecognized key '",
        tokens[i],
        "' in ",
        deviceTitle(),
        " allocator config.");
    i = tokens.skipKey(i);
    if (i + 1 < tokens.size()) {
      tokens.checkToken(++i, ",");
    }
  }
}

const CachingAllocator::DeviceConfigParserHookRegistry registerHook(
    &checkKeys,
    keysOfCuda());

} // namespace
} // namespace c10::openreg

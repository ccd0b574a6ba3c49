/** Virtual memory: address ranges, and memory that is mapped into them.
 *
 * A range of addresses is reserved once and can then be filled and emptied piece
 * by piece, so that what is in it can grow without moving. Memory takes part of
 * the device's capacity from orMemCreate() until it is both released and
 * unmapped. Sizes, and distances from the start of a range, are multiples of
 * OPENREG_MEM_GRANULARITY. A device has eight times as many addresses as memory, or
 * twice as many if the devices are so large that eight times do not fit.
 *
 * orPointerGetAttributes(), orMemGetAddressRange(), copies and the like treat
 * accessible memory as any other: mapped pieces that touch, and that are accessible,
 * count as one allocation.
 *
 * Unlike CUDA's, memory is mapped once: at one place, and never again after it
 * was unmapped. Its address belongs to the device that was current when the range
 * was reserved. */
#ifndef OPENREG_VIRTUAL_MEMORY_H_
#define OPENREG_VIRTUAL_MEMORY_H_

#include "error.h"

#define OPENREG_MEM_GRANULARITY ((size_t)2 << 20)

/** Memory of a device, without an address. */
typedef struct orMemAllocation* orMemHandle_t;

typedef enum orMemAccess OPENREG_INT {
  orMemAccessNone = 0,
  orMemAccessReadWrite = 3
} orMemAccess;

/**
 * Reserve addresses of the current device. They take no memory.
 *
 * @param[out] pointer  first address, aligned to a page; NULL if the call fails
 * @param[in]  size     bytes
 *
 * @retval orSuccess                `pointer` is set
 * @retval orErrorInvalidValue      `pointer` is NULL, or `size` is 0 or not a
 *                                  multiple of OPENREG_MEM_GRANULARITY
 * @retval orErrorMemoryAllocation  the device has no such range left
 * @retval the device's error       a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cuMemAddressReserve.
 */
OPENREG_EXPORT orError_t orMemAddressReserve(void** pointer, size_t size);

/**
 * Give a range of addresses back.
 *
 * @param[in] pointer  what orMemAddressReserve() returned
 * @param[in] size     its size
 *
 * @retval orSuccess            the addresses are free
 * @retval orErrorInvalidValue  no range starts at `pointer`, `size` is not its
 *                              size, or memory is mapped into it
 *
 * Threads: any. Blocks: never. CUDA twin: cuMemAddressFree.
 */
OPENREG_EXPORT orError_t orMemAddressFree(void* pointer, size_t size);

/**
 * Make memory of the current device, to be mapped.
 *
 * @param[out] handle  the memory; NULL if the call fails
 * @param[in]  size    bytes
 *
 * @retval orSuccess                `handle` is set
 * @retval orErrorInvalidValue      `handle` is NULL, or `size` is 0 or not a
 *                                  multiple of OPENREG_MEM_GRANULARITY
 * @retval orErrorMemoryAllocation  the device does not have that much free memory
 * @retval the device's error       a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cuMemCreate.
 */
OPENREG_EXPORT orError_t orMemCreate(orMemHandle_t* handle, size_t size);

/**
 * Map memory. It cannot be used before orMemSetAccess().
 *
 * @param[in] pointer  first address
 * @param[in] size     the size of the memory
 * @param[in] handle   the memory
 *
 * @retval orSuccess             the memory is mapped
 * @retval orErrorInvalidValue   `size` is not the memory's, or the addresses are
 *                               not in one reserved range of its device, not a
 *                               multiple of OPENREG_MEM_GRANULARITY from its
 *                               start, or not free
 * @retval orErrorInvalidHandle  `handle` names nothing, or was released
 * @retval orErrorNotPermitted   the memory was mapped before
 *
 * Threads: any. Blocks: never. CUDA twin: cuMemMap.
 */
OPENREG_EXPORT orError_t
orMemMap(void* pointer, size_t size, orMemHandle_t handle);

/**
 * Say whether mapped memory can be used. Kernels that are already running are not
 * stopped.
 *
 * @param[in] pointer  first address
 * @param[in] size     bytes
 * @param[in] access   orMemAccessNone or orMemAccessReadWrite
 *
 * @retval orSuccess            it is so
 * @retval orErrorInvalidValue  `access` is neither, or the addresses are not
 *                              those of whole pieces of memory, side by side
 *
 * Threads: any. Blocks: never. CUDA twin: cuMemSetAccess.
 */
OPENREG_EXPORT orError_t
orMemSetAccess(void* pointer, size_t size, orMemAccess access);

/**
 * Unmap memory, after waiting for all work of its device. What it held is lost.
 *
 * @param[in] pointer  first address
 * @param[in] size     bytes
 *
 * @retval orSuccess            the addresses are reserved, and free
 * @retval orErrorInvalidValue  the addresses are not those of whole pieces of
 *                              memory, side by side
 * @retval orErrorNotPermitted  called from a kernel or a host function
 * @retval orErrorTimeout       work took longer than OPENREG_WAIT_TIMEOUT
 * @retval the device's error   a kernel failed
 *
 * Threads: any. Blocks: while the device is busy. CUDA twin: cuMemUnmap.
 */
OPENREG_EXPORT orError_t orMemUnmap(void* pointer, size_t size);

/**
 * Give memory back: at once, or when it is unmapped.
 *
 * @param[in] handle  the memory
 *
 * @retval orSuccess             `handle` is invalid from now on
 * @retval orErrorInvalidHandle  `handle` names nothing, or was released before
 *
 * Threads: any. Blocks: never. CUDA twin: cuMemRelease.
 */
OPENREG_EXPORT orError_t orMemRelease(orMemHandle_t handle);

#endif /* OPENREG_VIRTUAL_MEMORY_H_ */

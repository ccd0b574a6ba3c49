/** Fault plans: failures on purpose, at places that can be named and repeated. */
#ifndef OPENREG_FAULT_H_
#define OPENREG_FAULT_H_

#include "stream.h"

/** The sites: the only places at which a plan is asked. */
typedef enum orFaultSite OPENREG_INT {
  orFaultSiteAlloc = 0, /* an allocation of device memory */
  orFaultSiteLaunch = 1, /* a kernel, a set or a graph enters its stream */
  orFaultSiteCopy = 2, /* a copy enters its stream */
  orFaultSiteCapture = 3, /* a capture begins */
  orFaultSiteCollective = 4 /* a rank joins a collective */
} orFaultSite;

/** What happens there. */
typedef enum orFaultKind OPENREG_INT {
  orFaultNone = 0,
  orFaultOom = 1, /* the allocation fails */
  orFaultError = 2, /* the work fails when it runs; a capture is invalidated */
  orFaultLost = 3, /* the device is lost, as by orDeviceFail() */
  orFaultSlow = 4, /* the work starts later */
  orFaultFlip = 5, /* a bit of what the work wrote is flipped */
  orFaultDropRank = 6 /* the process of a rank ends */
} orFaultKind;

/** What a plan has decided for one place. */
typedef struct orFault {
  orFaultKind kind; /* never orFaultSlow: that is `delay` */
  unsigned long long delay; /* nanoseconds; may come with any kind */
  unsigned long long random; /* drawn from the plan's seed */
  char rule[96]; /* the rule that decided it, for messages */
} orFault;

/** Bytes that work writes. */
typedef struct orFaultRange {
  void* pointer;
  size_t bytes;
} orFaultRange;

/**
 * Put a fault plan into force, in the place of the one before. Its counts begin at 0.
 *
 * A plan is a list of rules, separated by semicolons:
 *
 *     oom@alloc:37; error@op:scale:5; lost@launch:1000; slow@copy:*:10ms; seed=7
 *
 * A rule is `KIND@SITE:WHEN`, or `KIND@op:NAME:WHEN` for launches with that name, or
 * with that name, a dot and more.
 *
 * - KIND is `oom`, `error` (also written `kernel-error`), `lost`, `slow`, `flip` or
 *   `drop-rank:RANK`.
 * - SITE is `alloc` (for `oom` and `lost`), `launch`, `op:NAME` or `copy` (for `error`,
 *   `lost`, `slow` and `flip`), `capture` (for `error` and `lost`), or `collective` (for
 *   `error`, `lost`, `slow` and `drop-rank`).
 * - WHEN is the number of the place, counted from 1 over all threads since the plan came
 *   into force; `*` for each one; or `5%` for about that share, drawn from the seed.
 * - `slow` needs a duration at the end, such as `10ms`; its units are `ns`, `us`, `ms`
 *   and `s`, and it may be up to 60 s.
 * - `:device=1` at the very end makes a rule count and hit the places of one device only.
 * - `seed=7` sets the seed of `flip` and `%`. Default: OPENREG_SEED.
 *
 * If several rules apply to one place, all delays are added, and of the other kinds the
 * first in the plan counts. A plan without rules fires nothing and counts the places.
 * The plan is not asked about work that is captured, nor about the nodes of a graph, but
 * about the graph's launch. While a plan is in force, a launch with orLaunchTry is refused.
 *
 * @param[in] text  the plan
 *
 * @retval orSuccess            it is in force
 * @retval orErrorInvalidValue  `text` is NULL or malformed; the sentence names the
 *                              part that is not understood and what is accepted
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orFaultPlan(const char* text);

/**
 * Take the plan out of force, if there is one. Its counts stay.
 *
 * @retval orSuccess  there is none
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orFaultClear(void);

/**
 * Tell how often a kind of fault has happened under the latest plan, or how often that
 * plan was asked at a site.
 *
 * @param[in]  kind   `oom`, `error`, `kernel-error`, `lost`, `slow`, `flip` or
 *                    `drop-rank`; or a site: `alloc`, `launch`, `copy`, `capture` or
 *                    `collective`
 * @param[out] count  how often
 *
 * @retval orSuccess            `count` is set
 * @retval orErrorInvalidValue  `count` or `kind` is NULL, or `kind` is none of these
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t
orFaultCount(const char* kind, unsigned long long* count);

/**
 * Ask the plan about a place that the library cannot see: an allocation from memory
 * that a caller manages itself, or a collective. The caller then does what the answer
 * says. The library asks at its own allocations, launches, copies and captures.
 *
 * @param[in]  site    where
 * @param[in]  name    of the operation, or NULL
 * @param[in]  device  whose place it is, or -1
 * @param[in]  rank    of the calling process in a collective, or -1
 * @param[out] fault   what is to happen; without a plan, nothing
 *
 * @retval orSuccess            `fault` is set
 * @retval orErrorInvalidValue  `fault` is NULL, or `site` is not in the enumeration
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orFaultAsk(
    orFaultSite site,
    const char* name,
    int device,
    int rank,
    orFault* fault);

/**
 * Flip the bit that a plan has decided on for the calling thread's last launch or copy,
 * after that work, in one of the ranges that it writes. Only the launcher knows them.
 * Does nothing if no flip is due.
 *
 * @param[in] ranges  device memory, or host memory; may be NULL if `count` is 0
 * @param[in] count   how many
 * @param[in] stream  where the work was launched
 *
 * @retval orSuccess             the bit is flipped after the work, or none is due
 * @retval orErrorInvalidHandle  a flip is due and `stream` is NULL or destroyed
 * @retval orErrorInvalidValue   a flip is due, and `ranges` is NULL with a `count` that
 *                               is not 0
 * @retval orErrorNotPermitted   called from a kernel or a host function for host memory,
 *                               or of this very stream while its queue is full
 * @retval orErrorTimeout        as for orMemcpyAsync()
 * @retval the device's error    a kernel failed
 *
 * Threads: any. Blocks: while the queue is full, and if the bit is in host memory until
 * it is flipped. CUDA twin: none.
 */
OPENREG_EXPORT orError_t
orFaultFlipOutput(const orFaultRange* ranges, size_t count, orStream_t stream);

/**
 * Set whether plans apply to what the calling thread does, and tell whether they did.
 * For allocations and launches that are part of a larger place, which has been asked
 * about as a whole.
 *
 * @param[in,out] enabled  0 or 1; becomes the setting before
 *
 * @retval orSuccess            the setting is exchanged
 * @retval orErrorInvalidValue  `enabled` is NULL, or neither 0 nor 1
 *
 * Threads: any; each has a setting of its own, 1 at first. Blocks: never. CUDA twin:
 * none.
 */
OPENREG_EXPORT orError_t orThreadExchangeFaults(int* enabled);

/**
 * Give the address of a word that is 1 while a plan is in force, and 0 otherwise: for
 * callers of orFaultAsk() and orFaultFlipOutput() that cannot afford a call when there
 * is no plan. It is to be read atomically; no order is needed. The call does not start the
 * device, so it may come before main().
 *
 * @param[out] flag  the address, which is good for as long as the process lives
 *
 * @retval orSuccess            `flag` is set
 * @retval orErrorInvalidValue  `flag` is NULL
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orFaultGetFlag(const int** flag);

#endif /* OPENREG_FAULT_H_ */

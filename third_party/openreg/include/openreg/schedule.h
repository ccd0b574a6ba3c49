/** Schedules: when queued work may run, to be changed while the process runs. */
#ifndef OPENREG_SCHEDULE_H_
#define OPENREG_SCHEDULE_H_

#include "export.h"
#include "error.h"

#include <stddef.h>

/** The values of OPENREG_SCHEDULE, which sets the schedule at the start. */
typedef enum orSchedule OPENREG_INT {
  orScheduleAuto = 0, /* at once; small work perhaps on the calling thread */
  orScheduleAsync = 1, /* at once, always on the stream's thread */
  orScheduleAdversarial = 2 /* as late as synchronisation allows */
} orSchedule;

/** A task that the adversarial schedule decided about. */
typedef struct orScheduledTask {
  const char* name; /* never freed */
  unsigned long long stream; /* as orStreamGetId() */
  int device;
} orScheduledTask;

/**
 * Change the schedule, after all devices have finished their work.
 *
 * The adversarial schedule numbers the tasks that are queued after this call, in order
 * and from 0 on, and holds each back until something waits for it. With `delays`
 * it holds back only those with the numbers in the list; the others run in the order of
 * their numbers. So a program that fails under it can be run again with fewer delays.
 *
 * @param[in] schedule  one of the enumeration
 * @param[in] seed      decides what the adversarial schedule chooses
 * @param[in] delays    numbers of tasks, or NULL for all
 * @param[in] count     of `delays`
 *
 * @retval orSuccess            the schedule is changed
 * @retval orErrorInvalidValue  `schedule` is not in the enumeration, or there are
 *                              `delays` and it is not the adversarial one
 * @retval orErrorNotPermitted  called from a kernel or a host function
 * @retval orErrorTimeout       work took longer than OPENREG_WAIT_TIMEOUT
 * @retval the capture's error  unsafe while a stream is capturing
 *
 * Threads: any; work that other threads queue meanwhile runs under either schedule.
 * Blocks: until the devices are idle. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orScheduleSet(
    orSchedule schedule,
    unsigned long long seed,
    const unsigned long long* delays,
    size_t count);

/**
 * Tell the schedule and its seed.
 *
 * @param[out] schedule  the schedule
 * @param[out] seed      its seed
 *
 * @retval orSuccess            both are set
 * @retval orErrorInvalidValue  `schedule` or `seed` is NULL
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t
orScheduleGet(orSchedule* schedule, unsigned long long* seed);

/**
 * Tell which tasks the adversarial schedule has numbered since orScheduleSet(): the
 * first is number 0. At most 65536 are kept.
 *
 * @param[out]    tasks  room for `count` of them; may be NULL if `count` is 0
 * @param[in,out] count  how many there is room for; becomes how many there are
 *
 * @retval orSuccess            as many as there is room for are written
 * @retval orErrorInvalidValue  `count` is NULL, or `tasks` is NULL with room for some
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t
orScheduleGetTasks(orScheduledTask* tasks, size_t* count);

#endif /* OPENREG_SCHEDULE_H_ */

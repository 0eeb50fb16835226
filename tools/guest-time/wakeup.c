// wakeup.c: waking a thread takes time. What another core's idle state, the message to it and the scheduler take, a machine of QEMU's does in no time; so this
// module puts off try_to_wake_up() of a sleeping worker (worker_ns) or job (job_ns, a process whose name begins with `mmcq`) by a timer, and the
// CPU is free meanwhile. Its own code costs about a microsecond of the guest. address: that of try_to_wake_up, from /proc/kallsyms.
// For `mmcq guest` alone, Linux 6.1.
#include <linux/ftrace.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/task.h>

#define WAITING 64

static unsigned long address, worker_ns, job_ns, workers, jobs, missed;
module_param(address, ulong, 0444);
module_param(worker_ns, ulong, 0644);
module_param(job_ns, ulong, 0644);
module_param(workers, ulong, 0444);
module_param(jobs, ulong, 0444);
module_param(missed, ulong, 0444);

struct waiting {
	struct hrtimer timer;
	struct task_struct *task;
	unsigned int state;
	int flags;
};
static struct waiting waiting[WAITING];
static DEFINE_RAW_SPINLOCK(lock);

typedef int (*wake_fn)(struct task_struct *task, unsigned int state, int flags);

/* Not a tail call: the hook knows its own calls by where they come from. */
static noinline int wake(struct task_struct *task, unsigned int state, int flags)
{
	int woken = ((wake_fn)address)(task, state, flags);

	barrier();
	return woken;
}

static enum hrtimer_restart due(struct hrtimer *timer)
{
	struct waiting *place = container_of(timer, struct waiting, timer);
	struct waiting now;
	unsigned long irq;

	raw_spin_lock_irqsave(&lock, irq);
	now.task = place->task;
	now.state = place->state;
	now.flags = place->flags;
	place->task = NULL;
	raw_spin_unlock_irqrestore(&lock, irq);
	wake(now.task, now.state, now.flags);
	put_task_struct(now.task);
	return HRTIMER_NORESTART;
}

static unsigned long delay_of(struct task_struct *task)
{
	if (task->flags & PF_WQ_WORKER)
		return worker_ns;
	return memcmp(task->comm, "mmcq", 4) ? 0 : job_ns;
}

/* In the place of try_to_wake_up(). */
static noinline int late(struct task_struct *task, unsigned int state, int flags)
{
	unsigned long irq, delay = delay_of(task);
	struct waiting *place = NULL;
	int i, woken;

	if (!delay || task == current || task->on_rq || !(READ_ONCE(task->__state) & state))
		goto at_once;
	raw_spin_lock_irqsave(&lock, irq);
	for (i = 0; i < WAITING; i++) {
		if (waiting[i].task == task) {
			/* It is on its way already. */
			raw_spin_unlock_irqrestore(&lock, irq);
			return 0;
		}
		if (!place && !waiting[i].task)
			place = &waiting[i];
	}
	if (place) {
		get_task_struct(task);
		place->task = task;
		place->state = state;
		place->flags = flags;
		if (task->flags & PF_WQ_WORKER)
			workers++;
		else
			jobs++;
	} else {
		missed++;
	}
	raw_spin_unlock_irqrestore(&lock, irq);
	if (!place)
		goto at_once;
	hrtimer_start(&place->timer, ns_to_ktime(delay), HRTIMER_MODE_REL_HARD);
	return 1;
at_once:
	woken = wake(task, state, flags);
	barrier();
	return woken;
}

static void notrace entered(unsigned long ip, unsigned long parent, struct ftrace_ops *ops, struct ftrace_regs *registers)
{
	if (!within_module(parent, THIS_MODULE))
		ftrace_instruction_pointer_set(registers, (unsigned long)late);
}

static struct ftrace_ops ops = {
	.func = entered,
	.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION,
};

static int __init begin(void)
{
	int i, error;

	if (!address)
		return -EINVAL;
	for (i = 0; i < WAITING; i++) {
		hrtimer_init(&waiting[i].timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
		waiting[i].timer.function = due;
	}
	error = ftrace_set_filter_ip(&ops, address, 0, 0);
	return error ? error : register_ftrace_function(&ops);
}
/* No exit: wake-ups may be under way. */
module_init(begin);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Waking a thread takes time");

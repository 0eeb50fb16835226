// plugin.c: puts the laboratory's controller and card into QEMU, in the place of the registers of QEMU's own sdhci-pci, and moves them by the guest's clock.
// Built by tools/guest-parts.sh, loaded by `mmcq guest`. Licence: MIT OR Apache-2.0; loaded into QEMU it is used under MIT, which goes with QEMU's GPL-2.0.
//
// QEMU has no interface for such a plugin. What it uses of QEMU's inside is declared here, and belongs to one version: `mmcq guest` compares
// that, QEMU the version of its plugins, and burn() looks whether time moves as it should.
//
// A register access and the way of an interrupt to the CPU take time, which `read`, `write` and `irq` say in nanoseconds. One instruction takes 1 << `shift` ns
// (as -icount has it). QEMU's device has 256 bytes of registers. All of the model's, those of a queue engine too, are also at the address WINDOW of
// the machine, where nothing else is. A guest that writes to the register 0xf0, which no controller of the standard has, puts a mark into the file `counters`.
#include "mmcq_sim.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 7;

// QEMU's inside.
typedef uint64_t hwaddr;
typedef struct {
  uint64_t (*read)(void *opaque, hwaddr at, unsigned bytes);
  void (*write)(void *opaque, hwaddr at, uint64_t value, unsigned bytes);
  void *with_attributes[2];
  int endianness;
  struct {
    unsigned min, max;
    bool unaligned;
    void *accepts;
  } valid;
  struct {
    unsigned min, max;
    bool unaligned;
  } impl;
} RegionOps;
enum { LITTLE_ENDIAN_DEVICE = 2, CLOCK_REALTIME_QEMU = 0, CLOCK_VIRTUAL_QEMU = 1, NANOSECONDS = 1 };
extern void *object_resolve_path(const char *path, bool *ambiguous);
extern void memory_region_init_io(void *region, void *owner, const RegionOps *ops, void *opaque, const char *name, uint64_t size);
extern void memory_region_add_subregion_overlap(void *region, hwaddr at, void *inner, int priority);
extern void timer_init_full(void *timer, void *lists, int clock, int scale, int attributes, void (*callback)(void *), void *opaque);
extern void timer_mod_ns(void *timer, int64_t at);
extern void timer_del(void *timer);
extern int64_t qemu_clock_get_ns(int clock);
extern void pci_set_irq(void *device, int level);
extern void *get_system_memory(void);
extern char address_space_memory[];
extern int address_space_rw(void *space, hwaddr at, uint64_t attributes, void *bytes, hwaddr count, bool write);
extern void vm_start(void);
extern void *qemu_get_cpu(int index);
extern bool all_cpu_threads_idle(void);
extern void bql_lock_impl(const char *file, int line);
extern void bql_unlock(void);
extern int64_t icount_get_raw(void);
typedef struct Notifier {
  void (*notify)(struct Notifier *notifier, void *data);
  void *links[2];
} Notifier;
extern void main_loop_poll_add_notifier(Notifier *notifier);
enum { POLL_FILL = 0 };
extern __thread char *current_cpu;
// Where a PCI device has the pointer to its configuration space, of Debian's 11.1.3.
enum { PCI_CONFIG = 0xa8 };
extern void pci_register_bar(void *device, int number, uint8_t type, void *region);
// In a CPU's state, of Debian's 11.1.3: what icount_update() subtracts from the budget to know how many instructions have run.
// The budget is 0 while a CPU does not run.
enum { ICOUNT_BUDGET = 0xd8, ICOUNT_EXTRA = 0xe0, ICOUNT_LOW = 0x405c };

// The laboratory's library is opened by name.
static struct {
  mmcq_sim *(*new)(const char *, const char *, const char *, mmcq_sim_dma *, void *, char *, size_t);
  int (*free)(mmcq_sim *);
  int (*schedule)(mmcq_sim *, const char *, char *, size_t);
  void (*begin)(mmcq_sim *, uint64_t);
  uint32_t (*read)(mmcq_sim *, uint16_t, uint8_t, uint64_t);
  void (*write)(mmcq_sim *, uint16_t, uint8_t, uint32_t, uint64_t);
  void (*advance)(mmcq_sim *, uint64_t);
  uint64_t (*next_event)(mmcq_sim *);
  int (*interrupt)(mmcq_sim *);
  uint64_t (*violations)(mmcq_sim *);
  uint64_t (*commands)(mmcq_sim *);
} lab;

static const char *library = "", *platform = "generic", *card = "", *bus_log = "", *counters = "", *schedule = "";
static const char *device_path = "/machine/peripheral/slot";
static const char *kind = "sdhci";
static int64_t read_ns, write_ns, irq_ns, shift;
// A mark of BEGIN also begins the schedule.
enum { MARK = 0xf0, BEGIN = 3, CPUS = 8, BAR_BYTES = 256, WINDOW_BYTES = 4096 };
#define WINDOW UINT64_C(0xfed80000)

// Their sizes are QEMU's affair: these are larger.
static char region[8192] __attribute__((aligned(64))), window[8192] __attribute__((aligned(64))), event[512] __attribute__((aligned(64)));
static char late[512] __attribute__((aligned(64))), begin[512] __attribute__((aligned(64)));
static mmcq_sim *sim;
static void *device;
static int level;
static uint64_t reads, writes, interrupts, burnt;
static FILE *counters_file;
static char *cpus[CPUS];

static void die(const char *what) {
  fprintf(stderr, "guest-time: %s\n", what);
  _Exit(3);
}

static int64_t guest_now(void) { return qemu_clock_get_ns(CLOCK_VIRTUAL_QEMU); }
static int dma(void *opaque, uint64_t at, void *bytes, size_t count, int to_memory) {
  (void)opaque;
  return address_space_rw(address_space_memory, at, 1, bytes, count, to_memory != 0);
}

static void raise(void *opaque) {
  (void)opaque;
  if (level) pci_set_irq(device, 1);
}

// The model's interrupt and its next event become QEMU's. The line falls at once; it rises after its way.
static void settle(void) {
  int now = lab.interrupt(sim);
  if (now != level) {
    level = now;
    interrupts += now;
    if (now && irq_ns) {
      timer_mod_ns(late, guest_now() + irq_ns);
    } else {
      if (irq_ns) timer_del(late);
      pci_set_irq(device, now);
    }
  }
  uint64_t next = lab.next_event(sim);
  if (next == UINT64_MAX) timer_del(event);
  else timer_mod_ns(event, next);
}

// A register access takes the CPU's time: the instructions that it may run before the next deadline are fewer by that. What a deadline cuts off is owed to
// the next access.
static void burn(int64_t ns) {
  static int64_t owed;
  if (!ns || !current_cpu) return;
  owed += ns;
  int64_t *extra = (int64_t *)(current_cpu + ICOUNT_EXTRA), before = guest_now(), wanted = owed >> shift, took = 0, part;
  uint16_t *low = (uint16_t *)(current_cpu + ICOUNT_LOW);
  part = wanted < *extra ? wanted : *extra;
  *extra -= part;
  took += part;
  part = wanted - took < *low ? wanted - took : *low;
  *low -= part;
  took += part;
  owed -= took << shift;
  burnt += took;
  if (guest_now() - before != took << shift) die("a register access does not take its time: another QEMU than it is made for");
}

static void count(uint64_t mark) {
  if (!counters_file) return;
  fprintf(counters_file,
          "{\"mark\": %" PRIu64 ", \"at_ns\": %" PRId64 ", \"instructions\": %" PRIu64 ", \"register_reads\": %" PRIu64 ", \"register_writes\": %" PRIu64
          ", \"interrupts\": %" PRIu64 ", \"commands\": %" PRIu64 ", \"violations\": %" PRIu64 "}\n",
          mark, guest_now(), (uint64_t)icount_get_raw() - burnt, reads, writes, interrupts, lab.commands(sim), lab.violations(sim));
}

// QEMU's main loop moves the clock to the next deadline when it sees that all CPUs are idle. It may see that before the last of them has accounted for what it
// ran, and the clock then goes too far: by what depends on the load of this machine. So the main loop waits here until the CPUs are idle and have
// accounted. That they work for very long is no reason to leave signals unanswered.
static void main_loop(Notifier *notifier, void *data) {
  (void)notifier;
  if (*(int *)data == POLL_FILL) return;
  for (int n = 0; n < 20000; n++) {
    bool settled = all_cpu_threads_idle();
    for (int i = 0; i < CPUS; i++) settled &= !cpus[i] || !__atomic_load_n((int64_t *)(cpus[i] + ICOUNT_BUDGET), __ATOMIC_SEQ_CST);
    if (settled) return;
    bql_unlock();
    usleep(20);
    bql_lock_impl(__FILE__, __LINE__);
  }
}
static Notifier waits = { .notify = main_loop };

static uint64_t on_read(void *opaque, hwaddr at, unsigned bytes) {
  (void)opaque;
  reads++;
  uint64_t value = lab.read(sim, at, bytes, guest_now());
  settle();
  burn(read_ns);
  return value;
}

static void on_write(void *opaque, hwaddr at, uint64_t value, unsigned bytes) {
  (void)opaque;
  if (at == MARK) {
    count(value);
    if (value == BEGIN) {
      lab.begin(sim, guest_now());
      settle();
    }
    return;
  }
  writes++;
  lab.write(sim, at, bytes, value, guest_now());
  settle();
  burn(write_ns);
}

static void on_event(void *opaque) {
  (void)opaque;
  lab.advance(sim, guest_now());
  settle();
}

static const RegionOps ops = {
  .read = on_read, .write = on_write, .endianness = LITTLE_ENDIAN_DEVICE, .valid = { .min = 1, .max = 4 }, .impl = { .min = 1, .max = 4 },
};

static void open_library(void) {
  void *handle = dlopen(library, RTLD_NOW);
  if (!handle) die(dlerror());
  struct { const char *name; void *place; } names[] = {
    { "mmcq_sim_new", &lab.new }, { "mmcq_sim_free", &lab.free }, { "mmcq_sim_schedule", &lab.schedule },
    { "mmcq_sim_begin", &lab.begin }, { "mmcq_sim_read", &lab.read }, { "mmcq_sim_write", &lab.write },
    { "mmcq_sim_advance", &lab.advance }, { "mmcq_sim_next_event", &lab.next_event }, { "mmcq_sim_interrupt", &lab.interrupt },
    { "mmcq_sim_violations", &lab.violations }, { "mmcq_sim_commands", &lab.commands },
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *symbol = dlsym(handle, names[i].name);
    if (!symbol) die(dlerror());
    memcpy(names[i].place, &symbol, sizeof symbol);
  }
}

// The device gets other numbers than those of QEMU's own, by which Linux's drivers know it.
static void become(uint32_t numbers, const uint8_t class[3]) {
  enum { QEMU_SDHCI = 0x00071b36, CLASS = 9 };
  uint32_t id;
  uint8_t *config = *(uint8_t **)((char *)device + PCI_CONFIG);
  memcpy(&id, config, sizeof id);
  if (id != QEMU_SDHCI) die("the device has another configuration: another QEMU than it is made for");
  memcpy(config, &numbers, sizeof numbers);
  if (class) memcpy(config + CLASS, class, 3);
}

// The model's registers take the place of QEMU's own, at BAR 0. Or they are at BAR 2, where Linux's dw_mmc-pci looks for them; QEMU's SDHCI stays behind
// BAR 0 then, and nothing drives it. Realtek's readers have a class of their own.
static void connect(void *registers) {
  static const uint8_t other_class[3] = { 0x00, 0x00, 0xff };
  bool designware = !strcmp(kind, "designware");
  if (designware) become(0x11070700, NULL);
  else if (!strcmp(kind, "realtek")) become(0x524910ec, other_class);
  else if (strcmp(kind, "sdhci")) die("kind: expected sdhci, designware or realtek");
  memory_region_init_io(region, NULL, &ops, NULL, "mmcq", designware ? WINDOW_BYTES : BAR_BYTES);
  if (designware) pci_register_bar(device, 2, 0, region);
  else memory_region_add_subregion_overlap(registers, 0, region, 10);
}

// The machine is built, and stands still (-S).
static void attach(void *opaque) {
  (void)opaque;
  char bar[256], error[256];
  device = object_resolve_path(device_path, NULL);
  snprintf(bar, sizeof bar, "%s/sdhci[0]", device_path);
  void *registers = object_resolve_path(bar, NULL);
  if (!device || !registers) die("no sdhci-pci with id=slot in the machine");
  open_library();
  if (*counters && !(counters_file = fopen(counters, "w"))) die("the counters' file cannot be written");
  for (int i = 0; i < CPUS; i++) cpus[i] = qemu_get_cpu(i);
  main_loop_poll_add_notifier(&waits);
  sim = lab.new(platform, card, bus_log, dma, NULL, error, sizeof error);
  if (!sim || (*schedule && lab.schedule(sim, schedule, error, sizeof error))) die(error);
  timer_init_full(event, NULL, CLOCK_VIRTUAL_QEMU, NANOSECONDS, 0, on_event, NULL);
  timer_init_full(late, NULL, CLOCK_VIRTUAL_QEMU, NANOSECONDS, 0, raise, NULL);
  connect(registers);
  memory_region_init_io(window, NULL, &ops, NULL, "mmcq-window", WINDOW_BYTES);
  memory_region_add_subregion_overlap(get_system_memory(), WINDOW, window, 10);
  vm_start();
}

static void at_exit(void) {
  if (!sim) return;
  if (counters_file && fclose(counters_file)) fprintf(stderr, "guest-time: the counters could not be written\n");
  if (lab.free(sim)) fprintf(stderr, "guest-time: the log of the bus could not be written\n");
}

static bool number(const char *name, const char *value, int64_t *place) {
  char *end;
  *place = strtoll(value, &end, 10);
  if (!*value || *end || *place < 0 || *place > 1000000) {
    fprintf(stderr, "guest-time: %s=%s: expected a number from 0 to 1000000\n", name, value);
    return false;
  }
  return true;
}

EXPORT int qemu_plugin_install(uint64_t plugin, const void *info, int count, char **arguments) {
  (void)plugin;
  (void)info;
  struct { const char *name; const char **text; int64_t *number; } known[] = {
    { "lib", &library, NULL }, { "platform", &platform, NULL }, { "card", &card, NULL }, { "log", &bus_log, NULL }, { "counters", &counters, NULL },
    { "schedule", &schedule, NULL },
    { "device", &device_path, NULL },
    { "read", NULL, &read_ns }, { "write", NULL, &write_ns }, { "irq", NULL, &irq_ns }, { "shift", NULL, &shift },
    { "kind", &kind, NULL },
  };
  for (int i = 0; i < count; i++) {
    size_t n = 0, length = strcspn(arguments[i], "=");
    while (n < sizeof known / sizeof *known && (strncmp(arguments[i], known[n].name, length) || known[n].name[length])) n++;
    if (n == sizeof known / sizeof *known || !arguments[i][length]) {
      fprintf(stderr, "guest-time: %s: not known\n", arguments[i]);
      return 1;
    }
    const char *value = arguments[i] + length + 1;
    if (known[n].text) *known[n].text = strdup(value);
    else if (!number(known[n].name, value, known[n].number)) return 1;
  }
  prctl(PR_SET_TIMERSLACK, 1);
  atexit(at_exit);
  timer_init_full(begin, NULL, CLOCK_REALTIME_QEMU, NANOSECONDS, 0, attach, NULL);
  timer_mod_ns(begin, 0);
  return 0;
}

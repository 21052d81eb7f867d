// Wheels of TT-NN before 0.72 give a simulated chip neither host memory nor TLB windows to its dispatch cores, so it can have no command
// queue. When the library is preloaded, these functions stand in for some of those wheels' tt-umd and give it both. Other wheels never
// see them: they load the library with symbols of its own. Sources: tt-umd of 0.70.1, device/api/umd/device/tt_device/tlb_manager.hpp,
// cluster.hpp, chip_helpers/simulation_sysmem_manager.hpp.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct {
  size_t x, y;
} xy_pair;

typedef struct {
  xy_pair xy;
  int type, system;
} core_coord;

enum { arch_blackhole = 3 };

static void *umd;     // the library with tt-umd
static void *manager; // the chip's TLBManager
static bool blackhole;

// Compilers and other programs that the process starts must not load the library.
__attribute__((constructor)) static void hide_preload(void) { unsetenv("LD_PRELOAD"); }

// remember notes the library that a function was called from.
static void remember(void *caller) {
  Dl_info info;
  if (umd == NULL && dladdr(caller, &info) != 0)
    umd = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
}

// next returns tt-umd's own function of a name.
static void *next(const char *name) {
  void *f = umd ? dlsym(umd, name) : NULL;
  if (f == NULL) {
    fprintf(stderr, "ERROR: libttsim: this version of ttnn has no %s: use 0.72 or newer\n", name);
    _Exit(1);
  }
  return f;
}

// ensure_window gives a tile a window if it has none.
static void ensure_window(xy_pair core) {
  bool (*is_mapped)(void *, xy_pair) = next("_ZN2tt3umd10TLBManager13is_tlb_mappedENS_7xy_pairE");
  if (manager == NULL || is_mapped(manager, core))
    return;
  const size_t size = blackhole ? 2 << 20 : 16 << 20, strict_order = 1;
  void (*configure)(void *, xy_pair, size_t, size_t, size_t) = next("_ZN2tt3umd10TLBManager13configure_tlbENS_7xy_pairEmmm");
  configure(manager, core, size, 0, strict_order);
}

// SimulationSysmemManager::SimulationSysmemManager(uint32_t channels, tt::ARCH)
EXPORT void _ZN2tt3umd23SimulationSysmemManagerC1EjNS_4ARCHE(void *self, unsigned channels, int arch) {
  remember(__builtin_return_address(0));
  blackhole = arch == arch_blackhole;
  void (*f)(void *, unsigned, int) = next("_ZN2tt3umd23SimulationSysmemManagerC1EjNS_4ARCHE");
  f(self, channels ? channels : 1, arch);
}

// TLBManager::TLBManager(TTDevice *)
EXPORT void _ZN2tt3umd10TLBManagerC1EPNS0_8TTDeviceE(void *self, void *device) {
  remember(__builtin_return_address(0));
  manager = self;
  void (*f)(void *, void *) = next("_ZN2tt3umd10TLBManagerC1EPNS0_8TTDeviceE");
  f(self, device);
}

// TlbWindow *TLBManager::get_tlb_window(xy_pair)
EXPORT void *_ZN2tt3umd10TLBManager14get_tlb_windowENS_7xy_pairE(void *self, xy_pair core) {
  remember(__builtin_return_address(0));
  manager = self;
  ensure_window(core);
  void *(*f)(void *, xy_pair) = next("_ZN2tt3umd10TLBManager14get_tlb_windowENS_7xy_pairE");
  return f(self, core);
}

// tlb_configuration Cluster::get_tlb_configuration(int chip, CoreCoord)
EXPORT void *_ZN2tt3umd7Cluster21get_tlb_configurationEiNS0_9CoreCoordE(void *result, void *self, int chip, core_coord core) {
  remember(__builtin_return_address(0));
  ensure_window(core.xy);
  void *(*f)(void *, void *, int, core_coord) = next("_ZN2tt3umd7Cluster21get_tlb_configurationEiNS0_9CoreCoordE");
  return f(result, self, chip, core);
}

// Writer Cluster::get_static_tlb_writer(int chip, CoreCoord)
EXPORT void *_ZN2tt3umd7Cluster21get_static_tlb_writerEiNS0_9CoreCoordE(void *result, void *self, int chip, core_coord core) {
  remember(__builtin_return_address(0));
  ensure_window(core.xy);
  void *(*f)(void *, void *, int, core_coord) = next("_ZN2tt3umd7Cluster21get_static_tlb_writerEiNS0_9CoreCoordE");
  return f(result, self, chip, core);
}

// SimulationTlbManager::deallocate_tlb_index(int). Its destructor frees the table of indices, then TLBManager's frees the windows, each
// of which calls this function: it does nothing once the object is no SimulationTlbManager anymore.
EXPORT void _ZN2tt3umd20SimulationTlbManager20deallocate_tlb_indexEi(void **self, int index) {
  remember(__builtin_return_address(0));
  void **vtable = next("_ZTVN2tt3umd20SimulationTlbManagerE");
  if (self[0] != vtable + 2) // without the offset and the type before the functions
    return;
  void (*f)(void *, int) = next("_ZN2tt3umd20SimulationTlbManager20deallocate_tlb_indexEi");
  f(self, index);
}

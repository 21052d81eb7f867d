package ttnn

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/metal"
)

// Headers are tt-metal's headers in a ttnn wheel.
type Headers struct {
	Wheel string // version, such as 0.77.0
	dir   string // tt_metal
}

// OpenHeaders unpacks the headers of a .whl file below a temporary folder, or finds those of a
// folder that has ttnn/tt_metal, such as site-packages.
func OpenHeaders(path, temp string) (*Headers, error) {
	dir := path
	if strings.HasSuffix(path, ".whl") {
		var err error
		if dir, err = os.MkdirTemp(temp, "headers"); err != nil {
			return nil, err
		}
		if err := unpackHeaders(path, dir); err != nil {
			return nil, fmt.Errorf("ttnn: headers of %s: %w", path, err)
		}
	}
	h := &Headers{Wheel: versionOf(path), dir: filepath.Join(dir, "ttnn", "tt_metal")}
	if info, err := filepath.Glob(filepath.Join(dir, "ttnn-*.dist-info")); err == nil && len(info) == 1 {
		h.Wheel = versionOf(info[0])
	}
	if _, err := os.Stat(h.commands()); err != nil {
		return nil, fmt.Errorf("ttnn: %s has no headers of tt-metal: name a .whl file, or the folder that has ttnn/tt_metal: %w", path, err)
	}
	return h, nil
}

var wheelVersion = regexp.MustCompile(`\d+\.\d+\.\d+[^-]*`)

func versionOf(path string) string {
	return cmp.Or(wheelVersion.FindString(strings.TrimSuffix(filepath.Base(path), ".dist-info")), filepath.Base(path))
}

func unpackHeaders(path, dir string) error {
	z, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		header := slices.Contains([]string{".h", ".hpp"}, filepath.Ext(f.Name)) && strings.HasPrefix(f.Name, "ttnn/tt_metal/")
		if !header && !strings.HasSuffix(f.Name, ".dist-info/METADATA") {
			continue
		}
		to := filepath.Join(dir, filepath.FromSlash(f.Name))
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("%q would be written outside of %s", f.Name, dir)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (h *Headers) commands() string {
	return filepath.Join(h.dir, "impl", "dispatch", "kernels", "cq_commands.hpp")
}

// Folders that headers include each other from, at one time or another.
var (
	includes = []string{"hw/inc", "hw/inc/hostdev", "hw/inc/internal", "hw/inc/internal/tt-1xx", "hw/inc/tt-1xx", "hostdevcommon/api", "api",
		"api/tt-metalium", "include", "impl/dispatch/kernels", "..", "../.."}
	archIncludes = []string{"hw/inc", "hw/inc/tt-1xx", "hw/inc/internal/tt-1xx"}
	macro        = regexp.MustCompile(`(?m)^#define\s+(MEM_\w+)\s`)
	waitFlag     = regexp.MustCompile(`CQ_DISPATCH_CMD_WAIT_FLAG_\w+`)
)

const factPrefix = "fact_"

// Facts compiles the headers with a C++ compiler for this machine and returns their numbers by
// name: bytes of structures, offsets of fields ("launch_msg_t.kernel_config"), enumerators and
// constants.
func (h *Headers) Facts(ctx context.Context, compiler string, arch chip.Arch) (map[string]uint64, error) {
	args := []string{"-std=c++17", "-g", "-O0", "-w", "-fpermissive", "-fno-exceptions", "-fno-eliminate-unused-debug-types", "-nostdlib",
		"-static", "-no-pie", "-Wl,-e0", "-Wl,--unresolved-symbols=ignore-all", "-DCOMPILE_FOR_BRISC", "-DPROCESSOR_INDEX=0", "-DTENSIX_FIRMWARE",
		"-DFW_BUILD", "-DPROGRAMMABLE_CORE_TYPE=0", "-DNUM_DRAM_BANKS=12", "-DNUM_L1_BANKS=64", "-DARCH_" + strings.ToUpper(arch.String())}
	for _, dir := range includes {
		args = append(args, "-I"+filepath.Join(h.dir, dir))
	}
	defines := map[chip.Arch]string{chip.Wormhole: "wormhole_b0_defines", chip.Blackhole: "blackhole_defines"}[arch]
	var memory []byte
	for _, dir := range archIncludes {
		at := filepath.Join(h.dir, dir, arch.String())
		args = append(args, "-I"+at, "-I"+filepath.Join(at, "noc"), "-I"+filepath.Join(at, defines))
		if text, err := os.ReadFile(filepath.Join(at, "dev_mem_map.h")); err == nil {
			memory = text
		}
	}
	commands, err := os.ReadFile(h.commands())
	if err != nil {
		return nil, err
	}
	var source bytes.Buffer
	source.WriteString(probeSource)
	each := func(names []string, format string) {
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			fmt.Fprintf(&source, format, name)
		}
	}
	each(append(waitFlag.FindAllString(string(commands), -1), "NUM_CIRCULAR_BUFFERS", "NOC_COORD_REG_OFFSET"), "CONSTANT(%s)\n")
	var macros []string
	for _, m := range macro.FindAllStringSubmatch(string(memory), -1) {
		macros = append(macros, m[1])
	}
	each(macros, "#ifdef %s\nCONSTANT(%[1]s)\n#endif\n")
	out, err := os.CreateTemp("", "facts")
	if err != nil {
		return nil, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd := exec.CommandContext(ctx, compiler, append(args, "-x", "c++", "-", "-o", out.Name())...)
	cmd.Stdin = &source
	if text, err := cmd.CombinedOutput(); err != nil {
		first, _, _ := bytes.Cut(text, []byte("\n"))
		return nil, fmt.Errorf("ttnn: compile the headers of %s for %v with %s: %w: %s", h.Wheel, arch, compiler, err, first)
	}
	return readFacts(out)
}

const probeSource = `#include <cstdint>
#include <cstddef>
#define private public
#include "tensix_types.h"
#include "core_config.h"
#include "dev_mem_map.h"
#include "dev_msgs.h"
#include "circular_buffer_constants.h"
#include "noc_parameters.h"
#include "cq_commands.hpp"
mailboxes_t mailboxes; CQPrefetchCmd prefetch; CQDispatchCmd dispatch; CQPrefetchCmdId prefetch_id; CQDispatchCmdId dispatch_id;
#define CONSTANT(name) extern "C" const uint32_t fact_##name; const uint32_t fact_##name = (uint32_t)(name);
`

func readFacts(r io.ReaderAt) (map[string]uint64, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	d, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	facts, err := metal.TypeFacts(d)
	if err != nil {
		return nil, err
	}
	for _, s := range symbols {
		name, ok := strings.CutPrefix(s.Name, factPrefix)
		if !ok || int(s.Section) >= len(f.Sections) {
			continue
		}
		section := f.Sections[s.Section]
		var b [4]byte
		if _, err := section.ReadAt(b[:], int64(s.Value-section.Addr)); err != nil {
			return nil, err
		}
		facts[name] = uint64(binary.LittleEndian.Uint32(b[:]))
	}
	return facts, nil
}

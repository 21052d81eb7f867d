package bench

import (
	"embed"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
)

// pace sets how a wait polls; see [reprise.WithPace].
type pace struct {
	name          string
	spin, longest time.Duration
}

var (
	defaultPace  = pace{"default", 0, 0}
	spinningPace = pace{"spin=5ms", 5 * time.Millisecond, 0}
)

var paces = []pace{
	defaultPace,
	spinningPace,
	{"longest=100us", 0, 100 * time.Microsecond},
	{"longest=5ms", 0, 5 * time.Millisecond},
}

//go:embed kernels/prebuilt
var archives embed.FS

var prebuilt = images.New(archives, "kernels/prebuilt")

// ownKernel returns a kernel of this package.
func ownKernel(a chip.Arch, name string) (*kernels.Image, error) {
	file, err := prebuilt.ELF(a, name)
	if err != nil {
		return nil, err
	}
	return kernels.Load(file)
}

// shape describes a measured program. "common" and "worst" are of tt-metal's benchmark of its
// dispatch code (fd_command_construction), "smallest" of its benchmark of traced programs.
type shape struct {
	name       string
	args       int
	common     int
	semaphores int
	cbs        int
	groups     int // kernel groups: sets of cores with kernels of their own
	cores      int // workers of the first row; 0 means all workers
}

var (
	minimal = shape{name: "smallest", groups: 1, cores: 1}

	common = shape{name: "common", args: 8, semaphores: 1, groups: 1}
	worst  = shape{name: "worst", args: 64, common: 16, semaphores: 4, cbs: 8, groups: 8}
)

// program computes nothing.
func (p shape) program(d *reprise.Device) (*reprise.Program, error) {
	image, err := kernels.Prebuilt(d.Arch(), kernels.Blank)
	if err != nil {
		return nil, err
	}
	out := &reprise.Program{Name: p.name}
	grid := d.Queue(0).Workers()
	if p.cores > 0 {
		grid.End = chip.Core{X: grid.Start.X + p.cores - 1, Y: grid.Start.Y}
	}
	for i, r := range split(grid, p.groups) {
		k := reprise.Kernel{
			Name: fmt.Sprintf("blank %d", i), Image: image, Processor: chip.BRISC, Cores: []chip.Range{r},
			Common: make([]uint32, p.common),
		}
		if p.args > 0 {
			k.Args = func(c chip.Core) []uint32 {
				a := make([]uint32, p.args)
				for i := range a {
					a[i] = uint32(c.X)<<16 | uint32(c.Y)<<8 | uint32(i)
				}
				return a
			}
		}
		out.Kernels = append(out.Kernels, k)
	}
	for i := range p.cbs {
		out.CircularBuffers = append(out.CircularBuffers,
			reprise.CircularBuffer{Index: i, Cores: []chip.Range{grid}, PageSize: 1024, Pages: 2})
	}
	for i := range p.semaphores {
		out.Semaphores = append(out.Semaphores, reprise.Semaphore{ID: i, Cores: []chip.Range{grid}})
	}
	return out, nil
}

// padded extends the text of an image.
func padded(im *kernels.Image, bytes int) *kernels.Image {
	if bytes <= len(im.Text) {
		return im
	}
	longer := *im
	longer.Text = append(make([]byte, 0, bytes), im.Text...)[:bytes]
	return &longer
}

func split(r chip.Range, n int) []chip.Range {
	rows := r.End.Y - r.Start.Y + 1
	n = max(1, min(n, rows))
	out := make([]chip.Range, 0, n)
	y := r.Start.Y
	for i := range n {
		end := r.Start.Y + rows*(i+1)/n - 1
		out = append(out, chip.Range{Start: chip.Core{X: r.Start.X, Y: y}, End: chip.Core{X: r.End.X, Y: end}})
		y = end + 1
	}
	return out
}

// Costs of other runtimes. A peer's absolute times are of its own machine; its ratios to baselines
// carry over. tt-metal's command assembler (device_command) and allocator (free_list_opt) were
// measured on a 2-core x86-64 virtual machine; its whole operations are the expectations of its CI
// for a Blackhole machine (fd_command_construction_golden.json).
const (
	assembler = "tt-metal's command assembler"
	itsCI     = "tt-metal's CI, its machine"
	freeList  = "tt-metal's free list"
)

func replayPeers() []report.Peer {
	return []report.Peer{
		{Who: assembler + ", commands alone", To: report.NonTemporal, Value: 162 / 3.83, Ns: 162},
		{Who: itsCI, Ns: 1870},
		{Who: "CUDA graph launch, as quoted by NVIDIA", Ns: 2500},
	}
}

// ofCI are times of tt-metal's CI.
func ofCI(s shape, common, worst float64) []report.Peer {
	return []report.Peer{{Who: itsCI, Ns: map[string]float64{"common": common, "worst": worst}[s.name]}}
}

func enqueuePeers(s shape) []report.Peer  { return ofCI(s, 15_200, 16_700) }
func capturePeers(s shape) []report.Peer  { return ofCI(s, 57_600, 54_300) }
func argumentPeers(s shape) []report.Peer { return ofCI(s, 130_000, 536_000) }

func allocatorPeers(live int) []report.Peer {
	ns := map[int]float64{10: 150, 1_000: 300, 100_000: 13_550}[live]
	if ns == 0 {
		return nil
	}
	return []report.Peer{{Who: freeList, To: report.MemcpyHot, Value: ns / 24.5, Ns: ns}}
}

// Sources of the summary's quotations.
var (
	itsCISource = &report.Source{
		From: "tt-metal's fd_command_construction_golden.json at 352665ff, host time, least of 7",
		Date: "20 November 2026",
	}
	assemblerSource = &report.Source{From: "exec_trace by tt-metal's device_command at 001254c6", Date: "20 November 2026"}
	itsQueuesSource = &report.Source{
		From: "instructions of tt-metal's command-queue firmware (a4347c0dda, gcc 12.2) on this emulator, docs/tt-metal.md",
		Date: "23 November 2026",
	}
	ttsimAlone = &report.Source{
		From: "ttsim 1.10.0 on 2 processors of an x86-64 virtual machine: each instruction takes this, and each clock 86 to 132 ns besides",
		Date: "20 November 2026",
	}
	ttsimBeside = &report.Source{From: "ttsim 1.10 beside this emulator, on 2 processors of an AMD EPYC", Date: "22 November 2026"}
)

// quotedSimulator is quoted unless Config.Against is measured.
const quotedSimulator = "ttsim"

// itsQueuesExecute returns the instructions of tt-metal's prefetcher and dispatcher.
func itsQueuesExecute(a chip.Arch, s shape, replay bool) float64 {
	type of struct {
		arch   chip.Arch
		shape  string
		replay bool
	}
	return map[of]float64{
		{chip.Blackhole, "smallest", false}: 616 + 328, {chip.Blackhole, "common", false}: 868 + 5260,
		{chip.Blackhole, "smallest", true}: 2050 + 877, {chip.Blackhole, "common", true}: 2414 + 5770,
		{chip.Wormhole, "smallest", false}: 597 + 342, {chip.Wormhole, "common", false}: 838 + 2767,
		{chip.Wormhole, "smallest", true}: 1984 + 879, {chip.Wormhole, "common", true}: 2298 + 3302,
	}[of{a, s.name, replay}]
}

package kernels

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

func defines(t *testing.T, arch chip.Arch) map[string]uint32 {
	t.Helper()
	file, err := sources.ReadFile("include/reprise/arch.h")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]uint32{}
	use := []bool{true}
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		top := len(use) - 1
		switch words[0] {
		case "#ifndef":
			use = append(use, use[top])
		case "#if":
			switch words[1] {
			case "defined(REPRISE_WORMHOLE)":
				// the check at the top of the file has more words, and its branch has no names
				use = append(use, use[top] && arch == chip.Wormhole && len(words) == 2)
			default:
				t.Fatalf("arch.h: %s", lines.Text())
			}
		case "#else":
			use[top] = use[top-1] && !use[top]
		case "#endif":
			use = use[:top]
		case "#define":
			if len(words) < 3 || !use[top] {
				continue
			}
			if v, err := strconv.ParseUint(strings.TrimSuffix(words[2], "u"), 0, 32); err == nil {
				values[words[1]] = uint32(v)
			}
		}
	}
	return values
}

func TestHeadersAgreeWithChip(t *testing.T) {
	for _, arch := range arches {
		c := defines(t, arch)
		p, l1 := arch.Params(), abi.Own(arch).L1
		want := map[string]uint32{
			"RP_L1_SIZE":                  p.L1Size,
			"RP_L1_ATOMIC_RETURN":         l1.AtomicReturn,
			"RP_L1_BARRIER":               l1.Barrier,
			"RP_L1_MAILBOX":               l1.Mailbox,
			"RP_L1_ZEROS":                 l1.Zeros,
			"RP_ZEROS_SIZE":               l1.ZerosSize,
			"RP_L1_FIRMWARE_BRISC":        l1.Firmware[chip.BRISC],
			"RP_L1_FIRMWARE_NCRISC":       l1.Firmware[chip.NCRISC],
			"RP_L1_FIRMWARE_TRISC0":       l1.Firmware[chip.TRISC0],
			"RP_L1_FIRMWARE_TRISC1":       l1.Firmware[chip.TRISC1],
			"RP_L1_FIRMWARE_TRISC2":       l1.Firmware[chip.TRISC2],
			"RP_L1_BANK_TABLE":            l1.BankTable,
			"RP_L1_KERNEL_CONFIG":         l1.KernelConfig,
			"RP_KERNEL_CONFIG_SIZE":       l1.KernelConfigSize,
			"RP_L1_UNRESERVED":            l1.Unreserved,
			"RP_LOCAL_RAM":                p.LocalRAM,
			"RP_LOCAL_RAM_SIZE_DM":        p.LocalRAMSize[chip.BRISC],
			"RP_LOCAL_RAM_SIZE_TRISC":     p.LocalRAMSize[chip.TRISC0],
			"RP_NOC_WORD":                 p.NOCWord,
			"RP_NOC_MAX_BURST":            p.MaxBurst,
			"RP_SOFT_RESET":               p.SoftReset,
			"RP_SOFT_RESET_ALL":           p.ResetAll,
			"RP_SOFT_RESET_ALL_BUT_BRISC": p.ResetAllButBRISC,
		}
		for name, v := range want {
			if got, ok := c[name]; !ok || got != v {
				t.Errorf("%v: %s is %#x (found %v), package chip has %#x", arch, name, got, ok, v)
			}
		}
		if c["RP_KERNEL_CONFIG_SIZE"] != maxImage {
			t.Errorf("%v: Load allows %#x bytes, the area has %#x", arch, maxImage, c["RP_KERNEL_CONFIG_SIZE"])
		}
		if c["RP_LOCAL_RAM_KERNEL"] != localData {
			t.Errorf("%v: Load wants data from %#x, the headers from %#x", arch, localData, c["RP_LOCAL_RAM_KERNEL"])
		}
	}
}

func TestLinkerScriptAgrees(t *testing.T) {
	script, err := sources.ReadFile("lib/kernel.ld")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("__local_start = 0x%X;", uint32(localData)),
		fmt.Sprintf("PROVIDE(my_x = 0x%X);", uint32(localRAM+0x10)), // offsetof(struct rp_local, ...): abi.h asserts them
		fmt.Sprintf("PROVIDE(my_y = 0x%X);", uint32(localRAM+0x12)),
		fmt.Sprintf("PROVIDE(noc_index = 0x%X);", uint32(localRAM+0x14)),
		fmt.Sprintf("PROVIDE(noc_mode = 0x%X);", uint32(localRAM+0x15)),
	} {
		if !bytes.Contains(script, []byte(want)) {
			t.Errorf("kernel.ld does not have %q", want)
		}
	}
}

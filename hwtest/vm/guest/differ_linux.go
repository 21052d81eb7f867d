package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/driverdiff"
	"github.com/reprise-tt/reprise/sim/emu"
)

// differ compares the loaded driver with its model: differ [-seeds N] [-steps N] [-resets].
func differ(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("differ", flag.ContinueOnError)
	first := fs.Uint64("seed", 1, "the first series")
	seeds := fs.Uint64("seeds", 5, "how many series")
	steps := fs.Int("steps", 2000, "requests of a series")
	resets := fs.Bool("resets", false, "reset the card in between")
	if err := fs.Parse(args); err != nil {
		return err
	}
	node := nodes()[0]
	card := kmd.Inspect(ctx, kmd.Path(node))
	if card.Problem != nil {
		return card.Problem
	}
	_, err := os.Stat("/sys/bus/pci/devices/" + card.BDF + "/iommu_group")
	translates := err == nil
	var id emu.Identity
	if id.Board, err = strconv.ParseUint(card.Serial, 16, 64); err != nil {
		return fmt.Errorf("serial number of the card: %w", err)
	}
	if card.ASIC != "" { // Wormhole's firmware doesn't tell
		if id.ASIC, err = strconv.ParseUint(card.ASIC, 16, 64); err != nil {
			return fmt.Errorf("number of the chip: %w", err)
		}
	}
	chip, err := emu.New(emu.Config{Arch: card.Arch, Identity: id})
	if err != nil {
		return err
	}
	bdf, err := address(card.BDF)
	if err != nil {
		return err
	}
	var v driver.Version
	if _, err := fmt.Sscanf(card.Driver, "%d.%d.%d", &v.Major, &v.Minor, &v.Patch); err != nil {
		return fmt.Errorf("version %q of the driver: %w", card.Driver, err)
	}
	d, err := driver.New(driver.Config{Arch: card.Arch, Functions: []driver.Function{chip}, Version: v, NoIOMMU: !translates,
		Addresses: []uint16{bdf}})
	if err != nil {
		return err
	}
	defer d.Close()
	l, err := driverdiff.Files(os.DirFS("/"), d.FS())
	if err != nil {
		return err
	}
	for _, x := range l {
		fmt.Println("DIFFER", x.Request+":", strconv.Quote(x.A)+", and", strconv.Quote(x.B))
	}
	sum := len(l)
	for seed := *first; seed < *first+*seeds; seed++ {
		start := time.Now()
		l, err := driverdiff.Run(driverdiff.Config{A: kmd.Path(node).Node(), B: d.Node(0), Accesses: kmd.Accesses, Arch: card.Arch, Seed: seed,
			Steps: *steps, Resets: *resets, Settle: 600 * time.Millisecond, Discontiguous: !translates})
		if err != nil {
			return err
		}
		for _, x := range l {
			fmt.Println("DIFFER", seed, x)
		}
		sum += len(l)
		fmt.Printf("SERIES %d: %d requests, %d differ (%v)\n", seed, *steps, len(l), time.Since(start).Round(time.Millisecond))
	}
	if sum > 0 {
		return fmt.Errorf("the driver and its model differ in %d requests and files", sum)
	}
	return nil
}

func address(bdf string) (uint16, error) {
	f := strings.FieldsFunc(bdf, func(r rune) bool { return r == ':' || r == '.' })
	if len(f) != 4 {
		return 0, fmt.Errorf("%q is no PCI address", bdf)
	}
	var n [3]uint64
	for i, s := range f[1:] {
		v, err := strconv.ParseUint(s, 16, 8)
		if err != nil {
			return 0, err
		}
		n[i] = v
	}
	return uint16(n[0]<<8 | n[1]<<3 | n[2]), nil
}

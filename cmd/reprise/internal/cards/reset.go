package cards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/kmd"
)

// ResetCmd resets a card.
type ResetCmd struct {
	cardFlags
	Mode  string `help:"What to reset: asic (the chip), board (and its management controller), link (PCIe), config-write, restore (only configuration space), user (tell the driver that you are about to reset it), post (tell it that you have)." default:"asic" enum:"asic,board,link,config-write,restore,user,post"`
	Force bool   `help:"Reset the card although processes have it open."`
}

func (ResetCmd) Help() string {
	return "Memory and all state of the card are lost. The card is opened and read afterwards; a card that doesn't answer then is an error. Processes that have it open are named and keep it, unless forced."
}

type resetJSON struct {
	PCI     string       `json:"pci"`
	Node    string       `json:"node"` // afterwards
	Arch    string       `json:"arch"`
	Mode    string       `json:"mode"`
	Seconds float64      `json:"seconds"`
	Read    bool         `json:"verified"` // the card was opened and read
	Losers  []holderJSON `json:"losers"`
}

func (c *ResetCmd) Run(ctx context.Context, s cli.Streams) error {
	mode, err := kmd.ParseResetMode(c.Mode)
	if err != nil {
		return err
	}
	t, err := oneCard(ctx, c.Device)
	if err != nil {
		return err
	}
	cfg := kmd.ResetConfig{Mode: mode, Force: c.Force}
	if !c.JSON && cli.IsTerminal(s.Err) {
		cfg.Progress = func(step string) { fmt.Fprintln(s.Err, step) }
	}
	r, err := kmd.Reset(ctx, t, cfg)
	var held *kmd.HeldError
	switch {
	case errors.As(err, &held):
		var names []string
		for _, h := range held.Holders {
			names = append(names, h.String())
		}
		return fmt.Errorf("reset: %s is open by %s; end them, or take the card from them with --force", t, strings.Join(names, ", "))
	case err != nil:
		return err
	}
	out := resetJSON{PCI: r.BDF, Node: r.Node, Arch: r.Arch.String(), Mode: r.Mode.String(), Seconds: r.Duration.Seconds(),
		Read: r.Harvesting != nil, Losers: []holderJSON{}}
	for _, h := range r.Losers {
		out.Losers = append(out.Losers, holderJSON{h.PID, h.Name, h.Files})
	}
	return s.Print(c.JSON, out, func(w cli.Text) { out.print(w, r.Duration) })
}

func (r *resetJSON) print(w cli.Text, d time.Duration) {
	lost := ""
	if len(r.Losers) > 0 {
		lost = ", lost for " + holderNames(r.Losers)
	}
	if r.Read {
		w.F("%s (%s): reset in %v and answering at %s%s\n", r.PCI, r.Arch, d.Round(time.Millisecond), r.Node, lost)
	} else {
		w.F("%s (%s): the driver waits for your reset%s; then: reprise reset --mode post --device %[1]s\n", r.PCI, r.Arch, lost)
	}
}

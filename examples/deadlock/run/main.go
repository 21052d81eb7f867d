// Command run runs the program of package deadlock on a device, with its bug or without.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/reprise-tt/reprise/examples/deadlock"
	"github.com/reprise-tt/reprise/hwtest/target"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	device := flag.String("device", "emu:blackhole", "device to run on, as for reprise")
	block := flag.Uint("block", 8, "pages of one operand that are fetched before those of the other")
	watch := flag.Bool("watch", false, "compile checks into the kernels")
	dir := flag.String("dir", ".", "where the kernels' files and the dump go")
	timeout := flag.Duration("timeout", 10*time.Second, "without progress, after which the program hangs")
	flag.Parse()
	devices, err := target.Parse(*device, nil)
	if err != nil {
		return err
	}
	return deadlock.Run(ctx, devices.Open(), deadlock.Options{Block: uint32(*block), Watch: *watch, Dir: *dir, Prints: os.Stdout,
		HangTimeout: *timeout})
}

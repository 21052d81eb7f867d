package ops

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
)

//go:embed kernels/prebuilt
var archives embed.FS

var prebuilt = images.New(archives, "kernels/prebuilt")

func loadKernel(a chip.Arch, name string) (*kernels.Image, error) {
	file, err := prebuilt.ELF(a, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = kernels.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %s for %v: %w", name, a, err)
	}
	return kernels.Load(file)
}

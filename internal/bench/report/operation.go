package report

// Operation is what an operation on tensors takes of a device. Tensors are of BFloat16, in tiles, interleaved in DRAM.
type Operation struct {
	Name string `json:"op"`
	// Shape is, of a product, height, inner dimension and width; of conv2d, whose window is 3 by 3 with padding of 1, height, width,
	// channels in and channels out; of max_pool2d, whose window is 2 by 2, height, width and channels; of attention_decode, which has
	// one query for each head, heads, keys and width.
	Shape []int `json:"shape"`
	// Device is what is compared with, or empty for the device that is measured.
	Device string `json:"device,omitempty"`
	// Workers is how many workers the queue has.
	Workers int `json:"workers"`
	// ElapsedNs is the time of one run by the host's clock, from the submission to the end of the wait.
	ElapsedNs float64 `json:"elapsed_ns"`
	// Clocks is the time of one run by the clock of the queue's dispatch core, with its launch; nil for emulators, whose clocks
	// say nothing of silicon.
	Clocks *float64 `json:"clocks,omitempty"`
	// Instructions is what all processors of an emulated device retire; nil for other devices.
	Instructions *float64 `json:"instructions,omitempty"`
	// Products is how many products of two tiles the operation has, PerClock that by its clocks, and PeakShare the share of what the
	// matrix units of all workers could compute: one of 16 instructions in four phases each in 64 clocks. 0 for operations without
	// products, and nil without clocks.
	Products  float64  `json:"tile_products,omitempty"`
	PerClock  *float64 `json:"tile_products_per_clock,omitempty"`
	PeakShare *float64 `json:"share_of_peak,omitempty"`
	// Alone are the clocks of parts of a product by themselves: the same program without the others. LimitedBy is the part that
	// takes longest, or the launch if that is more than half of the product.
	Alone     *PartClocks `json:"clocks_alone,omitempty"`
	LimitedBy string      `json:"limited_by,omitempty"`
}

// PartClocks are the clocks of the parts of a product in blocks. Launch is in all of them.
type PartClocks struct {
	Launch  float64 `json:"launch"`  // starting and ending the program, in which no part does anything
	Readers float64 `json:"readers"` // reading tiles from DRAM, and sending them to rows and columns of cores
	Engines float64 `json:"engines"` // unpacking, multiplying and packing what is in L1
	Writers float64 `json:"writers"` // writing the result to DRAM, with what packs it
}

// Limit returns the name of what takes longest in a product of so many clocks.
func (p *PartClocks) Limit(clocks float64) string {
	if p.Launch > clocks/2 {
		return "launch"
	}
	switch max(p.Readers, p.Engines, p.Writers) {
	case p.Engines:
		return "engines"
	case p.Readers:
		return "readers"
	}
	return "writers"
}

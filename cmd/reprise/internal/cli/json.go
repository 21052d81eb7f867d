package cli

// BankRange is a part of a bank of DRAM.
type BankRange struct {
	Bank  int    `json:"bank"`
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
}

// Grid is the size of a grid of cores.
type Grid struct {
	Width  int `json:"width"`
	Height int `json:"height"`
}

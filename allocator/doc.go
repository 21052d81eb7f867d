// Package allocator decides where things live on a device: in DRAM banks, in the trace region at their top, and in
// workers' L1. It is arithmetic only and never touches a device.
//
// Allocation is lockstep: an extent has one address that is valid in all banks of its kind, and takes the same number
// of bytes in each. Pages of an interleaved buffer go round the banks; [Extent.Page] and [Extent.PageAt] convert.
//
//	DRAM bank    base | DRAM, from the bottom up ->        <- traces, from the top down | end
//	worker L1    base |            <- L1, from the top down | L1 small, from the top down | end
//
// The trace region has a fixed size if [Config.TraceRegion] gives one. Otherwise it is whatever traces take, from
// the top of every bank downward into space that no buffer occupies, and space comes back when they are freed.
//
// # Layouts
//
// Interleaved is the default. A [ShardSpec] cuts a tensor of pages into shards and names the cores that hold them; the
// [Distribution] made of it says which page is where. The extent of a sharded buffer has as many places in each bank as
// the fullest core needs ([Distribution.CorePages]), for as many banks as hold shards.
//
// # State
//
// [Allocator.Map] says what lies where and who asked for it, as text, JSON, a picture or CSV. [Allocator.Clone] copies
// the state: to ask what would fit ([Allocator.Fits]), to compare ([Allocator.Diff]) and to go back ([Allocator.Restore]).
// [Allocator.Fingerprint] stands for what decides where the next extent goes: if two are equal, so are the addresses.
//
// # Cost
//
// Placement is first fit by address, unless [Config.Policy] says otherwise. Holes are kept in leaves, one for each
// stretch of addresses, under a pyramid of maxima, so the lowest (or highest) hole that fits is found by one descent
// that looks at 16 numbers at a time. On amd64 with AVX2 that is done in assembly, elsewhere by the same steps in Go.
// There are no pointers in it; allocating and freeing don't allocate memory once the structure has its size. It is
// rebuilt when too many leaves have overflown or most holes have gone, which costs as much as a few operations for each
// hole.
package allocator

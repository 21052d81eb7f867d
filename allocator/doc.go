// Package allocator decides where things live on a device: in DRAM banks, in the trace region at
// their top, and in workers' L1. It never touches a device.
//
// An extent has one address that is valid in all banks of its kind, and takes the same number of
// bytes in each. Pages of an interleaved buffer go round the banks.
//
//	DRAM bank    base | DRAM, from the bottom up ->        <- traces, from the top down | end
//	worker L1    base |            <- L1, from the top down | L1 small, from the top down | end
//
// Without [Config.TraceRegion] the trace region is what traces take.
//
// A [ShardSpec] cuts a tensor of pages into shards and names the cores that hold them; its
// [Distribution] says which page is where. The extent of a sharded buffer has as many places in
// each bank as the fullest core needs ([Distribution.CorePages]), for as many banks as hold shards.
//
// [Allocator.Map] is a memory map with owners and call sites. [Allocator.Clone] copies the state,
// to compare ([Allocator.Diff]).
//
// Once the list of holes has its size, allocating and freeing don't allocate host memory.
package allocator

// Package allocator decides where things live on a device: in DRAM banks, in the trace region at
// their top, and in workers' L1. It never touches a device.
//
// An extent has one address that is valid in all banks of its kind, and takes the same number of
// bytes in each. Pages of an interleaved buffer go round the banks.
//
//	DRAM bank    base | DRAM, from the bottom up ->        <- traces, from the top down | end
//	worker L1    base |            <- L1, from the top down | L1 small, from the top down | end
//
// The trace region has a fixed size if [Config.TraceRegion] gives one. Otherwise it is what traces
// take, from the top of every bank downward.
//
// # Layouts
//
// A [ShardSpec] cuts a tensor of pages into shards and names the cores that hold them; its
// [Distribution] says which page is where. The extent of a sharded buffer has as many places in
// each bank as the fullest core needs ([Distribution.CorePages]), for as many banks as hold shards.
//
// # State
//
// [Allocator.Map] is a memory map with owners and call sites, as text, JSON, a picture or CSV.
// [Allocator.Clone] copies the state, to compare ([Allocator.Diff]) and to go back
// ([Allocator.Restore]).
//
// # Cost
//
// Placement is first fit by address, unless [Config.Policy] says otherwise. Once the list of holes
// has its size, allocating and freeing don't allocate host memory.
package allocator

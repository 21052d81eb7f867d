package probe

import "fmt"

// magic is the type of the driver's ioctls (TENSTORRENT_IOCTL_MAGIC of tt-kmd's ioctl.h).
const magic = 0xFA

// commands are the driver's ioctls by number (tt-kmd's ioctl.h).
var commands = [...]string{
	"GET_DEVICE_INFO", "GET_HARVESTING", "QUERY_MAPPINGS", "ALLOCATE_DMA_BUF", "FREE_DMA_BUF", "GET_DRIVER_INFO", "RESET_DEVICE",
	"PIN_PAGES", "LOCK_CTL", "MAP_PEER_BAR", "UNPIN_PAGES", "ALLOCATE_TLB", "FREE_TLB", "CONFIGURE_TLB", "SET_NOC_CLEANUP",
	"SET_POWER_STATE", "EXPORT_TLB_DMABUF",
}

// command names an ioctl's command.
func command(cmd uint32) string {
	if n := cmd & 0xFF; cmd>>8 == magic && int(n) < len(commands) {
		return commands[n]
	}
	return fmt.Sprintf("%#x", cmd)
}

// driverFunctions are functions of the kernel driver in which a process may wait (tt-kmd's
// chardev.c and memory.c).
var driverFunctions = map[string]bool{
	"tt_cdev_ioctl": true, "tt_cdev_mmap": true, "tt_cdev_open": true, "tt_cdev_release": true,
	"ioctl_pin_pages": true, "ioctl_unpin_pages": true, "ioctl_allocate_tlb": true, "ioctl_free_tlb": true,
	"ioctl_configure_tlb": true, "ioctl_allocate_dma_buf": true, "ioctl_free_dma_buf": true, "ioctl_query_mappings": true,
	"ioctl_lock_ctl": true, "ioctl_reset_device": true, "ioctl_set_power_state": true,
	"tenstorrent_set_aggregated_power_state": true,
}

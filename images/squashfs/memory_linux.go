package squashfs

import "golang.org/x/sys/unix"

// takeMemory takes memory that goes back to the system at once when it is freed.
func takeMemory(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

func freeMemory(b []byte) { _ = unix.Munmap(b) } // fails for what is no memory alone

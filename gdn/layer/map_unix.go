//go:build unix

package layer

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile maps a file into memory, so that only what is used of it is read.
func mapFile(path string) (data []byte, release func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() || info.Size() == 0 || info.Size() != int64(int(info.Size())) {
		return nil, nil, fmt.Errorf("%s is not a regular file with content", path)
	}
	data, err = syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, func() error { return syscall.Munmap(data) }, nil
}

// forget lets the pages go that are in a part of a mapped file alone: what was copied out need not be held twice. They are read again when they
// are asked for. A part that is not of the file stays as it is.
func forget(file, part []byte) {
	at := int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(file))))
	if at < 0 || at > len(file) || len(part) > len(file)-at {
		return
	}
	page := os.Getpagesize()
	from, to := (at+page-1)/page*page, (at+len(part))/page*page
	if from < to {
		_ = unix.Madvise(file[from:to], unix.MADV_DONTNEED) // or they stay
	}
}

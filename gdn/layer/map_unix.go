//go:build unix

package layer

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile maps a file into memory, so that only used pages are read.
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

// forget drops the mapped pages that lie entirely in part, after their content was copied. A later access reads them again. A part outside of
// the file is ignored.
func forget(file, part []byte) {
	at := int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(file))))
	if at < 0 || at > len(file) || len(part) > len(file)-at {
		return
	}
	page := os.Getpagesize()
	from, to := (at+page-1)/page*page, (at+len(part))/page*page
	if from < to {
		_ = unix.Madvise(file[from:to], unix.MADV_DONTNEED) // on failure the pages just stay
	}
}

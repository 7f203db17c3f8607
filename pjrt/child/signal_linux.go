//go:build amd64 || arm64

package child

import (
	"syscall"
	"unsafe"
)

// DieBySignal makes the kernel end this process on a fault in a foreign library, instead of Go's handlers. The parent then sees the
// signal, and standard error has the library's output instead of goroutines. No core is written.
func DieBySignal() {
	syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	var standard struct {
		handler, flags, restorer, mask uintptr // the kernel's sigaction; zero is SIG_DFL
	}
	for _, s := range []syscall.Signal{syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGSEGV, syscall.SIGTRAP} {
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&standard)), 0, unsafe.Sizeof(standard.mask), 0, 0)
	}
}

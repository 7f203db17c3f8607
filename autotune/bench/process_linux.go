package bench

import "syscall"

// processAttributes puts a child out of reach of the terminal's signals and ends it with this process.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

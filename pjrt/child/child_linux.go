package child

import (
	"os"
	"syscall"
)

// executable returns the running program, even if its file was renamed, replaced or removed.
func executable() (string, error) { return "/proc/self/exe", nil }

// attributes puts a child out of reach of the terminal's signals, and ends it with this process.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func kill(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }

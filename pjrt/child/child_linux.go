package child

import (
	"os"
	"syscall"
)

// executable is the running program under whatever name it was started, even if its file was replaced or removed since.
func executable() (string, error) { return "/proc/self/exe", nil }

// attributes put a child out of reach of the terminal's signals and end it with this process.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func kill(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }

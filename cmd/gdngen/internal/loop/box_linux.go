package loop

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// start runs a command in its own namespaces and returns its exit status. It runs twice: in the process that creates
// the namespaces, and in the first process inside, which makes the mounts.
func (b boxed) start() (int, error) {
	runtime.LockOSThread() // the thread's end signals the child
	if os.Getpid() == 1 {
		if err := b.mounts(); err != nil {
			return -1, err
		}
		if !b.Box.Open {
			if err := loopback(); err != nil {
				return -1, err
			}
		}
		// In a second namespace with the user's own id the mounts of the first are locked.
		c := exec.Command(b.Words[0], b.Words[1:]...)
		c.Dir = b.Dir
		return ended(c, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, UidMappings: ids(uid, 0), GidMappings: ids(gid, 0), Pdeathsig: syscall.SIGKILL})
	}
	flags := unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if !b.Box.Open {
		flags |= unix.CLONE_NEWNET
	}
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", idsVariable, os.Getuid(), os.Getgid()))
	return ended(c, &syscall.SysProcAttr{Cloneflags: uintptr(flags), UidMappings: ids(0, os.Getuid()), GidMappings: ids(0, os.Getgid()), Setsid: true, Pdeathsig: syscall.SIGKILL})
}

const idsVariable = "GDNGEN_LOOP_IDS"

var uid, gid int

func init() {
	fmt.Sscanf(os.Getenv(idsVariable), "%d %d", &uid, &gid)
	os.Unsetenv(idsVariable)
}

func ids(inside, outside int) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{ContainerID: inside, HostID: outside, Size: 1}}
}

// ended runs a command and returns its exit status, 128 + n for signal n.
func ended(c *exec.Cmd, attributes *syscall.SysProcAttr) (int, error) {
	c.Stdin, c.Stdout, c.Stderr, c.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, attributes
	err := c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if w := exit.Sys().(syscall.WaitStatus); w.Signaled() {
			return 128 + int(w.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

// mounts builds a new root over the stage and enters it. Sources are paths of the old root, which stays until the end.
func (b boxed) mounts() error {
	root := b.Box.Stage
	at := func(p string) string { return filepath.Join(root, p) }
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts can not be made private: %w", err)
	}
	if err := unix.Mount("/", root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("/ can not be bound: %w", err)
	}
	if err := readonly(root); err != nil {
		return err
	}
	if err := memory(at("/dev"), "mode=755,size=1m"); err != nil {
		return err
	}
	if err := b.devices(at("/dev")); err != nil {
		return err
	}
	if err := b.proc(at("/proc")); err != nil {
		return err
	}
	for _, d := range b.Box.Hidden {
		if _, err := os.Stat(at(d)); err != nil {
			continue // below a hidden folder
		}
		if err := memory(at(d), "mode=1777,size=25%"); err != nil {
			return err
		}
	}
	for _, d := range b.Box.Writable {
		if err := bind(d, at(d), true); err != nil {
			return err
		}
	}
	for _, p := range b.Box.twins() {
		if err := bind(p[0], at(p[1]), false); err != nil {
			return err
		}
	}
	for _, f := range b.Box.Masked {
		if _, err := os.Stat(at(f)); err == nil {
			if err := bind("/dev/null", at(f), false); err != nil {
				return err
			}
		}
	}
	// The old root is put over the new one, and unmounted.
	if err := errors.Join(os.Chdir(root), unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH), os.Chdir("/")); err != nil {
		return fmt.Errorf("the new root can not be entered: %w", err)
	}
	return nil
}

func memory(at, options string) error {
	if err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("%s can not be made empty: %w", at, err)
	}
	return nil
}

// bind mounts a file or folder of the old root at a path of the new one, which is created if missing.
func bind(from, to string, writable bool) error {
	info, err := os.Stat(from)
	if err != nil {
		return nil // it was removed since the box was chosen
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else if _, bad := os.Lstat(to); bad != nil {
		err = os.WriteFile(to, nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("%s can not be shown: %w", from, err)
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("%s can not be shown: %w", from, err)
	}
	if !writable {
		return readonly(to)
	}
	return nil
}

// readonly makes a mount and those below it read-only, without setuid programs.
func readonly(at string) error {
	err := unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
	if err == nil || !errors.Is(err, unix.ENOSYS) {
		return wrapped(at, err)
	}
	f, err := os.Open("/proc/self/mountinfo") // Linux before 5.12: one by one
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 {
			continue
		}
		path := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		if path != at && !strings.HasPrefix(path, at+"/") {
			continue
		}
		flags := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID)
		for _, o := range strings.Split(fields[5], ",") { // options of earlier mounts are locked
			flags |= map[string]uintptr{"nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC, "noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME}[o]
		}
		if err := unix.Mount("", path, "", flags, ""); err != nil {
			return wrapped(path, err)
		}
	}
	return nil
}

func wrapped(at string, err error) error {
	if err != nil {
		return fmt.Errorf("%s can not be made read-only: %w", at, err)
	}
	return nil
}

// devices fills a new /dev, without disks, memory or the user's terminal.
func (b boxed) devices(dev string) error {
	for _, d := range append([]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}, devices()...) {
		if err := bind(d, filepath.Join(dev, strings.TrimPrefix(d, "/dev")), true); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	pts, shm := filepath.Join(dev, "pts"), filepath.Join(dev, "shm")
	if err := errors.Join(os.Mkdir(pts, 0o755), os.Mkdir(shm, 0o1777), memory(shm, "mode=1777,size=25%")); err != nil {
		return err
	}
	unix.Mount("devpts", pts, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620") // terminals are a convenience
	return nil
}

// proc mounts the process table of the box. The kernel's switches are read-only: root could write them.
func (b boxed) proc(at string) error {
	if err := unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("the process table can not be mounted: %w", err)
	}
	for _, name := range switches {
		p := filepath.Join(at, name)
		if err := bind(p, p, false); err != nil {
			return err
		}
	}
	return nil
}

// loopback brings up the box's own loopback interface.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

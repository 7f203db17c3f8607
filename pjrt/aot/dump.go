package aot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/pjrt/llo"
)

// initArgs returns the value of LIBTPU_INIT_ARGS. libtpu reads it once, when it is loaded, splits it at spaces and keeps quotes. The
// source annotations put loc("file":line:column) of Mosaic ops into the comments of the schedule, and change nothing else. Ops without a
// location get "-" and their line and column in the text of the body.
func initArgs(link, passes, extra string) string {
	flags := llo.Flags
	if passes != "" {
		flags += "|" + passes
	}
	return strings.TrimSpace(fmt.Sprintf("--xla_jf_dump_to=%s %s %s", link, flags, extra))
}

// pointLink atomically makes link a symbolic link to dir. It replaces a folder, which libtpu creates if it finds no link.
func pointLink(link, dir string) error {
	if at, err := os.Lstat(link); err == nil && at.IsDir() {
		if err := os.RemoveAll(link); err != nil {
			return err
		}
	}
	next := link + ".next"
	if err := os.Remove(next); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Symlink(dir, next); err != nil {
		return err
	}
	return os.Rename(next, link)
}

// clearDir empties dir.
func clearDir(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		os.RemoveAll(filepath.Join(dir, e.Name()))
	}
}

// settleLimit is how long dump files may stay open after the compile returned.
const settleLimit = 10 * time.Second

// awaitDump returns when this process has no open file under dir and the dump includes the schedule.
func awaitDump(dir, schedule string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		open := openFiles(real)
		switch {
		case len(open) > 0 && time.Since(start) > settleLimit:
			return fmt.Errorf("still being written after %v: %s", settleLimit, open[0])
		case len(open) > 0:
			continue
		}
		found, err := filepath.Glob(filepath.Join(escapeGlob(real), schedule))
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("the compiler wrote no schedule (%s) to %s; this build may have renamed its dump flags", schedule, dir)
		}
		return err
	}
}

// openFiles lists the files under dir that this process has open.
func openFiles(dir string) []string {
	var open []string
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if path, err := os.Readlink(fd); err == nil && strings.HasPrefix(path, dir+string(filepath.Separator)) {
			open = append(open, path)
		}
	}
	return open
}

// dumpedHLO returns the optimised module from the dump in dir: the newest, if earlier requests left some.
func dumpedHLO(dir, pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("the compiler wrote no optimised HLO (%s) to %s", pattern, dir)
	}
	text, err := os.ReadFile(slices.Max(found))
	return string(text), err
}

// escapeGlob escapes the characters that filepath.Glob interprets.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

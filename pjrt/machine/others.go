package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// disturbed is the share of the processors that others may use before a timing counts as disturbed.
const disturbed = .5

// Disturbed is the beginning of the warning that timings were disturbed.
const Disturbed = "other processes used"

// clockTick is the unit of processor time in /proc.
const clockTick = 10 * time.Millisecond

// Others is the processor use of processes other than this one and its descendants, over some time.
type Others struct {
	Cores float64 // on average; 0 if unknown
	Of    int     // processors
}

// Disturb reports whether the use is so high that times may be longer.
func (o Others) Disturb() bool { return o.Cores > disturbed*float64(o.Of) }

func (o Others) String() string {
	return fmt.Sprintf(Disturbed+" %.1f of %d processors meanwhile: times may be longer for it", o.Cores, o.Of)
}

// Watch starts measuring the use of others; the function it returns ends that and returns the result.
func Watch() (end func() Others) {
	start, busy, own := time.Now(), busyTime(), ownTime()
	return func() Others {
		o := Others{Of: runtime.NumCPU()}
		if took := time.Since(start); busy > 0 && took > 0 {
			o.Cores = max(0, float64((busyTime()-busy)-(ownTime()-own))/float64(took))
		}
		return o
	}
}

// busyTime returns the processor time of all processes since the system started; 0 if unknown.
func busyTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks int64
	for i, f := range strings.Fields(line) {
		if i >= 1 && i <= 3 || i == 6 || i == 7 { // user, nice, system, and interrupts; not idle or waiting
			n, _ := strconv.ParseInt(f, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick
}

// ownTime returns the processor time of this process, its descendants, and the children that these have reaped.
func ownTime() (sum time.Duration) {
	type process struct {
		parent int
		ticks  int64
	}
	all := map[int]process{}
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(f) < 15 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		p := process{}
		p.parent, _ = strconv.Atoi(f[1])
		for _, ticks := range f[11:15] { // user and system time, of itself and of reaped children
			n, _ := strconv.ParseInt(ticks, 10, 64)
			p.ticks += n
		}
		all[pid] = p
	}
	for pid, p := range all {
		for at := pid; at > 1; at = all[at].parent {
			if at == os.Getpid() {
				sum += time.Duration(p.ticks) * clockTick
				break
			}
		}
	}
	return sum
}

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

// disturbed is the share of the processors that others may use before a timing says so.
const disturbed = .5

// Disturbed begins the text that says so.
const Disturbed = "other processes used"

// clockTick is what /proc counts processor time in.
const clockTick = 10 * time.Millisecond

// Others is how much other processes than this one, and those below it, used the processors for a while.
type Others struct {
	Cores float64 // on the mean; 0 where the system does not tell
	Of    int     // processors
}

// Disturb says whether it is so much that times may be longer for it.
func (o Others) Disturb() bool { return o.Cores > disturbed*float64(o.Of) }

func (o Others) String() string {
	return fmt.Sprintf(Disturbed+" %.1f of %d processors meanwhile: times may be longer for it", o.Cores, o.Of)
}

// Watch begins to look at what others use; the function ends it and tells.
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

// busyTime is the processor time of all processes since the system began; 0 where the system does not tell.
func busyTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks int64
	for i, f := range strings.Fields(line) {
		if i >= 1 && i <= 3 || i == 6 || i == 7 { // user, nice, system, and interrupts; idle and waiting are not
			n, _ := strconv.ParseInt(f, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick
}

// ownTime is the processor time of this process, of those below it, and of those that they have waited for.
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
		for _, ticks := range f[11:15] { // user and system, of itself and of children that it waited for
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

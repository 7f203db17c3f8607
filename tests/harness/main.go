// Command harness tries what must not be lost, believed or hang, as a whole: disks that fail or lose power, flipped bits, kills, hostile agents,
// servers and workers, data races, parsers on any bytes, and what staticcheck, govulncheck and deadcode find. Tests of the packages have samples of the
// same.
//
//	go run ./tests/harness                 all of it, some hours
//	go run ./tests/harness -only fuzz -for 90s
//	go run ./tests/harness -ci             what CI draws by the commit, about two minutes
//
// It writes a dated row of each into tests/harness/results.tsv, the table of docs/trust.md, and inputs worth keeping into the folders of the fuzz targets.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gdngen/gdngen/internal/rotate"
)

// check is one row: tests of a package, and the figure that they log, or a program that looks at the whole.
type check struct {
	group, name string
	args        []string // of go test
	env         []string
	alone       bool   // in namespaces of its own
	tool        string // the package of a program that is run in place of tests, with its version
}

// tests is a check of some tests of a package.
func tests(group, pkg, run string, more ...string) check {
	return check{group: group, name: pkg, args: append([]string{"./" + pkg, "-run", run, "-v", "-count", "1", "-timeout", "60m"}, more...)}
}

// fuzzed are the fuzz targets, as "package Name".
var fuzzed = []string{
	"ir FuzzParse", "ir/array FuzzParseSafetensors", "ir/interp FuzzRun", "gdn FuzzSpecText", "gdn FuzzVariantText", "gdn/model FuzzConfig",
	"codegen/mlir FuzzParse", "codegen/mosaic/eval FuzzKernel", "pjrt FuzzParseSignature", "pjrt/trace FuzzRead", "pjrt/llo FuzzSchedule", "pjrt/llo FuzzUtilization",
	"pjrt/llo/hlo FuzzModule", "pjrt/gpu/sass FuzzSass", "pjrt/gpu/thunk FuzzThunk", "autotune/flashinfer FuzzParse", "autotune/journal FuzzBodies", "autotune/journal FuzzJournal",
	"autotune/worker FuzzMessages", "internal/store FuzzChain", "internal/terminal FuzzOthers", "cmd/gdngen/internal/loop FuzzPlan",
}

// raced are the packages that the race detector watches.
var raced = []string{"autotune", "cmd/gdngen/internal/loop", "internal/remote", "pjrt/child", "autotune/measure", "autotune/worker", "autotune/journal"}

// tools look at all packages. The second needs data of vuln.go.dev.
var tools = []check{{group: "static", name: "staticcheck", tool: "honnef.co/go/tools/cmd/staticcheck@v0.8.2", args: []string{"./..."}}, {group: "static", name: "govulncheck", tool: "golang.org/x/vuln/cmd/govulncheck@v1.9.0", args: []string{"./..."}},
	{group: "static", name: deadcode, tool: "golang.org/x/tools/cmd/deadcode@v0.44.0", args: programs}}

const deadcode = "deadcode"

// unreachable is what a tool says that could not be fetched, or could not fetch its data.
var unreachable = regexp.MustCompile(`(?m)^(go: \S+@|govulncheck: fetching).*$`)

const loops = "cmd/gdngen/internal/loop"

// fuzz is a check of a fuzz target, for a time or a number of runs.
func fuzz(target, long string) check {
	pkg, name, _ := strings.Cut(target, " ")
	return check{group: "fuzz", name: target, args: []string{"./" + pkg, "-run", "^$", "-fuzz", "^" + name + "$", "-fuzztime", long, "-fuzzminimizetime", "5x", "-parallel", "1"}}
}

// race is a check of a package by the race detector.
func race(pkg string) check {
	return check{group: "race", name: pkg, args: []string{"-race", "-short", "-count", "1", "-timeout", "15m", "./" + pkg}}
}

// all lists the checks.
func all(long time.Duration) (l []check) {
	for _, pkg := range []string{"internal/store", "autotune/journal", "autotune/bench", "autotune", loops} {
		l = append(l, tests("faults", pkg, "PowerLoss|DiskFaults|NoMemory"))
	}
	for _, pkg := range []string{"internal/store", "autotune/journal", "autotune/bench", "autotune/ladder", loops} {
		l = append(l, tests("flips", pkg, "Flips"))
	}
	l = append(l, tests("kills", "autotune", "^TestKill$", "-kills", "60"), tests("kills", loops, "RandomKills", "-kills", "60"), tests("kills", "autotune/worker", "DriverKilled"))
	for _, x := range [][2]string{{loops, "WaysOut|JudgeSwapped|EndlessForGit|Unreadable|NoSandbox|LooseBubblewrap|Agents|AsOrdinaryUser|MaxDisk|Spend"}, {"autotune/worker", "Hostile|Misbehaving|Swindle|NeverReady|BudgetEnds|Confirming|LesserFaults|Slow|ThreeLosses|Refused|Doubt|BadDriver|LongLine"}, {"autotune", "Proposer|VerifyOther"}, {"autotune/judge", "Contradictions"}, {"pjrt/trace", "Bounded"}, {"gdn/layer", "WeightsCut"}, {"internal/remote", "Hostile"},
		{"internal/web", "Hostile"}, {"autotune/contest", "Hostile"}, {"pjrt/trace/fetch", "Hostile|NoOtherHost"}, {"pjrt/plugins", "Try|Damaged|Marks"}} {
		c := tests("hostile", x[0], x[1])
		c.alone = true
		l = append(l, c)
	}
	for i := range l {
		l[i].env = []string{rotate.Env + "=all"}
	}
	for _, pkg := range raced {
		l = append(l, race(pkg))
	}
	for _, target := range fuzzed {
		l = append(l, fuzz(target, long.String()))
	}
	return append(l, tools...)
}

// figures are what tests log, and how a row says it; figures of a kind are added up.
var figures = []struct {
	log  *regexp.Regexp
	says string
}{
	{regexp.MustCompile(`(?m): (\d+) losses of power`), "losses of power"},
	{regexp.MustCompile(`(?m): (\d+) faults`), "faults"},
	{regexp.MustCompile(`(?m): (\d+) of \d+ flips seen`), "flips, all seen"},
	{regexp.MustCompile(`(?m): (\d+) kills`), "kills"},
	{regexp.MustCompile(`(?m)^ *--- PASS: (Test)`), "tests and cases"},
}

// notes are lines of staticcheck, and heads of govulncheck.
var notes = regexp.MustCompile(`(?m)^\S+\.go:\d+:\d+: |^Vulnerability #\d+`)

var execs = regexp.MustCompile(`execs: (\d+)`)

// figure says what a check came to.
func (c *check) figure(out string) string {
	if c.group == "fuzz" {
		if l := execs.FindAllStringSubmatch(out, -1); l != nil {
			return l[len(l)-1][1] + " runs"
		}
		return "no runs"
	}
	switch c.group {
	case "race":
		return fmt.Sprintf("%d races", strings.Count(out, "WARNING: DATA RACE"))
	case "static":
		return fmt.Sprintf("%d notes", len(notes.FindAllString(out, -1)))
	}
	var found []string
	for i, f := range figures {
		n := 0
		for _, m := range f.log.FindAllStringSubmatch(out, -1) {
			x, err := strconv.Atoi(m[1])
			if err != nil {
				x = 1
			}
			n += x
		}
		if n > 0 && (len(found) == 0 || i < len(figures)-1) { // the last kind stands for a check that has no other
			found = append(found, fmt.Sprintf("%d %s", n, f.says))
		}
	}
	return cmp.Or(strings.Join(found, ", "), "no test ran")
}

// run runs a check, and gives its row. Its output goes to standard error where it fails.
func (c *check) run(ctx context.Context, commit string) row {
	begun := time.Now()
	words := append([]string{"go", "test", "-vet=off"}, c.args...)
	if c.tool != "" {
		words = append([]string{"go", "run", c.tool}, c.args...)
	}
	if c.alone && exec.Command("unshare", "--pid", "--mount", "--fork", "--kill-child", "true").Run() == nil {
		words = append([]string{"unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"}, words...)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil && c.name == deadcode {
		var left string
		if left, err = dead(out.String()); err == nil && left != "" {
			err = errors.New("no program reaches these: delete them, or say in tests/harness/dead.go why they stay")
		}
		out.Reset()
		out.WriteString(left)
	}
	r := row{c.group, c.name, c.figure(out.String()), "passed", int(time.Since(begun).Seconds()), time.Now().UTC().Format("2006-01-02"), commit}
	if c.group == "race" {
		r.figure += fmt.Sprintf(", %d s of processor time", int((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()))
	}
	if why := unreachable.FindString(out.String()); err != nil && c.tool != "" && why != "" {
		r.figure, r.verdict = "its program or data can not be had here: "+strings.ReplaceAll(why, "\t", " "), "not run"
		return r
	}
	if err != nil || strings.HasPrefix(r.figure, "no ") {
		r.verdict = "FAILED"
		fmt.Fprintf(os.Stderr, "%s\n%s %s: %v\n", out.String(), c.group, c.name, err)
	}
	return r
}

// drawn is what CI runs of all: two fuzz targets for 3,000 runs, one package by the race detector, and the tools.
func drawn() []check {
	l := append(slices.Clone(tools), race(raced[rotate.Rand(1).IntN(len(raced))]))
	for _, i := range rotate.Rand(2).Perm(len(fuzzed))[:2] {
		l = append(l, fuzz(fuzzed[i], "3000x"))
	}
	return l
}

func main() {
	only := flag.String("only", "", "groups, separated by commas: faults, flips, kills, hostile, race, fuzz, static")
	name := flag.String("name", "", "checks whose name has this")
	long := flag.Duration("for", 90*time.Second, "how long each fuzz target runs")
	ci := flag.Bool("ci", false, "what CI draws by the commit; nothing is written")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	list := all(*long)
	if *ci {
		list = drawn()
	}
	head, _ := exec.Command("git", "rev-parse", "--short=8", "HEAD").Output()
	commit := cmp.Or(strings.TrimSpace(string(head)), "unknown")
	failed := 0
	for _, c := range list {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), c.group) || !strings.Contains(c.name, *name) {
			continue
		}
		r := c.run(ctx, commit)
		if ctx.Err() != nil {
			os.Exit(130)
		}
		fmt.Println(r)
		if r.verdict == "FAILED" {
			failed++
		}
		if *ci {
			continue
		}
		err := keep(r)
		if err == nil && c.group == "fuzz" {
			err = keepInputs(c.name)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if failed > 0 {
		os.Exit(1)
	}
}
